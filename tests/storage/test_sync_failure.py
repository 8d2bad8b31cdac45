"""A failed fsync stops a partition; a failed write stops nothing (design 5)."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.batch import FAILED, STORED, WAITING, Batch
from metatwist.broker.commit import CommitContext, CommitQueue, FlushLimits
from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.storage.partition_log import SyncJob
from metatwist.wire.records import HEADER_BYTES
from tests.storage.log_tools import contents, open_log, records
from tests.support.faulty_files import FaultyFiles

EIO = OSError(errno.EIO, "Input/output error")


class HeldSyncer:
    """Keeps every job until the test lets it end."""

    def __init__(self) -> None:
        self.jobs: list[SyncJob] = []
        self._dones: list[Callable[[OSError | None], None]] = []

    def sync(self, job: SyncJob, done: Callable[[OSError | None], None]) -> None:
        """See `ISyncer`."""
        self.jobs.append(job)
        self._dones.append(done)

    def end(self, error: OSError | None = None) -> None:
        """The oldest sync that is under way ends."""
        self._dones.pop(0)(error)


class SyncFailureCase(SynchronousTestCase):
    """A commit queue over a real log, with a syncer in the test's hands."""

    threshold = 0

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name) / "t-0"
        self.begin()

    def begin(self, descriptors: int = 64) -> None:
        """Open the log and its queue."""
        self.files = FaultyFiles()
        self.log = open_log(self.directory, self.files, 1000, descriptors)
        self.syncer = HeldSyncer()
        self.stopped: list[CommitQueue] = []
        self.clock = Clock()
        self.numbers = BrokerNumbers()
        context = CommitContext(
            sync=self.syncer.sync,
            numbers=self.numbers,
            settled=lambda batch: None,
            touch=lambda queue: None,
            stopped=self.stopped.append,
            inline=lambda job, messages: None,
            call_later=self.clock.callLater,
        )
        limits = FlushLimits(self.threshold, 10_000)
        self.queue = CommitQueue("t", 0, self.log, limits, context)

    def put(self, batch: list[bytes]) -> Batch:
        """Puts that arrive in one turn."""
        opened = self.queue.open or self.queue.begin()
        for record in batch:
            opened.buffers += record[:HEADER_BYTES], record[HEADER_BYTES:]
            self.queue.end += len(record)
        self.queue.turn_ended()
        return opened


class GroupCommitTests(SyncFailureCase):
    """Acknowledged only when on disk."""

    def test_waiting_puts_fail(self) -> None:
        """A failed fsync fails the puts that wait for it and those that gather."""
        stored = self.put(records(0, [10]))
        self.syncer.end()
        waiting = self.put(records(1, [20]))
        gathering = self.put(records(2, [30]))
        self.assertEqual(gathering.state, WAITING)
        self.syncer.end(EIO)
        self.assertEqual(
            [stored.state, waiting.state, gathering.state], [STORED, FAILED, FAILED]
        )
        self.assertIn("Input/output error", str(self.log.failure))
        self.assertEqual(self.stopped, [self.queue])

    def test_readers_see_what_was_acknowledged_before(self) -> None:
        """After a failed fsync the readable end stays where it was, and is served."""
        (first,) = records(0, [10])
        self.put([first])
        self.syncer.end()
        self.put(records(1, [20]))
        self.syncer.end(EIO)
        self.assertEqual(self.log.readable_end, len(first))
        self.assertEqual(self.log.durable_end, len(first))
        self.assertEqual(contents(self.log), [first])

    def test_nothing_is_tried_again(self) -> None:
        """After a failed fsync nothing is written or synced any more."""
        self.put(records(0, [10]))
        self.syncer.end(EIO)
        size = self.log.segments[0].path.stat().st_size
        late = self.put(records(1, [20]))
        self.queue.flush()
        self.clock.advance(3600)
        self.assertEqual(late.state, FAILED)
        self.assertEqual(len(self.syncer.jobs), 1)
        self.assertEqual(self.log.segments[0].path.stat().st_size, size)

    def test_no_clean_marker(self) -> None:
        """A stopped partition is walked at the next start."""
        self.put(records(0, [10]))
        self.syncer.end(EIO)
        self.log.close()
        again = open_log(self.directory, self.files)
        self.assertFalse(again.report.clean)
        self.assertEqual(again.report.scanned_bytes, 30)

    def test_files_are_let_go_once(self) -> None:
        """However a sync ends, each of its files is released exactly once."""
        for error in (None, EIO):
            self.put(records(0, [600, 600, 600]))
            files = self.syncer.jobs[-1].files
            self.assertGreater(min(file.holders for file in files), 0)
            self.syncer.end(error)
            self.assertEqual([file.holders for file in files], [0] * len(files))

    def test_file_cannot_be_opened_to_sync_it(self) -> None:
        """A written batch whose file cannot be opened to sync it fails, and the
        partition stops: it is not known what a later sync would make durable."""
        self.begin(descriptors=0)
        # The full segment's file is open still, that of the new one is not.
        self.files.fail("open", errno.EIO, after=2)
        waiting = self.put(records(0, [1000]))
        self.assertEqual(waiting.state, FAILED)
        self.assertIn("cannot open t-0 to sync it", str(self.log.failure))
        self.assertEqual(self.stopped, [self.queue])

    def test_write_error_stops_nothing(self) -> None:
        """A batch that cannot be written fails alone; the next one is stored at the
        same offset."""
        self.files.fail("write", errno.ENOSPC)
        failed = self.put(records(0, [10]))
        self.assertEqual(failed.state, FAILED)
        (second,) = records(1, [20])
        stored = self.put([second])
        self.syncer.end()
        self.assertEqual((stored.state, stored.start), (STORED, 0))
        self.assertEqual(contents(self.log), [second])
        self.assertEqual(self.stopped, [])


class DirectTests(SyncFailureCase):
    """Acknowledged when written; the sync comes later."""

    threshold = 2

    def test_readable_when_written(self) -> None:
        """In direct mode a message is acknowledged and readable before its fsync."""
        batch = records(0, [10, 10])
        self.assertEqual(self.put(batch).state, STORED)
        self.assertEqual(self.syncer.jobs, [])
        self.assertEqual(contents(self.log), batch)
        self.assertEqual(self.log.unsynced_bytes, 60)

    def test_threshold_is_passed(self) -> None:
        """One message more than the threshold begins a sync, one less does not."""
        self.put(records(0, [10, 10]))
        self.assertEqual(len(self.syncer.jobs), 0)
        self.put(records(2, [10]))
        self.assertEqual(len(self.syncer.jobs), 1)
        self.syncer.end()
        self.assertEqual(self.log.unsynced_bytes, 0)

    def test_interval_passes(self) -> None:
        """Nothing stays unsynced for longer than the interval."""
        self.put(records(0, [10]))
        self.clock.advance(9.9)
        self.assertEqual(len(self.syncer.jobs), 0)
        self.clock.advance(0.1)
        self.assertEqual(len(self.syncer.jobs), 1)

    def test_failed_sync_stops_puts_and_not_reads(self) -> None:
        """After a failed fsync puts are refused; what was served stays served."""
        batch = records(0, [10, 10, 10])
        self.put(batch)
        self.syncer.end(EIO)
        self.assertEqual(self.put(records(3, [10])).state, FAILED)
        self.assertEqual(contents(self.log), batch)
        self.assertEqual(self.log.durable_end, 0)
