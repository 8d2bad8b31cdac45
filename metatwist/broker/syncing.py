"""Making files durable without stopping the reactor: fsync in the kernel or on threads.

`ISyncer.sync(job, done)` calls `done(None)` or `done(error)` exactly once, on the
reactor's thread and never before it returns. Failures are not tried again: after a
failed fsync the system may have dropped the data and report success.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from metatwist.broker.kernel_aio import KernelAio
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import SyncJob

Done = Callable[[OSError | None], None]


class ISyncer(Protocol):
    """What a commit queue needs of the disk."""

    def sync(self, job: SyncJob, done: Done) -> None:
        """Sync the job's files and directories, then call `done`."""


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

    def _sync_all(self, job: SyncJob) -> None:
        for directory in job.directories:
            self._files.sync_directory(directory)
        for file in job.files:
            self._files.sync(file.fd)


@implementer(IReadDescriptor)
class KernelSyncer:
    """fsync in the kernel's workers; what does not fit there goes to threads.

    `watcher` has the `addReader` and `removeReader` of a reactor.
    """

    _log = Logger()
    _DEPTH = 256

    def __init__(self, watcher: Any, others: ISyncer) -> None:
        self._aio = KernelAio(self._DEPTH)
        self._others = others
        self._watcher = watcher
        self._waiting: dict[int, Done] = {}
        watcher.addReader(self)

    def sync(self, job: SyncJob, done: Done) -> None:
        """See `ISyncer`."""
        if len(job.files) != 1 or job.directories or not self._aio.has_room:
            self._others.sync(job, done)
            return
        try:
            number = self._aio.fsync(job.files[0].fd)
        except OSError:
            # Refused, not failed: nothing was synced yet.
            self._others.sync(job, done)
            return
        self._waiting[number] = done

    def fileno(self) -> int:
        """For the watcher."""
        return self._aio.event_fd

    def logPrefix(self) -> str:
        """For the watcher's log."""
        return "fsync"

    def doRead(self) -> None:
        """Some fsyncs have ended."""
        for number, code in self._aio.completed():
            done = self._waiting.pop(number)
            done(OSError(code, os.strerror(code)) if code else None)

    def connectionLost(self, reason: Failure) -> None:
        """Called by a reactor that stops."""

    def close(self) -> None:
        """Wait for what is under way; nothing is reported any more."""
        self._watcher.removeReader(self)
        self._aio.close()
