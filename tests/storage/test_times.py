"""From a time to an offset: exact for our ids, never late for a Java broker's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.storage.times import (
    INDEX_STEP_BYTES,
    offset_at,
    times_of_marks,
)
from metatwist.broker.storage.walking import verify_sealed
from metatwist.message_times import EPOCH_MS, TIME_SHIFT
from metatwist.wire.records import encode
from tests.storage.log_tools import BASE_MS, append, open_log, store, wall_id
from tests.support.faulty_files import FaultyFiles

SEGMENT_BYTES = 3 * INDEX_STEP_BYTES
RECORD_BYTES = 60_000
GAP_MS = 1000
COUNT = 60


def java_id(up_ms: int) -> int:
    """An id of a Java broker whose host has been up for so long."""
    return (up_ms - EPOCH_MS) << TIME_SHIFT


def wall_records(count: int) -> list[bytes]:
    """Records a second apart."""
    body = bytes(RECORD_BYTES - 20)
    return [encode(wall_id(BASE_MS + GAP_MS * n), 0, body) for n in range(count)]


class TimesCase(SynchronousTestCase):
    """A log of several segments with one record each second."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name) / "t-0"
        self.files = FaultyFiles()

    def filled(self, count: int = COUNT) -> PartitionLog:
        """The log, one put a record."""
        log = open_log(self.directory, self.files, SEGMENT_BYTES)
        for record in wall_records(count):
            store(log, self.files, [record])
        return log

    def reopened(self, verified: bool = True) -> PartitionLog:
        """The log after a restart and, with `verified`, after what follows it."""
        log = open_log(self.directory, self.files, SEGMENT_BYTES)
        for segment in log.segments[:-1] if verified else []:
            if not segment.verified:
                log.verified(segment, verify_sealed(self.files, segment))
        return log

    def sidecars(self) -> list[Path]:
        """All sidecars of the partition."""
        return sorted(self.directory.glob("*.index"))

    def find(self, log: PartitionLog, time_ms: int) -> int:
        """The offset for a time, as the admin verb answers it."""
        return offset_at(tuple(log.segments), log.readable_end, time_ms, self.files)

    def assert_exact(self, log: PartitionLog, count: int = COUNT) -> None:
        """Every time gives the first message at or after it."""
        for number in range(count):
            time_ms, offset = BASE_MS + GAP_MS * number, RECORD_BYTES * number
            self.assertEqual(self.find(log, time_ms), offset, number)
            self.assertEqual(self.find(log, time_ms - 1), offset, number)
            self.assertEqual(self.find(log, time_ms + 1), offset + RECORD_BYTES, number)


