"""The input of `produce`: pieces of stdin and of files, in order, as fast as they are
asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred

from metatwist.tools.descriptors import Reading, on_thread
from metatwist.tools.running import Stop
from metatwist.tools.splitting import Splitter

STDIN = "-"


class Piece(NamedTuple):
    """One message to be; `data` is None where it is too large. `number` counts from 1
    within its `source`."""

    source: str
    number: int
    data: bytes | None


class Lines:
    """Reads files one after the other; `-` is stdin.

    `delimiter` None takes each file as one piece. A stop ends the reading.
    """

    def __init__(
        self, reactor: Any, stop: Stop, delimiter: bytes | None, most_bytes: int
    ) -> None:
        self.read_bytes = 0
        self._reactor = reactor
        self._stop = stop
        self._delimiter = delimiter
        self._most_bytes = most_bytes

    async def pieces(self, source: str) -> AsyncIterator[list[Piece]]:
        """The pieces of each chunk that was read; raises OSError, and CancelledError
        at the stop."""
        descriptor = 0 if source == STDIN else await self._open(source)
        try:
            reading = Reading(self._reactor, descriptor)
            if self._delimiter is None:
                yield [Piece(source, 1, await self._whole(reading))]
                return
            splitter, number = Splitter(self._delimiter, self._most_bytes), 0
            while chunk := await self._chunk(reading):
                found = splitter.feed(chunk)
                yield [Piece(source, number + at, one) for at, one in _counted(found)]
                number += len(found)
            last = splitter.end()
            yield [Piece(source, number + at, one) for at, one in _counted(last)]
        finally:
            if descriptor:
                os.close(descriptor)

    async def _open(self, source: str) -> int:
        """A FIFO too is open at once; its writer is waited for by reading."""
        flags = os.O_RDONLY | os.O_NONBLOCK
        descriptor: int = await on_thread(self._reactor, os.open, source, flags)
        os.set_blocking(descriptor, True)
        return descriptor

    async def _chunk(self, reading: Reading) -> bytes:
        chunk = await self._stop.ends(Deferred.fromCoroutine(reading.chunk()))
        self.read_bytes += len(chunk)
        return chunk

    async def _whole(self, reading: Reading) -> bytes | None:
        chunks, size = [], 0
        while chunk := await self._chunk(reading):
            size += len(chunk)
            if size <= self._most_bytes:
                chunks.append(chunk)
            else:
                chunks.clear()
        return None if size > self._most_bytes else b"".join(chunks)


async def known_size(reactor: Any, sources: Sequence[str]) -> int | None:
    """Of all sources together, in bytes; None where one is no file, such as a pipe.
    Raises OSError."""
    sizes = await on_thread(reactor, lambda: list(map(_size, sources)))
    return None if None in sizes else sum(sizes)


def _size(source: str) -> int | None:
    """What is left of stdin, the whole of anything else."""
    found = os.fstat(0) if source == STDIN else os.stat(source)
    if not stat.S_ISREG(found.st_mode):
        return None
    begun = os.lseek(0, 0, os.SEEK_CUR) if source == STDIN else 0
    return max(0, found.st_size - begun)


def _counted(found: list[bytes | None]) -> enumerate[bytes | None]:
    return enumerate(found, 1)
