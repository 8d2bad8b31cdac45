"""fsync off the reactor's thread: one contract, kept by threads and by the kernel."""

from __future__ import annotations

import errno
import os
import select
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.io_ring import IoRing
from metatwist.broker.storage.files import FileOps
from metatwist.broker.syncing import KernelSyncer, ThreadSyncer


def has_io_uring() -> bool:
    """Whether this system lets us have a ring; without one threads do all."""
    try:
        IoRing(4).close()
    except OSError:
        return False
    return True


@define
class Opened:
    """As far as a syncer looks at an open file."""

    fd: int


class InlineThreads:
    """A reactor and a pool that work at once."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def callFromThread(self, call: Callable[..., object], *arguments: Any) -> None:
        """Later, on the reactor's thread."""
        self.calls.append(lambda: call(*arguments))

    def callInThreadWithCallback(
        self, done: Any, call: Callable[..., object], *arguments: Any, **named: Any
    ) -> None:
        """Now."""
        pool = ThreadPool(0, 1)
        pool.start()
        pool.callInThreadWithCallback(done, call, *arguments, **named)
        pool.stop()

    def run(self) -> None:
        """What the threads had to tell."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Watcher:
    """Has the readers of a reactor."""

    def __init__(self) -> None:
        self.readers: list[Any] = []

    def addReader(self, reader: Any) -> None:
        """Watch."""
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        """No more."""
        self.readers.remove(reader)

    def wait(self) -> None:
        """Until a reader has something to read, which it then does."""
        poll = select.poll()
        for reader in self.readers:
            poll.register(reader.fileno(), select.POLLIN)
        ready = {fd for fd, _ in poll.poll(20_000)}
        for reader in list(self.readers):
            if reader.fileno() in ready:
                reader.doRead()


class SyncerCase(SynchronousTestCase):
    """A folder with a file, and both syncers where the system has both."""

    def setUp(self) -> None:
        """Files to sync."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.files = FileOps()
        self.threads = InlineThreads()
        self.watcher = Watcher()
        self.by_threads = ThreadSyncer(self.threads, self.threads, self.files)  # type: ignore[arg-type]

    def opened(self, name: str) -> Opened:
        """A file with something to sync."""
        fd = os.open(self.directory / name, os.O_CREAT | os.O_WRONLY)
        self.addCleanup(os.close, fd)
        os.write(fd, b"x" * 1000)
        return Opened(fd)

    def broken(self) -> Opened:
        """A descriptor that cannot be synced: that of a pipe."""
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        return Opened(writing)

    def job(self, *files: Opened, directories: int = 0) -> Any:
        """What a partition asks for."""
        return Job(list(files), [self.directory] * directories)

    def kernel(self) -> KernelSyncer:
        """A kernel syncer, closed at the end."""
        syncer = KernelSyncer(self.watcher, self.by_threads, self.files)
        self.addCleanup(syncer.close)
        return syncer

    def syncers(self) -> list[Any]:
        """Those that this system has."""
        return [self.by_threads, *([self.kernel()] if has_io_uring() else [])]

    def settle(self, told: list[Any], count: int) -> None:
        """Wait until so many jobs have been told."""
        while len(told) < count:
            self.threads.run()
            if len(told) < count:
                self.watcher.wait()


@define
class Job:
    """The part of a SyncJob that a syncer looks at."""

    files: list[Opened]
    directories: list[Path]


class ContractTests(SyncerCase):
    """What both keep."""

    def test_told_once_and_later(self) -> None:
        """A job is told once, without an error, and never before the call returned."""
        for syncer in self.syncers():
            told: list[OSError | None] = []
            syncer.sync(self.job(self.opened("a")), told.append)
            self.assertEqual(told, [])
            self.assertTrue(syncer.submit())
            self.settle(told, 1)
            self.assertEqual(told, [None])

    def test_files_and_directories(self) -> None:
        """A job with several files and directories is told when all are synced."""
        for syncer in self.syncers():
            told: list[OSError | None] = []
            job = self.job(self.opened("a"), self.opened("b"), directories=2)
            before = len(os.listdir("/proc/self/fd"))
            syncer.sync(job, told.append)
            syncer.submit()
            self.settle(told, 1)
            self.assertEqual(told, [None])
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_failed_fsync(self) -> None:
        """An fsync that fails is told with its error, whatever else was in the job."""
        for syncer in self.syncers():
            told: list[Any] = []
            syncer.sync(self.job(self.opened("a"), self.broken()), told.append)
            syncer.submit()
            self.settle(told, 1)
            self.assertEqual([error.errno for error in told], [errno.EINVAL])

    def test_many_at_once(self) -> None:
        """Each of many jobs is told for itself, more than the kernel takes at once."""
        for syncer in self.syncers():
            good: list[Any] = []
            bad: list[Any] = []
            file, broken = self.opened("a"), self.broken()
            for number in range(400):
                job = self.job(broken if number % 7 == 0 else file)
                syncer.sync(job, (bad if number % 7 == 0 else good).append)
            syncer.submit()
            self.settle(bad, 58)
            self.settle(good, 342)
            self.assertEqual(set(good), {None})
            self.assertEqual({error.errno for error in bad}, {errno.EINVAL})


class KernelTests(SyncerCase):
    """What only concerns the kernel's way; on systems without it, that this is said."""

    def test_refused(self) -> None:
        """A kernel that refuses loses no job: all go to the threads, then and later."""
        if not has_io_uring():
            self.assertRaises(OSError, self.kernel)
            return
        syncer = self.kernel()
        told: list[Any] = []
        syncer.sync(self.job(self.opened("a"), directories=1), told.append)
        refusal = OSError(errno.EPERM, "no more of this")

        def refuse(*_: object) -> int:
            raise refusal

        self.patch(syncer._ring, "_call", refuse)
        self.assertTrue(syncer.submit())
        syncer.sync(self.job(self.opened("b")), told.append)
        self.settle(told, 2)
        self.assertEqual(told, [None, None])

    def test_busy(self) -> None:
        """A kernel that is busy is asked again, and no job is lost or told twice."""
        if not has_io_uring():
            self.assertRaises(OSError, self.kernel)
            return
        syncer = self.kernel()
        told: list[Any] = []
        syncer.sync(self.job(self.opened("a")), told.append)
        call = syncer._ring._call
        answers = [OSError(errno.EBUSY, "busy"), 0]

        def busy(number: int, *arguments: object) -> int:
            if not answers:
                return call(number, *arguments)
            answer = answers.pop(0)
            if isinstance(answer, OSError):
                raise answer
            return answer

        self.patch(syncer._ring, "_call", busy)
        self.assertEqual([syncer.submit() for _ in range(3)], [False, False, True])
        self.settle(told, 1)
        self.assertEqual(told, [None])

    def test_defect_of_one(self) -> None:
        """A defect in what one job calls does not keep the next from being told."""
        if not has_io_uring():
            self.assertRaises(OSError, self.kernel)
            return
        syncer = self.kernel()
        told: list[Any] = []
        syncer.sync(self.job(self.opened("a")), lambda _: 1 // 0)
        syncer.sync(self.job(self.opened("b")), told.append)
        syncer.submit()
        self.settle(told, 1)
        while not (found := self.flushLoggedErrors(ZeroDivisionError)):
            self.watcher.wait()
        self.assertEqual(len(found), 1)
