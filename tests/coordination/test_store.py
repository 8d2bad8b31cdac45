"""Persistent znodes in SQLite: what was committed is there, whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded import node_file
from metatwist.coordination.embedded.store import (
    INodeStore,
    Loaded,
    LostFiles,
    MemoryStore,
    NodeStore,
    StoredNode,
    StoreFull,
)
from metatwist.errors import DirectoryInUse, StorageError

OPEN = ((31, "world", "anyone"),)
LIMIT_S = 60


def node(path: str, data: bytes | None = None, **others: Any) -> StoredNode:
    """A node with numbers that are all different."""
    numbers: dict[str, Any] = {
        "acl": OPEN,
        "czxid": (1 << 32) + 1,
        "mzxid": (1 << 32) + 2,
        "ctime": 1796044384496,
        "mtime": 1796044384499,
        "version": 3,
        "aversion": 4,
        "pzxid": (1 << 32) + 5,
        "creates": 6,
    }
    return StoredNode(path, data, **{**numbers, **others})


def by_path(*nodes: StoredNode) -> dict[str, StoredNode | None]:
    """Changes that bring these nodes."""
    return {one.path: one for one in nodes}


class StoreCase(SynchronousTestCase):
    """A store in a directory of its own."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name) / "a" / "coordinator"
        self.path = self.directory / "nodes.db"

    def opened(self) -> tuple[NodeStore, Loaded]:
        """A store of `path`, closed after the test, and what it held."""
        store = NodeStore(self.path)
        loaded = store.open()
        self.addCleanup(store.close)
        return store, loaded

    def reopened(self) -> Loaded:
        """What a store of `path` holds now."""
        store = NodeStore(self.path)
        try:
            return store.open()
        finally:
            store.close()

    def sql(self, *statements: str) -> list[Any]:
        """Run statements in the closed file; the rows of the last one."""
        rows: list[Any] = []
        connection = sqlite3.connect(self.path)
        with connection:
            for statement in statements:
                rows = connection.execute(statement).fetchall()
        connection.close()
        return rows

    def refusal(self, path: Path | None = None) -> str:
        """What `open` says when it refuses the file, or a directory above."""
        error = self.assertRaises(StorageError, NodeStore(self.path).open)
        self.assertIn(str(path or self.path), str(error))
        return str(error)


