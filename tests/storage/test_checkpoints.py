"""What sidecars spare a start, and how far a start believes them."""

from __future__ import annotations

import errno
from collections.abc import Callable

from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.storage.sidecar import line
from tests.storage.log_tools import append, contents, open_log, records, store
from tests.storage.recovery_case import RecoveryCase


class CheckpointTests(RecoveryCase):
    """How far a start believes a sidecar."""

    def checkpointed(self, data: bytes, *lines: bytes) -> None:
        """A segment with a sidecar that says so."""
        path = self.write(0, data)
        text = line("segment", 0) + b"".join(lines)
        path.with_suffix(".index").write_bytes(text)

    def test_orderly_stop(self) -> None:
        """After an orderly stop nothing is read of the segments."""
        log = self.open()
        for record in records(0, [400] * 9):
            store(log, self.files, [record])
        log.close()
        self.files.calls.clear()
        again = self.open()
        self.assertTrue(again.report.clean)
        self.assertEqual(self.files.calls["read"], 0)
        self.assertEqual(again.messages, 9)
        self.assertEqual(again.last_id, log.last_id)

    def test_no_marker_while_something_is_unsynced(self) -> None:
        """A stop with unsynced bytes leaves no clean marker."""
        log = self.open()
        append(log, records(0, [30]))
        log.close()
        self.assertFalse(self.open().report.clean)

    def test_marker_ends_with_the_next_append(self) -> None:
        """A clean marker of an earlier life says nothing of what came after it."""
        first, second = records(0, [30, 40])
        log = self.open()
        store(log, self.files, [first])
        log.close()
        log = self.open()
        store(log, self.files, [second])
        again = self.open()
        self.assertFalse(again.report.clean)
        self.assertEqual(again.report.scanned_bytes, len(second))
        self.assertEqual(again.messages, 2)

    def test_walk_begins_at_the_checkpoint(self) -> None:
        """Only what follows the last checkpoint is walked."""
        first, second = records(0, [30, 40])
        self.checkpointed(first + second + b"torn", line("checkpoint", 50, 1, 7, 0))
        log = self.open()
        self.assertEqual(log.report.scanned_bytes, len(second) + 4)
        self.assertEqual(log.report.cut_bytes, 4)
        self.assertEqual(log.messages, 2)

    def test_checkpoint_beyond_a_cut_file(self) -> None:
        """A checkpoint that the file does not reach any more is not believed."""
        first, second = records(0, [30, 40])
        self.checkpointed(first + second[:30], line("clean", 110, 2, 7, 0))
        log = self.open()
        self.assertFalse(log.report.clean)
        self.assertEqual(contents(log), [first])

    def test_checkpoint_inside_a_record(self) -> None:
        """Another broker has cut the file and gone on: the whole of it is walked."""
        first, second, third = records(0, [30, 40, 50])
        for end in (49, 51, 60, 109):
            self.checkpointed(first + second + third, line("checkpoint", end, 9, 7, 0))
            log = self.open()
            self.assertEqual(contents(log), [first, second, third], end)
            self.assertEqual(log.messages, 3)
            self.assertEqual(log.report.bad, [])

    def test_bad_range_that_was_rewritten(self) -> None:
        """A range is not held bad when another broker has cut it and written good
        records in its place, not even when all ends where it did."""
        batch = records(0, [30, 30, 30])
        for kind in ("clean", "checkpoint"):
            self.checkpointed(
                b"".join(batch), line("bad", 50, 100), line(kind, 150, 2, 7, 1)
            )
            log = self.open()
            self.assertEqual(contents(log), batch)
            self.assertEqual(log.messages, 3)

    def test_bad_ranges_that_are_missing(self) -> None:
        """A checkpoint that counts bad ranges which the sidecar does not list is not
        believed."""
        first, second, third = records(0, [30, 40, 50])
        spoilt = first + second[:-1] + b"\xff" + third
        for kind in ("clean", "checkpoint", "sealed"):
            self.checkpointed(spoilt, line(kind, len(spoilt), 2, 7, 1))
            self.assertEqual(contents(self.open()), [first, third])

    def test_sealed_segment_that_has_grown(self) -> None:
        """A seal that names another end than the file's is not believed."""
        first, second = records(0, [30, 40])
        self.checkpointed(first, line("sealed", 49, 9, 7, 0))
        self.write(50, second)
        log = self.open()
        self.assertEqual([one.messages for one in log.segments], [1, 1])
        self.assertEqual(contents(log), [first, second])

    def test_newest_id_of_all_segments(self) -> None:
        """The newest id is found wherever it is, also when a crash came right after
        the roll, before the segment was sealed."""
        log = self.open()
        append(log, records(0, [400, 400, 400]))
        newest = log.last_id
        self.assertEqual(log.segments[-1].size_bytes, 0)
        self.assertEqual(self.open().last_id, newest)

    def test_crash_between_roll_and_seal(self) -> None:
        """A segment that a crash kept from being sealed is checked at the start, its
        tail passed over where it was lost."""
        log = self.open()
        batch = records(0, [400, 400, 400])
        append(log, batch)
        path = log.segments[0].path
        data = path.read_bytes()
        path.write_bytes(data[:850] + bytes(len(data) - 850))
        again = self.open()
        self.assertTrue(again.segments[0].verified)
        self.assertEqual(contents(again), batch[:2])
        self.assertEqual(again.report.bad, [(840, 1260)])

    def test_of_java_nothing_sealed_is_walked(self) -> None:
        """Of what another broker left only the last segment is walked at the start."""
        first, second, third = records(0, [30, 40, 50])
        self.write(0, first)
        self.write(50, second)
        self.write(110, third)
        log = self.open()
        self.assertEqual(log.report.scanned_bytes, len(third))
        self.assertEqual(
            [segment.verified for segment in log.segments], [False, False, True]
        )

    def test_checkpoint_line_of_a_growing_log(self) -> None:
        """Every 16 MiB a checkpoint is written, so that a start walks no more."""
        files, directory = self.files, self.directory.with_name("t-1")
        log = open_log(directory, files)
        big = records(0, [1 << 20])
        for _ in range(17):
            store(log, files, big)
        again = open_log(directory, files)
        self.assertEqual(again.report.scanned_bytes, len(big[0]))
        self.assertEqual(again.messages, 17)


