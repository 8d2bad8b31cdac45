"""Where `consume` and `browse` put messages: stdout, a file, or a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from attrs import frozen
from twisted.internet.defer import Deferred

from metatwist.client.message import ReceivedMessage
from metatwist.tools.descriptors import Writing, on_thread
from metatwist.tools.formats import Render, renderer
from metatwist.tools.running import Stop

STDOUT = 1


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

    def open(self, reactor: Any) -> Output:
        """Open or make it; raises OSError."""
        if self.path is None:
            safe = os.isatty(STDOUT)
            render = renderer(self.name, self.delimiter, safe)
            return StreamOutput(reactor, STDOUT, render)
        if self.path.endswith("/") or os.path.isdir(self.path):
            os.makedirs(self.path, exist_ok=True)
            alone = renderer(self.name, self.delimiter or b"")
            return FolderOutput(reactor, Path(self.path), alone)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self.path, flags, 0o666)
        render = renderer(self.name, self.delimiter)
        return StreamOutput(reactor, descriptor, render, self.path)

    @property
    def shares_the_terminal(self) -> bool:
        """Whether messages appear where a progress bar would."""
        return self.path is None and sys.stdout.isatty()


class StreamOutput:
    """One message after the other into a descriptor, which it closes unless it is
    stdout."""

    def __init__(
        self, reactor: Any, descriptor: int, render: Render, name: str = "stdout"
    ) -> None:
        self._name = name
        self._descriptor = descriptor
        self._render = render
        self._writing = Writing(reactor, descriptor)
        self.may_wait = not self._writing.is_file

    async def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """See Output."""
        try:
            await self._writing.write(b"".join(map(self._render, messages)))
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