class KeptTest(StoreCase):
    """What goes in comes out."""

    def _kept_by(self, store: INodeStore) -> list[StoredNode]:
        store.open()
        store.commit(by_path(node("/b"), node("/a", b"1"), node("/a/c", b"2")))
        store.commit({"/b": None, "/a": node("/a", b"3", version=9), "/none": None})
        store.commit({})
        store.close()
        loaded = store.open()
        store.close()
        return loaded.nodes

    def test_last_state_is_kept(self) -> None:
        """Nodes come back sorted, in their last state, without those that are gone;
        in memory as from the file."""
        expected = [node("/a", b"3", version=9), node("/a/c", b"2")]
        self.assertEqual(expected, self._kept_by(NodeStore(self.path)))
        self.assertEqual(expected, self._kept_by(MemoryStore()))

    def test_batches_of_any_size(self) -> None:
        """A batch is stored whole and deleted whole, whatever its size, and nothing
        else with it."""
        store, _ = self.opened()
        other = node("/other")
        store.commit(by_path(other))
        for size in (1, 2, 3, 255, 256, 257, 1000):
            nodes = [node(f"/n{number}", b"%d" % size) for number in range(size)]
            store.commit(by_path(*nodes))
            store.close()
            self.assertEqual(
                sorted([*nodes, other], key=lambda one: one.path), store.open().nodes
            )
            store.commit(dict.fromkeys((one.path for one in nodes), None))
            store.close()
            self.assertEqual([other], store.open().nodes)

    def test_any_data_and_acl(self) -> None:
        """Data of any bytes, none at all, and ACLs in any language come back equal."""

        @settings(max_examples=60)
        @given(
            st.none() | st.binary() | st.text().map(str.encode),
            st.lists(st.tuples(st.integers(0, 31), st.text(), st.text()), max_size=3),
        )
        def holds(data: bytes | None, acl: list[tuple[int, str, str]]) -> None:
            one = node("/x", data, acl=tuple(acl))
            store.commit(by_path(one))
            store.close()
            self.assertEqual([one], store.open().nodes)

        store, _ = self.opened()
        holds()

    def test_extreme_numbers_and_names(self) -> None:
        """Numbers of 64 bits and paths beyond ASCII come back equal."""
        store, _ = self.opened()
        first = node("/é", version=-(1 << 31), mzxid=(1 << 63) - 1)
        other = node("/é/\N{GRINNING FACE}", b"\x00\xff" * 600_000, czxid=-1)
        store.commit(by_path(first, other))
        store.close()
        self.assertEqual([first, other], self.reopened().nodes)

    def test_operator_can_read_it(self) -> None:
        """Text is text to an SQLite shell, other data a blob, no data NULL."""
        store, _ = self.opened()
        offset = b"-5468931049541074944-22"
        store.commit(
            by_path(
                node("/a", offset), node("/b", b"\xff"), node("/c"), node("/d", b"")
            )
        )
        store.close()
        found = self.sql("SELECT data, typeof(data), acl FROM node ORDER BY path")
        acl = '[[31,"world","anyone"]]'
        self.assertEqual(
            [
                (offset.decode(), "text", acl),
                (b"\xff", "blob", acl),
                (None, "null", acl),
                ("", "text", acl),
            ],
            found,
        )

    def test_private_and_clean(self) -> None:
        """Only the owner may read directory and file, and a close leaves no log."""
        store, _ = self.opened()
        store.commit(by_path(node("/a")))
        names = {path.name for path in self.directory.iterdir()}
        self.assertEqual({"nodes.db", "nodes.db-wal"}, names)
        for path in self.directory.iterdir():
            self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual(0o700, self.directory.stat().st_mode & 0o777)
        store.close()
        store.close()
        self.assertEqual([self.path], list(self.directory.iterdir()))

    def test_log_stays_small(self) -> None:
        """However much is written, the log beside the file stays within bounds."""
        store, _ = self.opened()
        nodes = [node(f"/n{number}", b"x" * 2000) for number in range(500)]
        for version in range(60):
            changed = [one._replace(version=version) for one in nodes]
            store.commit(by_path(*changed))
        log = self.path.with_name("nodes.db-wal")
        self.assertLess(log.stat().st_size, 16 << 20)
        self.assertGreater(log.stat().st_size, 0)


class EpochTest(StoreCase):
    """No zxid is given twice."""

    def test_each_open_is_an_epoch(self) -> None:
        """The epoch begins at 1 and rises with each open; in memory as in the file."""
        self.assertEqual([1, 2, 3], [self.reopened().epoch for _ in range(3)])
        memory = MemoryStore()
        self.assertEqual([1, 2], [memory.open().epoch for _ in range(2)])

    def test_epoch_passes_all_zxids(self) -> None:
        """An epoch that has used up its zxids and gone on into the next is left
        behind."""
        for last in ({"mzxid": (7 << 32) + 1}, {"pzxid": 9 << 32}):
            store = NodeStore(self.path)
            store.open()
            store.commit(by_path(node("/a", **last)))
            store.close()
            self.assertEqual(max(last.values()) >> 32, self.reopened().epoch - 1)


