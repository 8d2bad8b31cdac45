"""Which directories are partitions, who may open them, and with how many files."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.catalog import Catalog, split_name
from metatwist.broker.storage.file_pool import FilePool
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import LogContext, PartitionLog
from metatwist.broker.storage.segment import segment_path
from metatwist.errors import DirectoryInUse, StorageError
from tests.storage.log_tools import append, contents, records, store, sync
from tests.support.faulty_files import FaultyFiles

OTHER_BROKER = """
import sys
from pathlib import Path
from metatwist.broker.storage.catalog import Catalog
from metatwist.broker.storage.file_pool import FilePool
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import LogContext

files = FileOps()
Catalog(LogContext(files, FilePool(files, 4), 1000)).lock([Path(sys.argv[1])])
print("locked", flush=True)
sys.stdin.readline()
"""
PROJECT = Path(__file__).parents[2]


class CatalogCase(SynchronousTestCase):
    """Two data roots that do not exist yet."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name).resolve() / "one" / "data"
        self.other_root = self.root.parent / "other"
        self.files = FaultyFiles()

    def catalog(self, descriptors: int = 64, segment_bytes: int = 1000) -> Catalog:
        """A catalog on the faulty files."""
        pool = FilePool(self.files, descriptors)
        return Catalog(LogContext(self.files, pool, segment_bytes))


