"""What a start does with a directory that is not as it should be, and what it says."""

from __future__ import annotations

import errno

from metatwist.broker.storage.slices import OffsetMoved
from metatwist.errors import StorageError
from tests.storage.log_tools import consume, contents, records, store
from tests.storage.recovery_case import RecoveryCase


class TailTests(RecoveryCase):
    """The end of the last segment."""

    def test_torn_tail(self) -> None:
        """A record cut at any byte is cut off; the report says how much and where."""
        first, second = records(0, [30, 40])
        for size in range(len(second)):
            self.write(0, first + second[:size])
            log = self.open()
            self.assertEqual(contents(log), [first])
            cut_at = len(first) if size else 0
            self.assertEqual((log.report.cut_at, log.report.cut_bytes), (cut_at, size))
            self.assertEqual(log.segments[0].path.stat().st_size, len(first))
            log.segments[0].sidecar_path.unlink()

    def test_zero_tail(self) -> None:
        """Zeros at the end are cut off, not served as empty messages (D-6)."""
        (first,) = records(0, [30])
        for zeros in (1, 19, 20, 40, 5000):
            self.write(0, first + bytes(zeros))
            log = self.open()
            self.assertEqual(contents(log), [first])
            self.assertEqual(log.report.cut_bytes, zeros)
            self.assertEqual(log.messages, 1)
            log.segments[0].sidecar_path.unlink()

    def test_worked_example(self) -> None:
        """25 good bytes and 70 zero bytes are 25 bytes and one message (spec 10.3)."""
        hello = bytes.fromhex("000000053610a6860000000000000001 00000000") + b"hello"
        self.write(0, hello + bytes(70))
        log = self.open()
        self.assertEqual((log.log_end, log.messages), (25, 1))

    def test_nothing_but_a_torn_record(self) -> None:
        """A file without one whole record is an empty partition that takes puts."""
        (first,) = records(0, [30])
        self.write(0, first[:-1])
        log = self.open()
        store(log, self.files, [first])
        self.assertEqual(contents(log), [first])

    def test_empty_last_segment(self) -> None:
        """A last segment of 0 bytes is written to."""
        first, second = records(0, [30, 40])
        self.write(0, first)
        self.write(len(first), b"")
        log = self.open()
        self.assertEqual(log.report.problems, [])
        store(log, self.files, [second])
        self.assertEqual(contents(log), [first, second])
        self.assertEqual(len(log.segments), 2)

    def test_appends_go_on_behind_the_cut(self) -> None:
        """What is stored after a cut is found at the next start."""
        first, second = records(0, [30, 40])
        self.write(0, first + b"torn")
        store(self.open(), self.files, [second])
        log = self.open()
        self.assertEqual(contents(log), [first, second])
        self.assertEqual(log.report.cut_bytes, 0)


class MiddleTests(RecoveryCase):
    """Bad records with good ones behind them."""

    def damaged(self) -> tuple[list[bytes], bytes]:
        """Three records, and a file in which the second one is damaged."""
        batch = records(0, [30, 40, 50])
        data = bytearray(b"".join(batch))
        data[len(batch[0]) + 30] ^= 4
        return batch, bytes(data)

    def test_last_segment(self) -> None:
        """A bad record in the last segment is reported and passed over, not cut."""
        batch, data = self.damaged()
        path = self.write(0, data)
        log = self.open()
        begin, end = len(batch[0]), len(batch[0]) + len(batch[1])
        self.assertEqual(log.report.bad, [(begin, end)])
        self.assertEqual(log.slice(begin + 5, 10), OffsetMoved(end))
        self.assertEqual(contents(log), [batch[0], batch[2]])
        self.assertEqual(path.read_bytes(), data)

    def test_reads_end_before_damage(self) -> None:
        """A range that begins in front of damage ends there."""
        batch, data = self.damaged()
        self.write(0, data)
        found = self.open().slice(0, 1 << 20)
        self.assertEqual(found[1:], (0, len(batch[0])))

    def test_known_without_a_walk(self) -> None:
        """After an orderly stop damage is known without walking, and appends go on."""
        batch, data = self.damaged()
        self.write(0, data)
        log = self.open()
        more = records(3, [60])
        store(log, self.files, more)
        log.close()
        again = self.open()
        self.assertEqual(again.report.scanned_bytes, 0)
        self.assertEqual(contents(again), [batch[0], batch[2], *more])
        self.assertEqual(len(again.report.bad), 1)

    def test_kept_when_its_segment_is_sealed(self) -> None:
        """Damage in a segment that is sealed later stays known."""
        batch, data = self.damaged()
        self.write(0, data)
        more = records(3, [900, 60])
        log = self.open()
        store(log, self.files, more)
        log.close()
        again = self.open()
        self.assertEqual(again.report.scanned_bytes, 0)
        self.assertTrue(again.segments[0].verified)
        self.assertEqual(contents(again), [batch[0], batch[2], *more])

    def test_sealed_segment_with_a_bad_tail(self) -> None:
        """Bytes at the end of a sealed segment that are no records are passed over."""
        first, second = records(0, [30, 40])
        self.write(0, first + b"x" * 100)
        self.write(len(first) + 100, second)
        log = self.open()
        self.verify(log)
        self.assertEqual(contents(log), [first, second])
        self.assertEqual(log.report.bad, [(len(first), len(first) + 100)])