class RefusedTest(StoreCase):
    """A file that is not what it should be is left alone, and the error says why."""

    def _made(self, *nodes: StoredNode) -> None:
        store = NodeStore(self.path)
        store.open()
        store.commit(by_path(*nodes))
        store.close()

    def test_garbage(self) -> None:
        """A file that is no database is refused and stays as it is."""
        self.directory.mkdir(parents=True)
        self.path.write_bytes(b"garbage " * 1000)
        self.assertIn("move it away", self.refusal())
        self.assertEqual(b"garbage " * 1000, self.path.read_bytes())

    def test_foreign_database(self) -> None:
        """Another program's database is refused and stays as it is."""
        self.directory.mkdir(parents=True)
        self.sql("CREATE TABLE songs(name)")
        before = self.path.read_bytes()
        self.assertIn("some other program", self.refusal())
        self.assertEqual(before, self.path.read_bytes())

    def test_newer_layout(self) -> None:
        """A file of a newer version is refused and stays as it is."""
        self._made(node("/a"))
        self.sql("PRAGMA user_version=2")
        before = self.path.read_bytes()
        self.assertIn("its layout is 2, this version knows 1", self.refusal())
        self.assertEqual(before, self.path.read_bytes())

    def test_damage(self) -> None:
        """A file with an overwritten page is refused."""
        self._made(*(node(f"/n{number}", b"x" * 200) for number in range(1000)))
        with open(self.path, "r+b") as file:
            for page in range(3, 40):
                file.seek(page * 4096)
                file.write(b"\xa5" * 4096)
        self.assertIn("is damaged", self.refusal())

    def test_cut_short(self) -> None:
        """A file that has lost its end is refused."""
        self._made(*(node(f"/n{number}", b"x" * 200) for number in range(1000)))
        os.truncate(self.path, self.path.stat().st_size // 2)
        self.assertIn("is damaged", self.refusal())

    def test_missing_parts(self) -> None:
        """A file of ours without its tables or its epoch is refused."""
        self._made(node("/a"))
        self.sql("DELETE FROM tree")
        self.assertIn("`tree`", self.refusal())
        self.sql("DROP TABLE tree")
        self.assertIn("no such table: tree", self.refusal())

    def test_no_place_for_it(self) -> None:
        """A path below a file, or that is a directory, is refused."""
        self.path.mkdir(parents=True)
        self.refusal()
        self.path.rmdir()
        self.path.touch()
        self.path = self.path / "below.db"
        self.refusal()

    def test_read_only(self) -> None:
        """Where nothing can be written the error says so, and whether the file system
        is the reason."""
        self._made(node("/a"))
        for flags, text in ((os.ST_RDONLY, "mounted read-only"), (0, "permission")):
            for refused in (self.path, self.directory):
                system = System(refused, flags)
                self.patch(node_file, "os", system)
                self.assertIn(f"{refused} cannot be written: ", self.refusal(refused))
                self.assertIn(text, self.refusal(refused))
        self.patch(node_file, "os", os)
        self.assertEqual([node("/a")], self.reopened().nodes)

    def test_full_disk(self) -> None:
        """A disk that is full at the start is called that, and costs nothing."""
        self._made(node("/a"))
        store = NodeStore(self.path, partial(sqlite3.connect, factory=Full))
        error = self.assertRaises(StorageError, store.open)
        self.assertIn("the disk is full, and a start needs room", str(error))
        self.assertEqual([node("/a")], self.reopened().nodes)

    def test_empty_file(self) -> None:
        """An empty file, as a crash between making and filling it leaves, is used."""
        self.directory.mkdir(parents=True)
        self.path.touch()
        self._made(node("/a"))
        self.assertEqual([node("/a")], self.reopened().nodes)

    def test_rows_that_make_no_sense(self) -> None:
        """A row that an operator has spoilt, and what lies below it, is left out and
        told of; the rest is there, and what is below nodes that always are."""
        kept = [node("/a"), node("/zookeeper/quota/q")]
        spoilt = [node(f"/{name}") for name in ("acl", "data", "text", "time")]
        self._made(*kept, *spoilt, node("/acl/b"), node("/none/c"))
        self.sql(
            """UPDATE node SET acl='[[31,"world"]]' WHERE path='/acl'""",
            "UPDATE node SET data=5 WHERE path='/data'",
            "UPDATE node SET path=CAST(x'2fff' AS TEXT) WHERE path='/text'",
            "UPDATE node SET mtime='now' WHERE path='/time'",
        )
        loaded = self.reopened()
        self.assertEqual(kept, loaded.nodes)
        for index, text in enumerate(
            (
                "/acl is left out: its acl",
                "/acl/b is left out: its parent is missing",
                "/data is left out: its data",
                "/none/c is left out: its parent is missing",
                "/time is left out: its mtime",
                "is left out: 'utf-8'",
            )
        ):
            self.assertIn(text, loaded.problems[index])
        self.assertEqual(6, len(loaded.problems))
        self.assertEqual([(8,)], self.sql("SELECT count(*) FROM node"))


class System:
    """`os`, with a path that cannot be written, on a file system with these flags."""

    def __init__(self, refused: Path, flags: int) -> None:
        self._refused = refused
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def access(self, path: Path, mode: int, effective_ids: bool) -> bool:
        """See `os`."""
        return path != self._refused

    def statvfs(self, path: Path) -> Any:
        """See `os`; the flags only."""
        return SimpleNamespace(f_flag=self._flags)


class Full(sqlite3.Connection):
    """A connection to a disk without room for a transaction."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """See `sqlite3.Connection`."""
        if sql.startswith("UPDATE"):
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(sql, *values)


class Refusing(sqlite3.Connection):
    """A connection on which statements of a kind fail as on a bad disk."""

    failing: str | None = None

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """See `sqlite3.Connection`."""
        if self.failing and sql.startswith(self.failing):
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *values)


class FailureTest(StoreCase):
    """Disks that are full or broken."""

    def setUp(self) -> None:
        super().setUp()
        self.store = NodeStore(self.path, self._connect)
        self.store.open()
        self.addCleanup(self.store.close)

    def _connect(self, *values: Any, **named: Any) -> Refusing:
        self.connection = sqlite3.connect(*values, factory=Refusing, **named)
        return self.connection

    def test_full_disk(self) -> None:
        """When there is no room nothing of a batch is stored, and the same batch is
        once there is."""
        self.store.commit(by_path(node("/a", b"before")))
        big = by_path(*(node(f"/n{number}", b"x" * 3000) for number in range(300)))
        big["/a"] = node("/a", b"after")
        self.connection.execute("PRAGMA max_page_count=40").fetchall()
        for _ in range(2):
            error = self.assertRaises(StoreFull, self.store.commit, big)
            self.assertIn(str(self.path), str(error))
        self.assertIsNone(self.store.broken)
        self.store.commit(by_path(node("/b", b"small")))
        self.store.close()
        small = [node("/a", b"before"), node("/b", b"small")]
        self.assertEqual(small, self.store.open().nodes)
        self.store.commit(big)
        self.store.close()
        self.assertEqual(302, len(self.reopened().nodes))

    def test_failed_commit_is_final(self) -> None:
        """After a failed write or fsync nothing is tried again, and what was stored
        before is still there; in a commit of one statement as of several."""
        self.store.commit(by_path(node("/a")))
        one = by_path(node("/b"))
        for failing, changes in (("INSERT", one), ("COMMIT", {**one, "/a": None})):
            self.connection.failing = failing
            self.assertRaises(StorageError, self.store.commit, changes)
            self.connection.failing = None
            error = self.assertRaises(StorageError, self.store.commit, one)
            self.assertNotIsInstance(error, StoreFull)
            self.assertIn("disk I/O error", str(error))
            self.assertEqual(str(error), self.store.broken)
            self.store.close()
            self.assertEqual([node("/a")], self.store.open().nodes)
            self.assertIsNone(self.store.broken)
        self.store.commit(by_path(node("/d")))

    def test_defect_leaves_nothing_half_done(self) -> None:
        """A batch that cannot be expressed is not stored in part, nor is anything on
        top of it."""
        bad = by_path(node("/a"), node("/b", czxid=1 << 64))
        self.assertRaises(OverflowError, self.store.commit, bad)
        self.assertRaises(StorageError, self.store.commit, by_path(node("/c")))
        self.store.close()
        self.assertEqual([], self.reopened().nodes)

    def test_closed(self) -> None:
        """A store that is not open refuses commits."""
        self.store.close()
        self.assertRaises(StorageError, self.store.commit, by_path(node("/c")))


class LostTest(StoreCase):
    """Files that are taken away while they are open."""

    def setUp(self) -> None:
        super().setUp()
        self.now_s = 1000.0
        self.log = self.path.with_name("nodes.db-wal")
        self.store = NodeStore(self.path, seconds=lambda: self.now_s)
        self.addCleanup(self.store.close)
        self.store.open()
        self.store.commit(by_path(node("/a")))

    def assert_noticed(self, path: Path) -> None:
        """The next commit after a second fails, and so do all others."""
        self.now_s += 1
        error = self.assertRaises(LostFiles, self.store.commit, by_path(node("/b")))
        self.assertIn(f"{path} was removed or replaced while in use", str(error))
        self.assertEqual(str(error), self.store.broken)
        self.assertRaises(StorageError, self.store.commit, by_path(node("/c")))

    def test_removed(self) -> None:
        """A file that was removed is noticed; the next start has a new one."""
        self.path.unlink()
        self.assert_noticed(self.path)
        self.store.close()
        self.assertEqual([], self.store.open().nodes)
        self.assertIsNone(self.store.broken)
        self.store.commit(by_path(node("/d")))

    def test_log_removed(self) -> None:
        """So is its log, without which the file is old; closing brings it up to date
        then."""
        self.log.unlink()
        self.assert_noticed(self.log)
        self.store.close()
        self.assertIn(node("/a"), self.reopened().nodes)

    def test_directory_moved(self) -> None:
        """So is the move of the directory; put back it has all that was acknowledged,
        and nothing is acknowledged in vain."""
        elsewhere = self.directory.with_name("elsewhere")
        self.directory.rename(elsewhere)
        self.assert_noticed(self.path)
        self.store.close()
        self.assertTrue((elsewhere / self.log.name).exists())
        elsewhere.rename(self.directory)
        self.assertIn(node("/a"), self.reopened().nodes)

    def test_replaced(self) -> None:
        """A copy that was put in its place is noticed, and neither it nor its log is
        touched, whatever is closed."""
        other = NodeStore(self.directory / "other" / "nodes.db")
        other.open()
        other.commit(by_path(node("/restored")))
        shutil.copytree(other.path.parent, self.directory / "copy")
        other.close()
        for path in (self.directory / "copy").iterdir():
            path.replace(self.directory / path.name)
        self.assert_noticed(self.path)
        self.store.close()
        self.assertTrue(self.log.exists())
        self.assertEqual([node("/restored")], self.reopened().nodes)

    def test_behind_a_link(self) -> None:
        """A file behind a symbolic link is followed, and missed when the link leads
        elsewhere."""
        self.store.close()
        real = self.directory / "real.db"
        self.path.rename(real)
        self.path.symlink_to(real)
        self.store.open()
        self.store.commit(by_path(node("/e")))
        self.path.unlink()
        self.path.symlink_to(self.directory / "nothing.db")
        self.assert_noticed(self.path)

    def test_at_most_once_a_second(self) -> None:
        """Commits that follow one another closely share one look."""
        self.path.unlink()
        self.now_s += 0.9
        self.store.commit(by_path(node("/b")))
        self.now_s -= 0.9
        self.assert_noticed(self.path)

    def test_noticed_at_the_end(self) -> None:
        """What no commit has noticed the close tells, once."""
        self.path.unlink()
        self.assertRaises(LostFiles, self.store.close)
        self.store.close()


CHILD = """
import json, resource, sys
from pathlib import Path
from metatwist.coordination.embedded.store import NodeStore, StoredNode
from metatwist.errors import StorageError
store = NodeStore(Path(sys.argv[1]))
loaded = store.open()
print(loaded.epoch, flush=True)
last = max((node.version for node in loaded.nodes), default=0)
most_bytes, width = int(sys.argv[2]), int(sys.argv[3])
if most_bytes:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
acl = ((31, "world", "anyone"),)
for batch in range(last + 1, 1 << 30):
    data = str(batch).encode() * 3
    paths = [f"/n{number}" for number in range(width)] + [f"/b{batch}"]
    changes = {
        path: StoredNode(path, data, acl, 1, batch, 1, 1, batch, 0, 1, 0)
        for path in paths
    }
    changes[f"/b{batch - 5}"] = None
    try:
        store.commit(changes)
    except StorageError as error:
        print(json.dumps([str(error), store.broken]), flush=True)
        sys.exit()
    print(batch, flush=True)
"""
WIDTH = 40


class ProcessTest(StoreCase):
    """Other processes, and their end."""

    def _child(self, most_bytes: int = 0, width: int = WIDTH) -> subprocess.Popen[str]:
        """A process that commits batches and says so."""
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(self.path), str(most_bytes), str(width)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._end, child)
        return child

    def _end(self, child: subprocess.Popen[str]) -> list[str]:
        """Kill it at once; the lines that were still to be read."""
        child.send_signal(signal.SIGKILL)
        return child.communicate(timeout=LIMIT_S)[0].splitlines()

    def _line(self, child: subprocess.Popen[str]) -> str:
        assert child.stdout is not None
        return child.stdout.readline().strip()

    def _check(self, loaded: Loaded, acknowledged: int) -> None:
        """All that was acknowledged is there, and one more batch or none."""
        found: Mapping[str, StoredNode] = {one.path: one for one in loaded.nodes}
        versions = {found[f"/n{number}"].version for number in range(WIDTH)}
        self.assertEqual(1, len(versions), "half a batch")
        last = versions.pop()
        self.assertIn(last - acknowledged, (0, 1))
        others = {path for path in found if path.startswith("/b")}
        expected = {f"/b{batch}" for batch in range(max(1, last - 4), last + 1)}
        self.assertEqual(expected, others)
        self.assertEqual(str(last).encode() * 3, found["/n0"].data)

    def test_kill(self) -> None:
        """After kill -9 at any moment every acknowledged batch is found, none in part,
        and the epoch goes on."""
        for number, batches in enumerate((1, 7, 60, 333)):
            child = self._child()
            self.assertEqual(str(2 * number + 1), self._line(child))
            for _ in range(batches):
                last = self._line(child)
            acknowledged = int([last, *self._end(child)][-1])
            loaded = self.reopened()
            self._check(loaded, acknowledged)
            self.assertEqual(2 * number + 2, loaded.epoch)

    def test_no_room_for_the_log(self) -> None:
        """When the system refuses to let the log grow the store says that it is broken,
        and all that was acknowledged is there at the next start."""
        child = self._child(most_bytes=300_000)
        self._line(child)
        lines = child.communicate(timeout=LIMIT_S)[0].splitlines()
        error, broken = json.loads(lines[-1])
        self.assertIn("disk I/O error", error)
        self.assertEqual(error, broken)
        self.assertGreater(len(lines), 2)
        self._check(self.reopened(), int(lines[-2]))

    def test_second_process(self) -> None:
        """While another process has the file it is refused at once; after its death
        it is not."""
        child = self._child()
        self._line(child)
        error = self.assertRaises(DirectoryInUse, NodeStore(self.path).open)
        self.assertIn(f"{self.path} is in use", str(error))
        self.assertTrue(self._line(child), "the holder was disturbed")
        self._end(child)
        self.assertEqual(2, self.reopened().epoch)

    def test_second_store_of_a_process(self) -> None:
        """A second store of the same file in one process is refused, and leaves the
        lock of the first in force."""
        store, _ = self.opened()
        self.assertRaises(DirectoryInUse, NodeStore(self.path).open)
        store.commit(by_path(node("/a")))
        child = self._child()
        self.assertEqual("", self._line(child))
        self.assertEqual(1, child.wait(LIMIT_S))

    def test_a_shell_holds_it(self) -> None:
        """While somebody reads the file with another tool it is refused."""
        store, _ = self.opened()
        store.close()
        shell = sqlite3.connect(self.path)
        self.addCleanup(shell.close)
        shell.execute("SELECT * FROM node").fetchall()
        self.assertRaises(DirectoryInUse, NodeStore(self.path).open)
        shell.close()
        self.assertEqual(2, self.reopened().epoch)