class SealTests(RecoveryCase):
    """A segment is vouched for only once it is on disk."""

    def seals(self) -> list[str]:
        """Names of the segments whose sidecar holds a seal."""
        return [
            path.stem.lstrip("0") or "0"
            for path in sorted(self.directory.glob("*.index"))
            if b"\nsealed " in path.read_bytes()
        ]

    def job(self, log: PartitionLog) -> Callable[[], None]:
        """Begin a sync; call what is returned to end it."""
        job = log.sync_job()
        return lambda: log.synced(job)

    def test_seal_follows_the_sync(self) -> None:
        """A full segment is sealed when the sync that covers its end has ended."""
        log = self.open()
        append(log, records(0, [1000]))
        self.assertEqual(self.seals(), [])
        self.job(log)()
        self.assertEqual(self.seals(), ["0"])

    def test_sync_that_began_before(self) -> None:
        """A sync that began before the segment was full does not seal it."""
        log = self.open()
        append(log, records(0, [500]))
        end = self.job(log)
        append(log, records(1, [500]))
        end()
        self.assertEqual(self.seals(), [])
        self.job(log)()
        self.assertEqual(self.seals(), ["0"])

    def test_retention_during_a_sync(self) -> None:
        """A segment that retention takes while it is being synced leaves nothing."""
        log = self.open()
        append(log, records(0, [1000]))
        end = self.job(log)
        segment = log.segments[0]
        segment.path.unlink()
        log.drop_front(segment)
        end()
        self.assertEqual(self.seals(), [])
        self.assertFalse(segment.sidecar_path.exists())
        self.assertEqual(self.files.open_fds, 1)

    def test_names_are_synced_once(self) -> None:
        """A new segment's directory is synced with it, and not again after that."""
        log = self.open()
        first = log.sync_job()
        self.assertEqual(first.directories, [self.directory.parent, self.directory])
        log.synced(first)
        append(log, records(0, [1000, 1000]))
        second = log.sync_job()
        self.assertEqual(second.directories, [self.directory])
        self.assertEqual(len(second.files), 3)
        log.synced(second)
        third = log.sync_job()
        self.assertEqual((third.directories, len(third.files)), ([], 1))
        log.synced(third)

    def test_marks_only_rise(self) -> None:
        """A mark that would move back or past what is written is a bug that shows."""
        log = self.open()
        store(log, self.files, records(0, [30]))
        self.assertRaises(AssertionError, log.mark_readable, 0)
        self.assertRaises(AssertionError, log.mark_readable, 51)

    def test_ids_of_seals(self) -> None:
        """A seal carries the id of its own segment's last message, wherever in a batch
        that is, and also after a restart in the middle of the segment."""
        log = self.open()
        store(log, self.files, records(0, [400]))
        log.close()
        log = self.open()
        batch = records(1, [400] * 6)
        store(log, self.files, batch)
        ids = [int.from_bytes(batch[at][8:16], "big") for at in (1, 4)]
        found = [
            int(one.sidecar_path.read_bytes().split(b"\nsealed ")[1].split()[2])
            for one in log.segments[:-1]
        ]
        self.assertEqual(found, ids)

    def test_id_of_a_full_segment_at_start(self) -> None:
        """A segment that was full at the start is sealed with its own id."""
        batch = records(0, [500, 500])
        self.write(0, b"".join(batch))
        log = self.open()
        store(log, self.files, records(5, [10]))
        newest = int.from_bytes(batch[1][8:16], "big")
        text = log.segments[0].sidecar_path.read_bytes()
        self.assertIn(b"\nsealed 1040 2 %d " % newest, text)

    def test_id_after_a_failed_append(self) -> None:
        """A segment's newest id is not that of a message that was taken back."""
        log = self.open()
        store(log, self.files, records(0, [500]))
        newest = log.last_id
        self.files.fail("write", errno.ENOSPC, after=1)
        self.assertRaises(OSError, append, log, records(1, [10, 900, 900]))
        self.assertEqual([one.last_id for one in log.segments], [newest])

    def test_counts_of_a_seal(self) -> None:
        """The counts of a seal are those of its segment."""
        log = self.open()
        store(log, self.files, records(0, [500, 500, 10]))
        path = log.segments[0].sidecar_path
        self.assertIn(b"\nsealed 1040 2 ", path.read_bytes())
