"""Appends that fail part-way: all or nothing, and what follows lands right (D-30)."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.partition_log import PartitionLog
from tests.storage.log_tools import append, contents, open_log, records, store, sync
from tests.support.faulty_files import FaultyFiles

SEGMENT_BYTES = 1000


class FailedAppendCase(SynchronousTestCase):
    """A log of small segments on a file system that can be made to fail."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name) / "t-0"
        self.files = FaultyFiles(seed=7)
        self.log = self.open()

    def open(self) -> PartitionLog:
        """The log of the directory as it is now."""
        return open_log(self.directory, self.files, SEGMENT_BYTES)

    def assert_refused(self, batch: Sequence[bytes]) -> None:
        """The batch is refused, and the marks say that nothing of it is there."""
        before = self.log.log_end, self.log.durable_end, self.log.messages
        self.assertRaises(OSError, append, self.log, batch)
        after = self.log.log_end, self.log.durable_end, self.log.messages
        self.assertEqual(after, before)

    def assert_holds(self, expected: Sequence[bytes]) -> None:
        """These records and no byte more, now and after a crash right now."""
        self.assertEqual(contents(self.log), list(expected))
        files = sorted(self.directory.glob("*.meta"))
        stored = b"".join(path.read_bytes() for path in files)
        self.assertEqual(stored, b"".join(expected))
        position = 0
        for path in files:
            self.assertEqual(int(path.stem), position)
            position += path.stat().st_size
        again = open_log(self.directory, self.files, SEGMENT_BYTES)
        self.assertEqual(contents(again), list(expected))
        self.assertEqual(again.report.problems, [])


class CutBackTests(FailedAppendCase):
    """One fault, then all is well again."""

    def test_torn_write_is_cut_back(self) -> None:
        """Half a record that a failed write left is cut before the next is written."""
        first, second, third = records(0, [100, 200, 50])
        store(self.log, self.files, [first])
        self.files.fail("write")
        self.assert_refused([second])
        store(self.log, self.files, [third])
        self.assert_holds([first, third])

    def test_nothing_is_written_while_the_cut_fails(self) -> None:
        """While the torn end cannot be cut off puts are refused; then they go on."""
        first, second, third = records(0, [100, 200, 50])
        store(self.log, self.files, [first])
        self.files.fail("write")
        self.files.fail("truncate", times=2)
        self.assert_refused([second])
        self.assert_refused([third])
        store(self.log, self.files, [third])
        self.assert_holds([first, third])

    def test_stop_with_a_torn_end_leaves_no_clean_marker(self) -> None:
        """A torn end that could not be cut is cut by the next start instead."""
        first, second = records(0, [100, 200])
        store(self.log, self.files, [first])
        self.files.fail("write")
        self.files.fail("truncate")
        self.assert_refused([second])
        self.log.close()
        self.log = self.open()
        self.assertFalse(self.log.report.clean)
        self.assert_holds([first])

    def test_full_disk_that_has_space_again(self) -> None:
        """A full disk refuses puts; once there is space they are taken again."""
        first, second, third = records(0, [100, 200, 50])
        store(self.log, self.files, [first])
        for room in (0, 1, 19, 20, 21, 219):
            self.files.space_bytes = room
            self.assert_refused([second])
        self.files.space_bytes = None
        store(self.log, self.files, [third])
        self.assert_holds([first, third])

    def test_short_writes_are_gone_on_with(self) -> None:
        """A system that takes a few bytes at a time gets all of them in order."""
        self.files.short_writes = True
        batch = records(0, [100, 0, 300, 1])
        store(self.log, self.files, batch)
        self.assert_holds(batch)

    def test_short_write_and_then_a_full_disk(self) -> None:
        """Part of a batch taken, then no space: nothing of the batch stays."""
        batch = records(0, [100, 0, 300, 1])
        self.files.short_writes = True
        self.files.space_bytes = 350
        self.assert_refused(batch)
        self.files.heal()
        store(self.log, self.files, batch)
        self.assert_holds(batch)

    def test_file_cannot_be_opened(self) -> None:
        """Without a descriptor to spare a put is refused and nothing else is lost."""
        batch = records(0, [100])
        self.log.close()
        self.files.fail("open", errno.EMFILE, times=2)
        self.assert_refused(batch)
        store(self.log, self.files, batch)
        self.assert_holds(batch)


