"""Making files durable without stopping the reactor: fsync in the kernel or on threads.

`ISyncer.sync(job, done)` calls `done(None)` or `done(error)` exactly once, on the
reactor's thread and never before it returns. Failures are not tried again: after a
failed fsync the system may have dropped the data and report success.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from attrs import define
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from metatwist.broker.io_ring import IoRing
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import SyncJob

Done = Callable[[OSError | None], None]


class ISyncer(Protocol):
    """What a commit queue needs of the disk."""

    def sync(self, job: SyncJob, done: Done) -> None:
        """Sync the job's files and directories, then call `done`."""

    def submit(self) -> bool:
        """Begin what `sync` was given; called when the turn ends. False: call again."""


class ThreadSyncer:
    """fsync on a bounded pool of threads."""

    def __init__(self, reactor: Any, pool: ThreadPool, files: FileOps) -> None:
        self._reactor = reactor
        self._pool = pool
        self._files = files

    def sync(self, job: SyncJob, done: Done) -> None:
        """See `ISyncer`."""
        waiting = deferToThreadPool(self._reactor, self._pool, self._sync_all, job)

        def failed(failure: Failure) -> None:
            error = failure.value
            done(error if isinstance(error, OSError) else OSError(str(error)))

        waiting.addCallbacks(lambda _: done(None), failed)

    def submit(self) -> bool:
        """See `ISyncer`: the threads have begun already."""
        return True

    def _sync_all(self, job: SyncJob) -> None:
        for directory in job.directories:
            self._files.sync_directory(directory)
        for file in job.files:
            self._files.sync(file.fd)


@define
class _UnderWay:
    """A job in the kernel: fsyncs left, first error, directories to close."""

    job: SyncJob
    done: Done
    left: int
    directories: list[int]
    error: OSError | None = None


@implementer(IReadDescriptor)
class KernelSyncer:
    """fsync in the kernel's workers; what finds no room there goes to `others`.

    `watcher` has the `addReader` and `removeReader` of a reactor. The constructor
    raises OSError where the system does not offer this.
    """

    _log = Logger()
    _DEPTH = 256

    def __init__(self, watcher: Any, others: ISyncer, files: FileOps) -> None:
        self._ring = IoRing(self._DEPTH)
        self._others = others
        self._files = files
        self._watcher = watcher
        self._under_way: dict[int, _UnderWay] = {}
        self._numbers = count()
        self._broken = False
        watcher.addReader(self)

    def sync(self, job: SyncJob, done: Done) -> None:
        """See `ISyncer`."""
        size = len(job.files) + len(job.directories)
        if self._broken or size > self._ring.room:
            self._others.sync(job, done)
            return
        directories: list[int] = []
        try:
            for path in job.directories:
                directories.append(self._files.open_directory(path))
        except OSError:
            self._close(directories)
            self._others.sync(job, done)
            return
        number = next(self._numbers)
        self._under_way[number] = _UnderWay(job, done, size, directories)
        for fd in (*directories, *(file.fd for file in job.files)):
            self._ring.fsync(fd, number)

    def submit(self) -> bool:
        """See `ISyncer`; once the kernel has refused, all goes to the others."""
        try:
            return self._broken or self._ring.submit()
        except OSError as error:
            self._log.critical("io_uring refused, fsync on threads: {e}", e=error)
            self._broken = True
        under_way, self._under_way = self._under_way, {}
        for one in under_way.values():
            self._close(one.directories)
            self._others.sync(one.job, one.done)
        return True

    def _close(self, directories: list[int]) -> None:
        for fd in directories:
            self._files.close(fd)

    def fileno(self) -> int:
        """For the watcher."""
        return self._ring.event_fd

    def logPrefix(self) -> str:
        """For the watcher's log."""
        return "fsync"

    def doRead(self) -> None:
        """Some fsyncs have ended."""
        for number, code in self._ring.completed():
            one = self._under_way.get(number)
            if one is None:  # handed to the others meanwhile
                continue
            one.left -= 1
            if code and one.error is None:
                one.error = OSError(code, os.strerror(code))
            if not one.left:
                del self._under_way[number]
                self._tell(one)

    def _tell(self, one: _UnderWay) -> None:
        """A defect of one partition must not keep the others from being told."""
        try:
            self._close(one.directories)
            one.done(one.error)
        except Exception:
            self._log.failure("defect after an fsync")

    def connectionLost(self, reason: Failure) -> None:
        """Called by a reactor that stops."""

    def close(self) -> None:
        """Nothing may be under way any more."""
        self._watcher.removeReader(self)
        self._ring.close()
