"""Archiving and deleting segment files, and what a failure leaves behind."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage import archive
from metatwist.broker.storage.archive import (
    archive_segment,
    delete_segment,
    remove_leftovers,
)
from metatwist.errors import StorageError

NAME = "00000000000000004120.meta"
BYTES = bytes(range(256)) * 100

DYING_RUN = """
import os, sys
from pathlib import Path
from metatwist.broker.storage import archive

steps_left = [None] * int(sys.argv[1])
archive.os.fsync = lambda _: steps_left.pop() if steps_left else os._exit(7)
archive.archive_segment(Path(sys.argv[2]), compress=True)
"""


class _OneWayFile:
    """A file that cannot seek, for which zipfile writes sizes behind the data."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write
        self.flush = file.flush


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Let the system refuse to write files beyond a size, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class SegmentCase(SynchronousTestCase):
    """A directory with one segment."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)
        self.segment = self.directory / NAME
        self.segment.write_bytes(BYTES)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.directory))

    def on_fsync(self, action: Callable[[bool], None]) -> None:
        """Call `action` before each fsync, with whether it is of a directory."""
        fsync = os.fsync

        def watched(descriptor: int) -> None:
            action(stat.S_ISDIR(os.fstat(descriptor).st_mode))
            fsync(descriptor)

        self.patch(archive.os, "fsync", watched)

    def fail_fsync(self, of_directory: bool) -> None:
        def fail(is_directory: bool) -> None:
            if is_directory == of_directory:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.on_fsync(fail)

    def assert_refused(self, compress: bool) -> str:
        """Archiving raises a StorageError that names the segment, which stays."""
        error = self.assertRaises(
            StorageError, archive_segment, self.segment, compress=compress
        )
        self.assertIn(str(self.segment), str(error))
        self.assertEqual(self.segment.read_bytes(), BYTES)
        return str(error)


class PlainTests(SegmentCase):
    """`archive,<time>`: the file under another name."""

    def test_renamed(self) -> None:
        """The segment is kept whole as `.meta.arc`, with its modification time."""
        os.utime(self.segment, (1000, 1000))
        target = archive_segment(self.segment, compress=False)
        self.assertEqual(target, self.directory / f"{NAME}.arc")
        self.assertEqual(self.names(), [f"{NAME}.arc"])
        self.assertEqual(target.read_bytes(), BYTES)
        self.assertEqual(target.stat().st_mtime, 1000)

    def test_directory_synced(self) -> None:
        """The new name is made durable before the call returns."""
        seen: list[list[str]] = []
        self.on_fsync(lambda is_directory: seen.append(self.names()))
        archive_segment(self.segment, compress=False)
        self.assertEqual(seen, [[f"{NAME}.arc"]])

    def test_other_archive_in_the_way(self) -> None:
        """An archive with other content is not overwritten."""
        target = self.directory / f"{NAME}.arc"
        target.write_bytes(BYTES + b"more")
        self.assertIn(str(target), self.assert_refused(compress=False))
        self.assertEqual(target.read_bytes(), BYTES + b"more")

    def test_same_archive_in_the_way(self) -> None:
        """An archive with the same content is taken, and the source removed."""
        (self.directory / f"{NAME}.arc").write_bytes(BYTES)
        archive_segment(self.segment, compress=False)
        self.assertEqual(self.names(), [f"{NAME}.arc"])

    def test_failing_directory_sync(self) -> None:
        """A name that could not be made durable is taken back."""
        self.fail_fsync(of_directory=True)
        self.assert_refused(compress=False)
        self.assertEqual(self.names(), [NAME])

    def test_no_segment(self) -> None:
        """A segment that is not there is an error that names it."""
        missing = self.directory / "00000000000000000007.meta"
        error = self.assertRaises(StorageError, archive_segment, missing, False)
        self.assertIn(str(missing), str(error))


class CompressedTests(SegmentCase):
    """`archive,<time>,true`: a zip with one entry."""

    def test_one_entry(self) -> None:
        """The zip holds the segment, compressed, under the segment's name."""
        target = archive_segment(self.segment, compress=True)
        self.assertEqual(target, self.directory / f"{NAME}.zip")
        self.assertEqual(self.names(), [f"{NAME}.zip"])
        with zipfile.ZipFile(target) as kept:
            self.assertEqual(kept.namelist(), [NAME])
            self.assertEqual(kept.read(NAME), BYTES)
            self.assertEqual(kept.getinfo(NAME).compress_type, zipfile.ZIP_DEFLATED)
        self.assertLess(target.stat().st_size, len(BYTES))

    def test_empty_segment(self) -> None:
        """A segment without a byte is archived like any other."""
        self.segment.write_bytes(b"")
        with zipfile.ZipFile(archive_segment(self.segment, compress=True)) as kept:
            self.assertEqual(kept.read(NAME), b"")

    def test_permissions(self) -> None:
        """Nobody may read the archive who could not read the segment."""
        self.segment.chmod(0o600)
        target = archive_segment(self.segment, compress=True)
        self.assertEqual(stat.S_IMODE(target.stat().st_mode), 0o600)

    def test_before_1980(self) -> None:
        """A modification time that zip cannot express is no obstacle."""
        os.utime(self.segment, (0, 0))
        archive_segment(self.segment, compress=True)
        self.assertEqual(self.names(), [f"{NAME}.zip"])

    def test_order(self) -> None:
        """The zip is synced, then its name, and only then is the source removed."""
        seen: list[tuple[bool, list[str]]] = []
        self.on_fsync(lambda is_directory: seen.append((is_directory, self.names())))
        archive_segment(self.segment, compress=True)
        self.assertEqual(
            seen,
            [
                (False, [NAME, f"{NAME}.zip.tmp"]),
                (True, [NAME, f"{NAME}.zip"]),
                (True, [f"{NAME}.zip"]),
            ],
        )

    def test_constant_memory(self) -> None:
        """A segment far larger than the copy buffer is never held as a whole."""
        size_bytes = 24 * archive.COPY_BYTES
        os.truncate(self.segment, size_bytes)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        target = archive_segment(self.segment, compress=True)
        self.assertLess(tracemalloc.get_traced_memory()[1], size_bytes / 3)
        with zipfile.ZipFile(target) as kept:
            self.assertEqual(kept.getinfo(NAME).file_size, size_bytes)

    def test_disk_full(self) -> None:
        """When the zip cannot be written the source stays and nothing else (D-13)."""
        self.segment.write_bytes(contents := os.urandom(64 * 1024))
        with largest_file(16 * 1024):
            error = self.assertRaises(StorageError, archive_segment, self.segment, True)
        self.assertIn(str(self.segment), str(error))
        self.assertEqual(self.segment.read_bytes(), contents)
        self.assertEqual(self.names(), [NAME])

    def test_failing_sync(self) -> None:
        """When the zip cannot be synced the source stays and nothing else."""
        self.fail_fsync(of_directory=False)
        self.assert_refused(compress=True)
        self.assertEqual(self.names(), [NAME])

    def test_failing_directory_sync(self) -> None:
        """The source stays until the zip's name is known to be durable."""
        self.fail_fsync(of_directory=True)
        self.assert_refused(compress=True)

    def test_zip_reads_back_differently(self) -> None:
        """A zip that was damaged on its way to the disk does not replace anything."""

        def damage(is_directory: bool) -> None:
            temporary = self.directory / f"{NAME}.zip.tmp"
            if temporary.exists():
                contents = bytearray(temporary.read_bytes())
                contents[len(contents) // 2] ^= 0xFF
                temporary.write_bytes(contents)

        self.on_fsync(damage)
        self.assert_refused(compress=True)
        self.assertEqual(self.names(), [NAME])


class CrashTests(SegmentCase):
    """What a run finds that follows one that died."""

    def zip_of(self, contents: bytes, name: str = NAME) -> Path:
        target = self.directory / f"{NAME}.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as kept:
            kept.writestr(name, contents)
        return target

    def test_finished_zip(self) -> None:
        """A complete zip is taken as it is, and only the source is removed."""
        before = self.zip_of(BYTES).read_bytes()
        target = archive_segment(self.segment, compress=True)
        self.assertEqual(self.names(), [f"{NAME}.zip"])
        self.assertEqual(target.read_bytes(), before)

    def test_streamed_zip(self) -> None:
        """A zip with its sizes behind the data, as a Java broker writes, counts too."""
        with open(self.directory / f"{NAME}.zip", "wb") as out:
            one_way = cast("IO[bytes]", _OneWayFile(out))
            with zipfile.ZipFile(one_way, "w", zipfile.ZIP_DEFLATED) as kept:
                kept.writestr(NAME, BYTES)
        archive_segment(self.segment, compress=True)
        self.assertEqual(self.names(), [f"{NAME}.zip"])

    def test_zip_of_something_else(self) -> None:
        """A zip with other bytes, or another name in it, is left alone and named."""
        changed = bytes([BYTES[0] ^ 1]) + BYTES[1:]
        for contents in (changed, BYTES[:-1], BYTES + b"x", b""):
            target = self.zip_of(contents)
            self.assertIn(str(target), self.assert_refused(compress=True))
        self.zip_of(BYTES, name="other.meta")
        self.assert_refused(compress=True)

    def test_torn_zip(self) -> None:
        """A zip cut at any place does not pass for a complete one."""
        target = self.zip_of(BYTES)
        whole = target.read_bytes()
        for size_bytes in range(0, len(whole), 7):
            target.write_bytes(whole[:size_bytes])
            self.assert_refused(compress=True)

    def test_damaged_zip(self) -> None:
        """A zip with a damaged entry does not pass for a complete one."""
        target = self.zip_of(BYTES)
        whole = target.read_bytes()
        data_start = 30 + len(NAME)
        for place in range(data_start, whole.index(b"PK\x01\x02"), 5):
            damaged = bytearray(whole)
            damaged[place] ^= 0xFF
            target.write_bytes(damaged)
            self.assert_refused(compress=True)

    def test_temporary_file(self) -> None:
        """A half-written zip of an earlier run is replaced."""
        (self.directory / f"{NAME}.zip.tmp").write_bytes(b"half")
        archive_segment(self.segment, compress=True)
        self.assertEqual(self.names(), [f"{NAME}.zip"])

    def test_died_at_any_step(self) -> None:
        """Wherever an archiving run stops, the next one completes it."""
        for last_step in range(3):
            self.die_at_fsync(last_step)
            if self.segment.exists():
                archive_segment(self.segment, compress=True)
            with zipfile.ZipFile(self.directory / f"{NAME}.zip") as kept:
                self.assertEqual(kept.read(NAME), BYTES)
            self.assertEqual(self.names(), [f"{NAME}.zip"])

    def die_at_fsync(self, last_step: int) -> None:
        """Archive in a process that ends, without any clean-up, at its n-th fsync."""
        (self.directory / f"{NAME}.zip").unlink(missing_ok=True)
        self.segment.write_bytes(BYTES)
        arguments = [str(last_step), str(self.segment)]
        ended = subprocess.run([sys.executable, "-c", DYING_RUN, *arguments])
        self.assertEqual(ended.returncode, 7)

    def test_leftovers(self) -> None:
        """Half-written zips are removed and reported; every other file stays."""
        leftover = self.directory / f"{NAME}.zip.tmp"
        for name in (leftover.name, f"{NAME}.zip", f"{NAME}.arc", "notes.zip.tmp"):
            (self.directory / name).write_bytes(b"")
        self.assertEqual(remove_leftovers(self.directory), (leftover,))
        self.assertEqual(
            self.names(), sorted([NAME, f"{NAME}.zip", f"{NAME}.arc", "notes.zip.tmp"])
        )

    def test_leftovers_of_no_directory(self) -> None:
        """A directory that cannot be listed is an error that names it."""
        missing = self.directory / "gone"
        error = self.assertRaises(StorageError, remove_leftovers, missing)
        self.assertIn(str(missing), str(error))


class DeleteTests(SegmentCase):
    """`delete,<time>`: the file is gone, durably."""

    def test_deleted(self) -> None:
        """The segment is removed and its directory synced after it."""
        seen: list[list[str]] = []
        self.on_fsync(lambda is_directory: seen.append(self.names()))
        delete_segment(self.segment)
        self.assertEqual(seen, [[]])

    def test_gone_already(self) -> None:
        """Deleting what is not there is done already."""
        delete_segment(self.segment)
        delete_segment(self.segment)
        self.assertEqual(self.names(), [])

    def test_failure(self) -> None:
        """A failure is raised and names the segment."""
        self.fail_fsync(of_directory=True)
        error = self.assertRaises(StorageError, delete_segment, self.segment)
        self.assertIn(str(self.segment), str(error))
