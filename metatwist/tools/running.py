"""Runs one tool in the reactor, from its beginning to an orderly end.

The first SIGINT or SIGTERM asks the tool to stop, which it does in order: what was read
is sent, what was written is committed, the group is left. The second one kills.
What cannot be reached is given up soon after the user's patience is over.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.logger import (
    FilteringLogObserver,
    Logger,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogBeginner,
    textFileLogObserver,
)

from metatwist.client.client import MetaClient
from metatwist.client.errors import NotConnected
from metatwist.coordination.foreign_text import escaped
from metatwist.coordination.interface import ICoordinator
from metatwist.tools.ending import Ending, code_of_signal, ending_of
from metatwist.tools.session import connected
from metatwist.tools.target import Target
from metatwist.tools.trying import with_attempts

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CLOSE_WITHIN_S = 0.25  # connections of which nothing comes
_T = TypeVar("_T")


class Stop:
    """Whether the user wants the end; `signal_number` says by what."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._waits: dict[Deferred[Any], None] = {}

    @property
    def wanted(self) -> bool:
        """Whether the end was asked for."""
        return self.signal_number is not None

    def ask(self, signal_number: int) -> None:
        """End all waits. Idempotent."""
        if self.signal_number is None:
            self.signal_number = signal_number
        for wait in tuple(self._waits):
            wait.cancel()

    def ends(self, wait: Deferred[_T]) -> Deferred[_T]:
        """The same Deferred, which from now on a stop cancels."""
        if self.wanted:
            wait.cancel()
            return wait
        self._waits[wait] = None

        def over(result: Any) -> Any:
            self._waits.pop(wait, None)
            return result

        return wait.addBoth(over)


@frozen
class Scene:
    """What every tool works with; there is no coordinator where brokers are known by
    their addresses alone."""

    reactor: Any
    client: MetaClient
    coordinator: ICoordinator | None
    stop: Stop
    target: Target

    def say(self, text: str) -> None:
        """A note for the user on stderr, unless that is to be quiet."""
        if not self.target.quiet:
            print(escaped(text), file=sys.stderr, flush=True)

    @property
    def code(self) -> int:
        """What to exit with when all went well: 0, or what the signal says."""
        number = self.stop.signal_number
        return 0 if number is None else code_of_signal(number)


Tool = Callable[[Scene], Coroutine[Any, Any, int]]
"""Does the work and answers the exit code."""


def check(target: Target) -> None:
    """Raise ValueError for what is no address, connect string or root."""
    from twisted.internet import reactor

    target.check(reactor)


def run_tool(target: Target, tool: Tool) -> Ending:
    """Start the reactor and a client, run the tool, stop both. Once a process."""
    from twisted.internet import reactor

    _begin_logging(target.verbose)
    return run_in(reactor, target, tool)


def run_in(reactor: Any, target: Target, tool: Tool) -> Ending:
    """The same in a reactor that does not run yet."""
    stop, endings = Stop(), list[Ending]()

    async def begin() -> None:
        try:
            endings.append(Ending(await _with_client(reactor, stop, target, tool)))
        except Exception as error:
            Logger(__name__).failure("ended", level=LogLevel.info)
            endings.append(ending_of(error, stop.signal_number))
        finally:
            reactor.stop()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(begin()))
    with _asking(reactor, stop):
        reactor.run(installSignalHandlers=False)
    return endings[0]


async def _with_client(reactor: Any, stop: Stop, target: Target, tool: Tool) -> int:
    coordinator = target.coordinator(reactor)
    client = target.client(reactor, coordinator)
    client.startService()
    patience_s: float | None = None
    try:
        if coordinator is not None:
            coordinator.startService()
            connect, limit_s = str(target.zookeeper), target.timeout_s
            await stop.ends(connected(reactor, coordinator, connect, limit_s))
        return await tool(Scene(reactor, client, coordinator, stop, target))
    except NotConnected as error:
        patience_s = _CLOSE_WITHIN_S
        if error.attempts:
            raise
        raise await with_attempts(reactor, client, target, error) from error
    finally:
        await _within(reactor, client.stop(), patience_s)
        if coordinator is not None:
            await coordinator.stopService()


async def _within(reactor: Any, ending: Deferred[None], limit_s: float | None) -> None:
    """Wait for an end, no longer than the limit if there is one."""
    if limit_s is None:
        await ending
        return
    with suppress(TimeoutError):
        await ending.addTimeout(limit_s, reactor)


@contextmanager
def _asking(reactor: Any, stop: Stop) -> Iterator[None]:
    """Let signals ask `stop`, as long as this lasts."""

    asked_before = False

    def asked(number: int, _frame: FrameType | None) -> None:
        nonlocal asked_before
        if asked_before:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        asked_before = True
        reactor.callFromThread(stop.ask, number)

    before = {one: signal.signal(one, asked) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, call in before.items():
            signal.signal(one, call)


def _begin_logging(verbose: bool) -> None:
    observers: list[Any] = []
    if verbose:
        level = LogLevelFilterPredicate(defaultLogLevel=LogLevel.info)
        everything = textFileLogObserver(sys.stderr)
        observers.append(FilteringLogObserver(everything, [level]))
    globalLogBeginner.beginLoggingTo(
        observers, discardBuffer=True, redirectStandardIO=False
    )