class OrderTests(RecoveryCase):
    """Segments that do not fit together."""

    def test_gap(self) -> None:
        """Missing bytes between files are named; readers go on behind them (D-12)."""
        first, second = records(0, [30, 40])
        self.write(0, first)
        self.write(500, second)
        log = self.open()
        (problem,) = log.report.problems
        self.assertIn("450 bytes are missing", problem)
        self.assertIn(f"{500:020d}.meta", problem)
        for offset in (50, 51, 499):
            self.assertEqual(log.slice(offset, 100), OffsetMoved(500))
        self.assertEqual([one.offset for one in consume(log)], [0, 500])
        self.assertEqual(log.nearest(100), 500)

    def test_overlap(self) -> None:
        """Where files overlap the later one holds, and the report names both."""
        first, second, third = records(0, [30, 40, 50])
        self.write(0, first + second)
        self.write(len(first), third)
        log = self.open()
        self.verify(log)
        (problem,) = log.report.problems
        self.assertIn(f"{0:020d}.meta ends at 110", problem)
        self.assertIn("read only up to 50", problem)
        self.assertEqual(contents(log), [first, third])

    def test_first_segment_above_zero(self) -> None:
        """A partition that retention has shortened starts where its first file does."""
        (first,) = records(0, [30])
        self.write(7000, first)
        log = self.open()
        self.assertEqual((log.start, log.log_end), (7000, 7050))
        self.assertEqual(log.slice(0, 10), OffsetMoved(7000))

    def test_short_names(self) -> None:
        """Names with fewer digits than 20 are segments too (spec 18)."""
        first, second = records(0, [30, 40])
        (self.directory / "0.meta").write_bytes(first)
        (self.directory / "50.meta").write_bytes(second)
        log = self.open()
        self.verify(log)
        log.close()
        self.assertEqual(contents(self.open()), [first, second])


class ForeignTests(RecoveryCase):
    """Files that are no segments."""

    def test_foreign_files(self) -> None:
        """What is not a partition's is named, ignored, and left alone."""
        (first,) = records(0, [30])
        self.write(0, first)
        names = ["notes.txt", "x.meta", "notes.tmp", "-1.meta", "9" * 20 + ".meta"]
        names += ["my.index", "0.meta.bak", "1.meta.arc.zip"]
        for name in names:
            (self.directory / name).write_text("keep me")
        (self.directory / f"{50:020d}.meta").mkdir()
        log = self.open()
        self.assertEqual(contents(log), [first])
        self.assertEqual(len(log.report.problems), len(names) + 1)
        for name in names:
            self.assertIn(name, " ".join(log.report.problems))
            self.assertEqual((self.directory / name).read_text(), "keep me")

    def test_archives(self) -> None:
        """Archived segments are no problem and stay."""
        for name in (f"{0:020d}.meta.arc", f"{50:020d}.meta.zip"):
            (self.directory / name).write_bytes(b"archive")
        (first,) = records(0, [30])
        self.write(100, first)
        log = self.open()
        self.assertEqual(log.report.problems, [])
        self.assertEqual(len(list(self.directory.glob("*.meta.*"))), 2)

    def test_leftovers_of_ours(self) -> None:
        """Half-written files of ours and sidecars without a segment are removed."""
        (first,) = records(0, [30])
        self.write(0, first)
        for name in ("0.index.tmp", "7.index", f"{9:020d}.meta.zip.tmp"):
            (self.directory / name).write_bytes(b"left over")
        log = self.open()
        self.assertEqual(log.report.problems, [])
        self.assertEqual(
            sorted(path.name for path in self.directory.iterdir()),
            [f"{0:020d}.index", f"{0:020d}.meta"],
        )

    def test_leftover_that_stays(self) -> None:
        """A leftover that cannot be removed keeps nobody from the messages."""
        (first,) = records(0, [30])
        self.write(0, first)
        (self.directory / "7.index").write_bytes(b"left over")
        self.files.fail("remove")
        self.assertEqual(contents(self.open()), [first])


class UnreadableTests(RecoveryCase):
    """What the system refuses."""

    def assert_refused(self, words: str) -> None:
        """The partition cannot be loaded, and the reason names what."""
        error = self.assertRaises(StorageError, self.open)
        self.assertIn(words, str(error))

    def test_permission(self) -> None:
        """A segment that may not be read stops the load, named, and is not skipped."""
        self.write(0, b"".join(records(0, [30])))
        self.write(50, b"")
        self.files.fail("readable", matching=f"{0:020d}.meta")
        self.assert_refused(f"{0:020d}.meta: may not be read")

    def test_other_errors(self) -> None:
        """Whatever call fails, the error names the directory or the file in it."""
        for call in ("entries", "status", "open", "read", "truncate", "sync"):
            self.write(0, b"".join(records(0, [30])) + b"torn")
            self.files.fail(call, errno.EIO)
            self.assert_refused(str(self.directory))
            self.files.heal()

    def test_directory_cannot_be_synced(self) -> None:
        """Nothing is served whose name may be lost."""
        self.write(0, b"".join(records(0, [30])))
        self.files.fail("sync_directory")
        self.assert_refused(str(self.directory))

    def test_later_start_succeeds(self) -> None:
        """A load that failed has spoiled nothing for the next."""
        (first,) = records(0, [30])
        self.write(0, first + b"torn")
        self.files.fail("truncate")
        self.assert_refused(str(self.directory))
        self.assertEqual(contents(self.open()), [first])