class WallClockTests(TimesCase):
    """Ids of ours carry the time."""

    def test_while_running(self) -> None:
        """Any time gives the first message at or after it, across segments."""
        log = self.filled()
        self.assertGreater(len(log.segments), 3)
        self.assert_exact(log)

    def test_before_and_after(self) -> None:
        """A time before the first message is its offset, one after the last the end."""
        log = self.filled()
        self.assertEqual(self.find(log, 0), 0)
        self.assertEqual(self.find(log, BASE_MS - 10**9), 0)
        self.assertEqual(self.find(log, BASE_MS + 10**9), log.readable_end)

    def test_empty(self) -> None:
        """In an empty partition every time is the end."""
        log = open_log(self.directory, self.files)
        self.assertEqual(self.find(log, BASE_MS), 0)

    def test_empty_last_segment(self) -> None:
        """With the last segment just begun, times in those before it are found."""
        count = 3 * (SEGMENT_BYTES // RECORD_BYTES + 1)
        log = self.filled(count)
        self.assertEqual(log.segments[-1].size_bytes, 0)
        self.assert_exact(log, count)

    def test_batches(self) -> None:
        """In a batch that is written at once each message is found at its own time."""
        log = open_log(self.directory, self.files, SEGMENT_BYTES)
        store(log, self.files, wall_records(COUNT))
        self.assert_exact(log)

    def test_segment_that_retention_has_just_taken(self) -> None:
        """A search that meets a segment whose file is gone goes on behind it."""
        log = self.filled()
        log.segments[0].path.unlink()
        self.assertEqual(self.find(log, 0), log.segments[1].start)

    def test_not_readable_yet(self) -> None:
        """A message that readers do not see yet is not found."""
        log = self.filled(3)
        append(log, wall_records(4)[3:])
        self.assertEqual(self.find(log, BASE_MS + 3 * GAP_MS), log.readable_end)

    def test_after_a_failed_roll(self) -> None:
        """The index of a segment that grows again after a failed batch is whole."""
        log = self.filled(11)
        self.files.fail("write", after=1)
        self.assertRaises(OSError, append, log, wall_records(COUNT)[11:])
        for record in wall_records(COUNT)[11:]:
            store(log, self.files, [record])
        self.assert_exact(log)
        log.close()
        self.assert_exact(self.reopened())


class SidecarLossTests(TimesCase):
    """The index is rebuilt from the segments."""

    def test_after_an_orderly_stop(self) -> None:
        """The index of the life before is used."""
        self.filled().close()
        self.assert_exact(self.reopened())

    def test_missing(self) -> None:
        """Without any sidecar all is found, before verification and after it."""
        self.filled().close()
        for path in self.sidecars():
            path.unlink()
        self.assert_exact(self.reopened(verified=False))
        self.assert_exact(self.reopened())
        self.assertEqual(len(self.sidecars()), len(self.reopened().segments))

    def test_some_missing(self) -> None:
        """Segments without an index between others are walked."""
        self.filled().close()
        count = len(self.sidecars())
        for missing in range(1, 1 << count, 3):
            saved = {path: path.read_bytes() for path in self.sidecars()}
            for number, path in enumerate(self.sidecars()):
                if missing >> number & 1:
                    path.unlink()
            log = self.reopened(verified=False)
            for number in (0, 13, 14, 27, 40, COUNT - 1):
                time_ms = BASE_MS + GAP_MS * number
                self.assertEqual(self.find(log, time_ms), RECORD_BYTES * number)
            for path, text in saved.items():
                path.write_bytes(text)

    def test_truncated(self) -> None:
        """Sidecars cut anywhere make a search slower, not wrong."""
        self.filled().close()
        for path in self.sidecars():
            text = path.read_bytes()
            path.write_bytes(text[: len(text) * 2 // 3])
        self.assert_exact(self.reopened(verified=False))
        self.assert_exact(self.reopened())

    def test_of_other_segments(self) -> None:
        """Sidecars that have been mixed up are not believed."""
        self.filled().close()
        paths = self.sidecars()
        texts = [path.read_bytes() for path in paths]
        for path, text in zip(paths, texts[1:] + texts[:1], strict=True):
            path.write_bytes(text)
        self.assert_exact(self.reopened())

    def test_garbage_lines(self) -> None:
        """Lines that are no facts are passed over."""
        self.filled().close()
        for path in self.sidecars():
            path.write_bytes(path.read_bytes().replace(b"time 17", b"time 18", 1))
        self.assert_exact(self.reopened(verified=False))


class JavaTests(TimesCase):
    """Ids of a Java broker count from its host's start: early at most, never late."""

    def left_by_java(self, up_times_ms: Sequence[int], modified_ms: int) -> None:
        """Segments of a Java broker; the last record was stored at `modified_ms`."""
        self.directory.mkdir()
        body = bytes(RECORD_BYTES - 20)
        per_file = 20
        for first in range(0, len(up_times_ms), per_file):
            some = up_times_ms[first : first + per_file]
            path = self.directory / f"{first * RECORD_BYTES:020d}.meta"
            path.write_bytes(b"".join(encode(java_id(ms), 0, body) for ms in some))
            last_ms = modified_ms - up_times_ms[-1] + some[-1]
            os.utime(path, ns=(last_ms * 10**6, last_ms * 10**6))

    def test_up_to_a_step_early(self) -> None:
        """The answer is at most one step of the index before the right one."""
        ups = [5_000_000 + GAP_MS * number for number in range(COUNT)]
        self.left_by_java(ups, BASE_MS)
        for log in (self.reopened(verified=False), self.reopened()):
            for number, up_ms in enumerate(ups):
                time_ms = BASE_MS - ups[-1] + up_ms
                self.assertLessEqual(self.find(log, time_ms), number * RECORD_BYTES)
        for number, up_ms in enumerate(ups):
            early = number * RECORD_BYTES - self.find(log, BASE_MS - ups[-1] + up_ms)
            self.assertLessEqual(early, INDEX_STEP_BYTES + RECORD_BYTES)

    def test_host_started_again(self) -> None:
        """Never late, although ids begin anew in the middle of a segment."""
        ups = [9_000_000 + GAP_MS * n for n in range(30)]
        ups += [50_000 + GAP_MS * n for n in range(30)]
        self.left_by_java(ups, BASE_MS)
        log = self.reopened()
        booted_ms = BASE_MS - ups[-1]
        for number in range(30):
            before_ms = booted_ms - 60_000 - GAP_MS * (29 - number)
            self.assertLessEqual(self.find(log, before_ms), number * RECORD_BYTES)
            self.assertLessEqual(
                self.find(log, booted_ms + ups[30 + number]),
                (30 + number) * RECORD_BYTES,
            )

    def test_gone_on_with_by_us(self) -> None:
        """Where ours follow in the same segment, both kinds keep their promise, also
        when the index has to be rebuilt."""
        ups = [5_000_000 + GAP_MS * number for number in range(30)]
        self.left_by_java(ups, BASE_MS - 1000)
        log = self.reopened()
        for record in wall_records(20):
            store(log, self.files, [record])
        self.assert_both(log, ups)
        for path in self.sidecars():
            path.unlink()
        self.assert_both(self.reopened(), ups)

    def assert_both(self, log: PartitionLog, ups: list[int]) -> None:
        """Never late in front, exact behind."""
        for number, up_ms in enumerate(ups):
            time_ms = BASE_MS - 1000 - ups[-1] + up_ms
            found = self.find(log, time_ms)
            self.assertLessEqual(found, number * RECORD_BYTES)
        for number in range(1, 20):
            offset = (len(ups) + number) * RECORD_BYTES
            found = self.find(log, BASE_MS + GAP_MS * number)
            self.assertLessEqual(found, offset)
            self.assertGreaterEqual(found, offset - number * RECORD_BYTES)


class MarksTests(SynchronousTestCase):
    """From ids that a walk has found to times."""

    @given(
        st.lists(
            st.tuples(st.booleans(), st.integers(0, 10_000)), min_size=1, max_size=20
        )
    )
    def test_never_before_it_was_stored(self, steps: list[tuple[bool, int]]) -> None:
        """A mark's time is never before its record was stored, whoever wrote it."""
        now_ms, booted_ms = BASE_MS, BASE_MS - 10_000
        marks, stored_ms = [], []
        for offset, (by_java, gap_ms) in enumerate(steps):
            now_ms += gap_ms
            message_id = java_id(now_ms - booted_ms) if by_java else wall_id(now_ms)
            marks.append((message_id, offset))
            stored_ms.append(now_ms)
        index = times_of_marks(marks, marks[-1][0], now_ms)
        self.assertEqual(list(index.offsets), list(range(len(steps))))
        for found_ms, true_ms in zip(index.times_ms, stored_ms, strict=True):
            self.assertGreaterEqual(found_ms, true_ms)
