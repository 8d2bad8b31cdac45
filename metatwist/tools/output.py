"""Where `consume` and `browse` put messages: stdout, a file, or a folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from metatwist.client.message import ReceivedMessage
from metatwist.tools.descriptors import Writing, on_thread
from metatwist.tools.formats import Render, delimiter_behind, renderer
from metatwist.tools.running import Stop

STDOUT = 1
_READER_PERIOD_S = 0.1


class Output(Protocol):
    """Takes messages, one call at a time.

    `may_wait`: for a reader who does not read; a stop does not wait for him.
    """

    may_wait: bool

    async def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """Write them all; raises OSError."""

    async def settle(self) -> None:
        """What was taken is safe: files are on the disk. Raises OSError."""

    def close(self) -> None:
        """Let go of it."""


async def taken(
    stop: Stop, output: Output, messages: Sequence[ReceivedMessage]
) -> None:
    """`output.take`; CancelledError at a stop, where the output may wait."""
    taking = Deferred.fromCoroutine(output.take(messages))
    await (stop.ends(taking) if output.may_wait else taking)


@frozen
class OutputForm:
    """How messages look, and where they go.

    Attributes:
        name: one of `formats.FORMATS`.
        delimiter: behind each message; None for that of the format.
        path: None for stdout; a file to append to; or a folder, that exists or is
            named with a slash at its end, for a file a message.
    """

    name: str = "text"
    delimiter: bytes | None = None
    path: str | None = None

    async def open(self, reactor: Any) -> Output:
        """Open or make it; waits for the reader of a FIFO. Raises OSError."""
        if self.path is None:
            safe = os.isatty(STDOUT)
            render = renderer(self.name, self.delimiter, safe)
            return StreamOutput(reactor, STDOUT, render)
        if self.path.endswith("/") or os.path.isdir(self.path):
            os.makedirs(self.path, exist_ok=True)
            alone = renderer(self.name, self.delimiter or b"")
            return FolderOutput(reactor, Path(self.path), alone)
        descriptor = await _opened(reactor, self.path)
        delimiter = delimiter_behind(self.name, self.delimiter)
        owed = delimiter if _is_torn(self.path, delimiter) else b""
        render = renderer(self.name, self.delimiter)
        return StreamOutput(reactor, descriptor, render, self.path, owed)

    @property
    def shares_the_terminal(self) -> bool:
        """Whether messages appear where a progress bar would."""
        return self.path is None and os.isatty(STDOUT)


class StreamOutput:
    """One message after the other into a descriptor, which it closes unless it is
    stdout. Of a file that becomes full whole messages are left; `owed` goes first."""

    def __init__(
        self,
        reactor: Any,
        descriptor: int,
        render: Render,
        name: str = "stdout",
        owed: bytes = b"",
    ) -> None:
        self._name = name
        self._owed = owed
        self._descriptor = descriptor
        self._render = render
        self._writing = Writing(reactor, descriptor)
        self.may_wait = not self._writing.is_file

    async def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """See Output."""
        try:
            owed, self._owed = self._owed, b""
            await self._writing.write([owed, *map(self._render, messages)])
        except OSError as error:
            error.filename = self._name
            raise

    async def settle(self) -> None:
        """See Output."""
        await self._writing.settle()

    def close(self) -> None:
        """See Output."""
        if self._descriptor != STDOUT:
            os.close(self._descriptor)


class FolderOutput:
    """A file for each message, `<topic>.<partition>.<offset>`, with nothing behind it.
    A file with its name is whole."""

    may_wait = False

    def __init__(self, reactor: Any, folder: Path, render: Render) -> None:
        self._reactor = reactor
        self._folder = folder
        self._render = render

    async def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """See Output."""
        await on_thread(self._reactor, self._write, messages)

    def _write(self, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            topic = quote(message.topic, safe="")
            path = self._folder / f"{topic}.{message.partition}.{message.offset}"
            growing = path.with_name(f"{path.name}.part")
            with open(growing, "wb") as file:
                file.write(self._render(message))
                file.flush()
                os.fdatasync(file.fileno())
            growing.replace(path)

    async def settle(self) -> None:
        """See Output."""
        await on_thread(self._reactor, _sync_folder, self._folder)

    def close(self) -> None:
        """See Output."""


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def _opened(reactor: Any, path: str) -> int:
    """To append to. A FIFO is asked for its reader again and again: a call that waits
    for him could not be ended."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
    while True:
        try:
            descriptor = os.open(path, flags, 0o666)
            break
        except OSError as error:
            has_no_reader = error.errno == errno.ENXIO
            if not (has_no_reader and stat.S_ISFIFO(os.stat(path).st_mode)):
                raise
        await deferLater(reactor, _READER_PERIOD_S)
    os.set_blocking(descriptor, True)
    return descriptor


def _is_torn(path: str, delimiter: bytes) -> bool:
    """Whether a file ends with something else than the delimiter, as after a crash;
    False for what cannot be read."""
    with suppress(PermissionError):
        if not (delimiter and stat.S_ISREG(os.stat(path).st_mode)):
            return False
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(delimiter)))
            return size > 0 and file.read() != delimiter
    return False
