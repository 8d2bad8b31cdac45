"""Descriptors of pipes, terminals and files, read and written beside the reactor.

Pipes and terminals may make a reader or writer wait as long as they like: they are
touched when they are ready. Files are read and written on a thread, where they take a
moment. A thread must not wait for a pipe: nothing could end it.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor, IWriteDescriptor
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer

CHUNK_BYTES = 256 << 10
# What a pipe that is ready takes at once, without making its writer wait.
_PORTION_BYTES = select.PIPE_BUF
_PORTIONS = 64


def on_thread(reactor: Any, call: Any, *arguments: Any) -> Deferred[Any]:
    """What `call` returns or raises, on a thread of the reactor's pool. Cancelling
    stops the wait alone."""
    return deferToThreadPool(reactor, reactor.getThreadPool(), call, *arguments)


@implementer(IReadDescriptor, IWriteDescriptor)
class _Readiness:
    """Fires once a descriptor is ready, or broken: using it will tell."""

    def __init__(self, reactor: Any, descriptor: int) -> None:
        self._reactor = reactor
        self._descriptor = descriptor
        self._waiting: Deferred[None] | None = None

    def readable(self) -> Deferred[None]:
        """Cancelling stops the wait."""
        waiting: Deferred[None] = Deferred(self._forget)
        self._waiting = waiting
        self._reactor.addReader(self)
        return waiting

    def writable(self) -> Deferred[None]:
        """Cancelling stops the wait."""
        waiting: Deferred[None] = Deferred(self._forget)
        self._waiting = waiting
        self._reactor.addWriter(self)
        return waiting

    def _forget(self, _waiting: object) -> None:
        self._waiting = None
        self._reactor.removeReader(self)
        self._reactor.removeWriter(self)

    def _fire(self) -> None:
        waiting = self._waiting
        self._forget(waiting)
        if waiting is not None:
            waiting.callback(None)

    def fileno(self) -> int:
        """See IFileDescriptor."""
        return self._descriptor

    def logPrefix(self) -> str:
        """See ILoggingContext."""
        return f"descriptor {self._descriptor}"

    def doRead(self) -> None:
        """See IReadDescriptor."""
        self._fire()

    def doWrite(self) -> None:
        """See IWriteDescriptor."""
        self._fire()

    def connectionLost(self, _reason: object) -> None:
        """See IFileDescriptor: the other end is closed."""
        self._fire()


class Reading:
    """Reads an open descriptor."""

    def __init__(self, reactor: Any, descriptor: int) -> None:
        self._reactor = reactor
        self._descriptor = descriptor
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._readiness = _Readiness(reactor, descriptor)

    async def chunk(self) -> bytes:
        """The next bytes, none at the end; raises OSError. Cancelling loses nothing of
        a pipe."""
        if self._is_file:
            call = (os.read, self._descriptor, CHUNK_BYTES)
            found: bytes = await on_thread(self._reactor, *call)
            return found
        await self._readiness.readable()
        return os.read(self._descriptor, CHUNK_BYTES)


class Writing:
    """Writes to an open descriptor, one call at a time; a pipe may wait for its reader,
    what `is_file` does not."""

    def __init__(self, reactor: Any, descriptor: int) -> None:
        self._reactor = reactor
        self._descriptor = descriptor
        self.is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._readiness = _Readiness(reactor, descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    async def write(self, records: Sequence[bytes]) -> None:
        """All of them; raises OSError: BrokenPipeError when nobody reads any more. A
        file has whole records then."""
        if self.is_file:
            await on_thread(self._reactor, _write_all, self._descriptor, records)
            return
        rest = memoryview(b"".join(records))
        while rest:
            await self._readiness.writable()
            rest = self._write_some(rest)

    def _write_some(self, rest: memoryview) -> memoryview:
        for _ in range(_PORTIONS):
            if not rest or not self._poll.poll(0):
                break
            rest = rest[os.write(self._descriptor, rest[:_PORTION_BYTES]) :]
        return rest

    async def settle(self) -> None:
        """Bring a file safely to the disk; what went into a pipe is out of reach."""
        if self.is_file:
            await on_thread(self._reactor, os.fdatasync, self._descriptor)


def _write_all(descriptor: int, records: Sequence[bytes]) -> None:
    rest = memoryview(b"".join(records))
    size = len(rest)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        _cut_back(descriptor, _torn_bytes(records, size - len(rest)))
        raise


def _torn_bytes(records: Sequence[bytes], written: int) -> int:
    """How much of what was written belongs to a record that is not whole."""
    for record in records:
        if len(record) > written:
            break
        written -= len(record)
    return written


def _cut_back(descriptor: int, torn: int) -> None:
    """Take back the last bytes, unless another process has written behind them."""
    end = os.lseek(descriptor, 0, os.SEEK_CUR)
    if torn and os.fstat(descriptor).st_size == end:
        os.ftruncate(descriptor, end - torn)
        os.lseek(descriptor, end - torn, os.SEEK_SET)