class RollTests(FailedAppendCase):
    """Failures around the beginning of a segment."""

    def test_new_segment_cannot_be_created(self) -> None:
        """A put that filled its segment stands although the next cannot be created;
        the one after it is refused until it can."""
        first, second = records(0, [1000, 10])
        self.files.fail("create", errno.ENOSPC, times=2)
        store(self.log, self.files, [first])
        self.assertEqual(len(self.log.segments), 1)
        self.assert_refused([second])
        store(self.log, self.files, [second])
        self.assert_holds([first, second])
        self.assertEqual(len(self.log.segments), 2)

    def test_write_to_the_new_segment_fails(self) -> None:
        """An empty segment that a failed write tore is empty again."""
        first, second, third = records(0, [1000, 10, 10])
        store(self.log, self.files, [first])
        self.files.fail("write")
        self.assert_refused([second])
        store(self.log, self.files, [third])
        self.assert_holds([first, third])

    def test_batch_over_segments_fails_at_each_write(self) -> None:
        """Wherever a batch over three segments fails, all of it is taken back."""
        first, *batch = records(0, [300, 600, 600, 600, 600, 100])
        store(self.log, self.files, [first])
        for after in range(3):
            self.files.fail("write", after=after)
            self.assert_refused(batch)
            self.assertEqual(len(self.log.segments), 1)
        store(self.log, self.files, batch)
        self.assert_holds([first, *batch])
        self.assertEqual(len(self.log.segments), 3)

    def test_batch_over_segments_cannot_create_one(self) -> None:
        """A batch that cannot get its second or third segment is taken back."""
        first, *batch = records(0, [300, 600, 600, 600, 600, 100])
        store(self.log, self.files, [first])
        for after in range(2):
            self.files.fail("create", after=after)
            self.assert_refused(batch)
        store(self.log, self.files, batch)
        self.assert_holds([first, *batch])

    def test_batch_from_a_full_segment_on_fails(self) -> None:
        """With the last segment full, a failed batch leaves one empty segment."""
        first, *batch = records(0, [1000, 600, 600, 600])
        self.files.fail("create")
        store(self.log, self.files, [first])
        self.files.fail("write", after=1)
        self.assert_refused(batch)
        self.assertEqual([one.size_bytes for one in self.log.segments], [1020, 0])
        store(self.log, self.files, batch)
        self.assert_holds([first, *batch])

    def test_taken_back_segment_cannot_be_removed(self) -> None:
        """Nothing is written until a segment that was taken back is gone: it would
        hide what is written over its offsets."""
        first, *batch = records(0, [300, 600, 600, 600])
        last = records(9, [900])
        store(self.log, self.files, [first])
        self.files.fail("write", after=1)
        self.files.fail("remove", times=2, matching=".meta")
        self.assert_refused(batch)
        self.assert_refused(last)
        store(self.log, self.files, last)
        self.assert_holds([first, *last])

    def test_removal_is_made_durable_with_what_follows(self) -> None:
        """Before the next put is acknowledged the removed name is gone for good."""
        first, *batch = records(0, [300, 600, 600, 600])
        store(self.log, self.files, [first])
        self.files.fail("write", after=1)
        self.files.fail("remove", matching=".meta")
        self.assert_refused(batch)
        sync(self.log, self.files)
        append(self.log, records(9, [10]))
        job = self.log.sync_job()
        self.assertEqual(job.directories, [self.directory])
        self.log.synced(job)

    def test_seal_is_not_written_for_what_was_taken_back(self) -> None:
        """A segment that grows again after a failed roll is sealed at its real end."""
        first, *batch = records(0, [300, 600, 600, 600])
        more = records(9, [900, 10])
        store(self.log, self.files, [first])
        self.files.fail("write", after=1)
        self.assert_refused(batch)
        store(self.log, self.files, more)
        self.log.close()
        self.log = self.open()
        self.assertTrue(all(segment.verified for segment in self.log.segments))
        self.assertEqual([one.messages for one in self.log.segments], [2, 1])
        self.assert_holds([first, *more])


class SidecarFailureTests(FailedAppendCase):
    """Failures of the small files beside the segments lose nothing."""

    def test_no_line_can_be_written(self) -> None:
        """Appends, rolls and an orderly stop go on without any sidecar."""
        self.files.fail("append_text", times=1000)
        batch = records(0, [400] * 9)
        for record in batch:
            store(self.log, self.files, [record])
        self.log.close()
        self.log = self.open()
        self.assert_holds(batch)

    def test_half_a_line(self) -> None:
        """A torn line costs that line; those after it are read."""
        batch = records(0, [400] * 3)
        self.files.fail("append_text")
        for record in batch:
            store(self.log, self.files, [record])
        self.log.close()
        self.log = self.open()
        self.assertTrue(self.log.segments[0].verified)
        self.assert_holds(batch)

    def test_full_disk_at_start(self) -> None:
        """A partition that was not stopped in order loads although the disk is full."""
        batch = records(0, [400] * 4)
        store(self.log, self.files, batch)
        self.files.space_bytes = 0
        self.log = self.open()
        self.assertEqual(contents(self.log), batch)
        self.files.space_bytes = None
        more = records(4, [400])
        store(self.log, self.files, more)
        self.assert_holds([*batch, *more])

    def test_damage_is_not_forgotten(self) -> None:
        """A range known to be bad stays unreadable when its sidecar was not written."""
        batch = records(0, [100, 100, 100])
        store(self.log, self.files, batch)
        path = self.log.segments[0].path
        data = bytearray(path.read_bytes())
        data[len(batch[0]) + 50] ^= 1
        path.write_bytes(data)
        self.files.fail("replace_text", errno.ENOSPC)
        good = [batch[0], batch[2]]
        for _ in range(3):
            self.log = self.open()
            self.assertEqual(contents(self.log), good)
            self.log.close()


class AnyFailureTests(SynchronousTestCase):
    """Faults of all kinds at random."""

    @settings(max_examples=60)
    @given(st.integers(0, 1 << 32))
    def test_acknowledged_or_refused(self, seed: int) -> None:
        """Under random faults the log holds exactly what was not refused."""
        with tempfile.TemporaryDirectory() as root:
            files = FaultyFiles(seed)
            directory = Path(root) / "t-0"
            log = open_log(directory, files, SEGMENT_BYTES)
            files.short_writes = True
            files.fail_at_random(
                write=0.2, create=0.2, truncate=0.3, remove=0.3, append_text=0.3
            )
            expected: list[bytes] = []
            for number in range(0, 200, 5):
                batch = records(number, [number * 7 % 400] * (1 + seed % 5))
                try:
                    append(log, batch)
                except OSError:
                    continue
                expected += batch
                self.assertEqual(log.log_end, sum(map(len, expected)))
            files.heal()
            batch = records(1000, [10])
            store(log, files, batch)
            expected += batch
            self.assertEqual(contents(log), expected)
            again = open_log(directory, files, SEGMENT_BYTES)
            self.assertEqual(contents(again), expected)
            self.assertEqual(again.report.problems, [])
