"""How a tool ends: exit codes for scripts, and the one sentence that says why."""

from __future__ import annotations

import signal
from enum import IntEnum

from attrs import evolve, frozen
from twisted.internet.defer import CancelledError

from metatwist.client.errors import ClientError, NotConnected
from metatwist.client.events import OffsetJumped
from metatwist.coordination.foreign_text import escaped
from metatwist.errors import MetatwistError


class ExitCode(IntEnum):
    """What the shell sees; 2, wrong usage, is click's own."""

    DONE = 0
    FAILED = 1
    UNREACHED = 3
    INTERRUPTED = 130
    TERMINATED = 143


_BY_SIGNAL = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}


class ToolError(MetatwistError):
    """The work cannot be done; the text is one sentence for the user."""


@frozen
class Ending:
    """`problem` is for stderr, None when all is said."""

    code: int
    problem: str | None = None


def code_of_signal(number: int) -> ExitCode:
    """What a tool exits with after an orderly stop by that signal."""
    return _BY_SIGNAL.get(signal.Signals(number), ExitCode.TERMINATED)


def ending_of(error: BaseException, signal_number: int | None) -> Ending:
    """What an exception that nobody dealt with means; `signal_number` is that of the
    stop under way, if there is one."""
    if isinstance(error, CancelledError) and signal_number is not None:
        return Ending(code_of_signal(signal_number))
    if isinstance(error, NotConnected):
        return Ending(ExitCode.UNREACHED, words_of(error))
    if isinstance(error, ClientError):
        return Ending(ExitCode.FAILED, words_of(error))
    if isinstance(error, (MetatwistError, ValueError)):
        return Ending(ExitCode.FAILED, escaped(str(error)))
    if isinstance(error, OSError):
        return Ending(ExitCode.FAILED, escaped(os_problem(error)))
    text = f"unexpected {type(error).__name__}: {error} (-v shows more)"
    return Ending(ExitCode.FAILED, escaped(text))


def os_problem(error: OSError) -> str:
    """`cannot use FILE: No space left on device`."""
    reason = error.strerror or str(error)
    return f"cannot use {error.filename}: {reason}" if error.filename else reason


def words_of_jump(jump: OffsetJumped) -> str:
    """What was passed over, in one line."""
    return (
        f"{jump.partition}: {jump.reason}, goes on at {jump.to_offset} "
        f"instead of {jump.from_offset}"
    )


def words_of(error: ClientError) -> str:
    """The error in one line that is safe to be shown. A partition of -1 is the
    broker's choice, and none."""
    if error.partition is None or error.partition.partition >= 0:
        return escaped(str(error))
    where = str(evolve(error.where, partition=None))
    return escaped(f"{error.text} ({where})" if where else error.text)