class LockTests(CatalogCase):
    """One broker for a data root (D-21)."""

    def test_creates_the_roots(self) -> None:
        """Roots are made with their parents, and no file is put into them."""
        catalog = self.catalog()
        catalog.lock([self.root, self.other_root])
        self.assertEqual(list(self.root.iterdir()), [])
        self.assertEqual(list(self.other_root.iterdir()), [])
        catalog.close()

    def test_names_are_synced(self) -> None:
        """The names of roots that were made, and of their parents, are on disk before
        anything is stored; those that were there cost nothing."""
        synced: list[Path] = []
        self.files.sync_directory = synced.append  # type: ignore[method-assign]
        for _ in range(2):
            catalog = self.catalog()
            catalog.lock([self.root, self.other_root])
            catalog.close()
        parent = self.root.parent
        self.assertEqual(synced, [parent.parent, parent, parent])

    def test_name_that_cannot_be_synced(self) -> None:
        """A root whose name cannot be made durable is not used."""
        self.files.fail("sync_directory", errno.EIO)
        error = self.assertRaises(StorageError, self.catalog().lock, [self.root])
        self.assertIn(str(self.root), str(error))

    def test_second_broker_is_refused(self) -> None:
        """A second broker on any of the roots is refused, and told what to do."""
        first, second = self.catalog(), self.catalog()
        first.lock([self.other_root])
        error = self.assertRaises(
            DirectoryInUse, second.lock, [self.root, self.other_root]
        )
        self.assertIn(str(self.other_root), str(error))
        self.assertIn("stop that one", str(error))
        first.close()

    def test_refused_broker_keeps_nothing(self) -> None:
        """A broker that is refused one root lets go of the others."""
        first, second, third = self.catalog(), self.catalog(), self.catalog()
        first.lock([self.other_root])
        self.assertRaises(DirectoryInUse, second.lock, [self.root, self.other_root])
        third.lock([self.root])
        first.close()
        third.close()
        self.assertEqual(self.files.open_fds, 0)

    def test_free_again(self) -> None:
        """After a stop the next broker gets the root."""
        for _ in range(2):
            catalog = self.catalog()
            catalog.lock([self.root, self.root])
            catalog.close()

    def test_across_processes(self) -> None:
        """A broker in another process keeps this one out until it ends, however."""
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        with subprocess.Popen(
            [sys.executable, "-c", OTHER_BROKER, str(self.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        ) as other:
            assert other.stdout is not None
            self.assertEqual(other.stdout.readline(), b"locked\n")
            self.assertRaises(DirectoryInUse, self.catalog().lock, [self.root])
            other.kill()
        catalog = self.catalog()
        catalog.lock([self.root])
        catalog.close()

    def test_root_that_cannot_be_made(self) -> None:
        """A root that cannot be made or opened is named."""
        self.files.fail("make_directory", errno.EACCES)
        error = self.assertRaises(StorageError, self.catalog().lock, [self.root])
        self.assertIn(f"{self.root}: Permission denied", str(error))


class NameTests(SynchronousTestCase):
    """Names of partition directories (spec 2)."""

    def test_split_at_the_last_dash(self) -> None:
        """A topic may contain dashes; the number is behind the last one."""
        self.assertEqual(split_name("a-1"), ("a", 1))
        self.assertEqual(split_name("chat-log-12"), ("chat-log", 12))
        self.assertEqual(split_name("x--3"), ("x-", 3))
        self.assertEqual(split_name("x-2147483647"), ("x", 2147483647))

    def test_no_partitions(self) -> None:
        """What has no decimal number of 31 bits behind a dash is no partition."""
        for name in (
            "transactions", "foo-bar", "x-0x1", "x-", "-1", "x-1 ", "x-+1", "x-1_0",
            "x-\u0663", "x-2147483648", "x-" + "9" * 200, "metatwist.deleted.x.1",
        ):  # fmt: skip
            self.assertIsNone(split_name(name), name)


class DiscoverTests(CatalogCase):
    """What is in the roots."""

    def discover(self, *names: str) -> tuple[list[str], list[str]]:
        """Names of the partitions found among these directories, and the problems."""
        for name in names:
            (self.root / name).mkdir(parents=True)
        found = self.catalog().discover([self.root])
        return [one.path.name for one in found.directories], found.problems

    def test_mixed_directory(self) -> None:
        """Partitions are found among other things, which are named if they look like
        one."""
        self.root.mkdir(parents=True)
        (self.root / "a-7").write_text("a file")
        partitions, problems = self.discover(
            "a-0", "a-b-1", "foo-bar", "x-0x1", "transactions", "lost+found"
        )
        self.assertEqual(partitions, ["a-0", "a-b-1"])
        self.assertEqual(len(problems), 2)
        self.assertIn("foo-bar: not a partition, ignored", problems[0])

    def test_any_listing_order(self) -> None:
        """What is found does not depend on the order in which names are listed."""
        (self.root / "b-1").mkdir(parents=True)
        (self.root / "zzz").mkdir()

        class Shuffled(FileOps):
            def entries(self, path: Path) -> list[tuple[str, bool]]:  # type: ignore[override]
                return list(super().entries(path))[::-1]

        files = Shuffled()
        catalog = Catalog(LogContext(files, FilePool(files, 4), 1000))
        found = catalog.discover([self.root])
        self.assertEqual([one.key for one in found.directories], [("b", 1)])

    def test_in_two_roots(self) -> None:
        """A partition in two roots is served from the first; the other is named."""
        for root in (self.root, self.other_root):
            (root / "a-0").mkdir(parents=True)
        found = self.catalog().discover([self.root, self.other_root])
        self.assertEqual([one.path for one in found.directories], [self.root / "a-0"])
        (problem,) = found.problems
        self.assertIn(str(self.root / "a-0"), problem)
        self.assertIn(f"{self.other_root / 'a-0'}: the same partition", problem)

    def test_one_root_twice(self) -> None:
        """A root that is named twice, or through a link, is one root."""
        (self.root / "a-0").mkdir(parents=True)
        link = self.root.parent / "link"
        link.symlink_to(self.root)
        found = self.catalog().discover([self.root, link, self.root])
        self.assertEqual((len(found.directories), found.problems), (1, []))

    def test_number_with_zeros_in_front(self) -> None:
        """`a-01` and `a-1` are one partition, served from one of them."""
        partitions, problems = self.discover("a-01", "a-1")
        self.assertEqual(partitions, ["a-01"])
        self.assertEqual(len(problems), 1)

    def test_unreadable_root(self) -> None:
        """A root that cannot be listed is named."""
        self.root.mkdir(parents=True)
        self.files.fail("entries", errno.EIO)
        error = self.assertRaises(StorageError, self.catalog().discover, [self.root])
        self.assertIn(str(self.root), str(error))


class CreateTests(CatalogCase):
    """New partitions."""

    def test_starts_at_zero(self) -> None:
        """A new partition has one empty segment at offset 0."""
        catalog = self.catalog()
        log = catalog.create(self.root, "a", 3)
        self.assertEqual(log.segments[0].path, segment_path(self.root / "a-3", 0))
        self.assertEqual(catalog.partitions_of("a"), [3])

    def test_never_over_messages(self) -> None:
        """A directory whose segments were not loaded is not begun anew: new messages
        would be written into old files."""
        path = self.root / "a-3"
        path.mkdir(parents=True)
        segment_path(path, 500).write_bytes(b"".join(records(0, [30])))
        error = self.assertRaises(
            FileExistsError, self.catalog().create, self.root, "a", 3
        )
        self.assertIn("holds messages that were not loaded", str(error))
        self.assertFalse(segment_path(path, 0).exists())

    def test_directory_without_segments(self) -> None:
        """An empty directory left by a start that failed is used."""
        (self.root / "a-3").mkdir(parents=True)
        log = self.catalog().create(self.root, "a", 3)
        batch = records(0, [30])
        store(log, self.files, batch)
        self.assertEqual(contents(log), batch)


class ManySegmentsTests(CatalogCase):
    """Thousands of segments with a few descriptors."""

    count = 3000

    def test_descriptors_stay_bounded(self) -> None:
        """3000 segments are loaded, read and appended to with 8 descriptors."""
        path = self.root / "a-0"
        path.mkdir(parents=True)
        batch = records(0, [30] * self.count)
        for number, record in enumerate(batch):
            segment_path(path, number * len(record)).write_bytes(record)
        before = len(os.listdir("/proc/self/fd"))
        catalog = self.catalog(descriptors=8)
        (directory,) = catalog.discover([self.root]).directories
        log = catalog.loaded(directory, catalog.load(directory))
        self.assertEqual(self.files.open_fds, 0)
        self.assertEqual(contents(log), batch)
        self.assertLessEqual(self.files.open_fds, 8)
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before + 8)
        catalog.close()
        self.assertEqual(self.files.open_fds, 0)

    def test_a_sync_over_many(self) -> None:
        """A batch over more segments than there are descriptors is synced whole, and
        the descriptors are given back."""
        self.root.mkdir(parents=True)
        log = self.catalog(descriptors=4, segment_bytes=50).create(self.root, "a", 0)
        batch = records(0, [30] * 20)
        store(log, self.files, batch)
        self.assertEqual(contents(log), batch)
        self.assertLessEqual(self.files.open_fds, 4)


class UnsyncedTests(CatalogCase):
    """Files with bytes that are not on disk stay open, so that the system can tell of
    a failed write-back."""

    def setUp(self) -> None:
        super().setUp()
        self.root.mkdir(parents=True)
        self.owner = self.catalog(descriptors=1, segment_bytes=200)
        self.log = self.owner.create(self.root, "a", 0)
        sync(self.log, self.files)
        self.others = [self.owner.create(self.root, "a", n) for n in (1, 2)]

    def push_out(self) -> None:
        """Use other files, more than the pool keeps."""
        for log in self.others:
            log.open(log.segments[-1]).release()

    def opened(self, log: PartitionLog, at: int = -1) -> int:
        """How often a segment's file is opened to be synced."""
        self.push_out()
        self.files.calls.clear()
        self.owner._context.pool.hold(log.segments[at].path).release()
        return self.files.calls["open"]

    def test_until_it_is_synced(self) -> None:
        """A file is kept open from its first unsynced write until a sync that covers
        it has ended, and not a moment longer."""
        self.assertEqual(self.opened(self.log), 1)
        for record in records(0, [30, 30]):
            append(self.log, [record])
            self.assertEqual(self.opened(self.log), 0)
        job = self.log.sync_job()
        append(self.log, records(2, [30]))
        self.log.synced(job)
        self.assertEqual(self.opened(self.log), 0)
        sync(self.log, self.files)
        self.assertEqual(self.opened(self.log), 1)

    def test_full_segments(self) -> None:
        """Segments that became full before they were synced are kept open as well."""
        append(self.log, records(0, [180] * 2))
        self.assertEqual([self.opened(self.log, at) for at in (0, 1)], [0, 0])
        sync(self.log, self.files)
        self.assertEqual([self.opened(self.log, at) for at in (0, 1)], [1, 1])

    def let_go_by(self, end: Callable[[], object]) -> None:
        """After a write, `end` lets go of all files, once."""
        append(self.log, records(0, [180] * 2))
        end()
        self.owner.close()
        self.assertEqual(self.files.open_fds, 0)

    def test_let_go_at_once(self) -> None:
        """A partition that stops does not wait for its end to let go."""
        append(self.log, records(0, [30]))
        self.log.stop("cannot open")
        self.assertEqual(self.opened(self.log), 1)

    def test_failed_sync(self) -> None:
        """A partition that stops holds nothing."""
        self.let_go_by(lambda: self.log.sync_failed(self.log.sync_job(), "EIO"))

    def test_stopped_without_a_sync(self) -> None:
        """So does one that stops for another reason."""
        self.let_go_by(lambda: self.log.stop("cannot open"))

    def test_closed(self) -> None:
        """A log that is closed, twice even, holds nothing."""
        self.let_go_by(self.log.close)

    def test_removed_before_it_was_synced(self) -> None:
        """Retention may take a segment that was not synced."""
        self.let_go_by(lambda: self.log.drop_front(self.log.segments[0]))

    def test_taken_back(self) -> None:
        """A failed append holds no file that it alone has written to."""
        self.files.fail("write", errno.ENOSPC, after=2)
        self.assertRaises(OSError, append, self.log, records(0, [180] * 3))
        self.assertEqual(self.opened(self.log), 1)
        self.owner.close()
        self.assertEqual(self.files.open_fds, 0)


class FileOpsTests(SynchronousTestCase):
    """Where a system lacks something."""

    def test_no_read_ahead(self) -> None:
        """Reading ahead is advice: a system that takes none is no error."""
        if hasattr(os, "posix_fadvise"):
            self.patch(os, "posix_fadvise", None)
            del os.posix_fadvise
        with tempfile.TemporaryFile() as file:
            FileOps().will_need(file.fileno(), 0, 10)


class FilePoolTests(CatalogCase):
    """Descriptors by path."""

    def setUp(self) -> None:
        super().setUp()
        self.root.mkdir(parents=True)
        self.paths = [self.root / str(number) for number in range(6)]
        for path in self.paths:
            path.write_text(path.name)
        self.pool = FilePool(self.files, 3)

    def test_least_recently_used_goes(self) -> None:
        """Past the limit the one that was not used for longest is closed."""
        for at in (0, 1, 2, 0, 3):
            self.pool.hold(self.paths[at]).release()
        self.files.calls.clear()
        for at in (0, 2, 3):
            self.pool.hold(self.paths[at]).release()
        self.assertEqual(self.files.calls["open"], 0)
        self.pool.hold(self.paths[1]).release()
        self.assertEqual(self.files.calls["open"], 1)

    def test_held_files_stay_open(self) -> None:
        """Files in use are kept whatever the limit; later the limit holds again."""
        held = [self.pool.hold(path) for path in self.paths]
        self.assertEqual(self.files.open_fds, 6)
        for file in held:
            self.files.read(file.fd, 0, 1)
            file.release()
        self.assertEqual(self.files.open_fds, 3)

    def test_forgotten_while_held(self) -> None:
        """A reader of a removed file finishes; then its descriptor is closed."""
        file = self.pool.hold(self.paths[0])
        self.paths[0].unlink()
        self.pool.forget(self.paths[0])
        self.assertEqual(self.files.read(file.fd, 0, 1), b"0")
        self.assertEqual(len(self.pool), 1)
        file.release()
        self.assertEqual((len(self.pool), self.files.open_fds), (0, 0))

    def test_writable_after_readable(self) -> None:
        """A file opened for reading is opened anew to be written, readers unharmed."""
        reading = self.pool.hold(self.paths[0])
        writing = self.pool.hold(self.paths[0], writable=True)
        self.files.append(writing.fd, [b"x"])
        self.assertEqual(self.files.read(reading.fd, 0, 9), b"0x")
        self.assertIs(self.pool.hold(self.paths[0]), writing)
        reading.release()
        self.assertEqual(self.files.open_fds, 1)

    def test_open_fails(self) -> None:
        """A file that cannot be opened leaves nothing behind."""
        self.files.fail("open", errno.EMFILE)
        self.assertRaises(OSError, self.pool.hold, self.paths[0])
        self.assertEqual(len(self.pool), 0)
