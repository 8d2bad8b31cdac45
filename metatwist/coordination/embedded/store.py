"""The embedded coordinator's persistent znodes in one SQLite file.

The calls block and are made by one thread at a time.

The file is in WAL mode with `synchronous=FULL`: a commit appends the changed pages to
the log and syncs it once. The commit that fills 1,000 pages of log also copies the
changed pages into the file and syncs that, which takes 5 to 20 ms. When that copy
fails the log keeps everything, and the next commit copies all of it anew.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from metatwist.coordination.embedded.node_file import (
    FilesInUse,
    damaged,
    describe,
    explained,
    is_fresh,
    make_file,
    value_of,
)
from metatwist.coordination.embedded.node_table import (
    ALWAYS_THERE,
    SCHEMA,
    read,
    write,
)
from metatwist.coordination.embedded.stored_node import StoredNode
from metatwist.errors import StorageError

__all__ = [
    "ALWAYS_THERE",
    "INodeStore",
    "Loaded",
    "LostFiles",
    "MemoryStore",
    "NodeStore",
    "StoreFull",
    "StoredNode",
]

_LOG_PAGES = 1000
_LOG_BYTES = 16 << 20
_CACHE_KIB = 16 << 10
_EPOCH_BITS = 32
_LOOK_S = 1.0

_BEFORE_READING = (
    # Also keeps the log's index in memory, not in a shared file that a full disk
    # would turn into a SIGBUS.
    "PRAGMA locking_mode=EXCLUSIVE",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cell_size_check=ON",
)
_BEFORE_WRITING = (
    "PRAGMA synchronous=FULL",
    f"PRAGMA wal_autocheckpoint={_LOG_PAGES}",
    f"PRAGMA journal_size_limit={_LOG_BYTES}",
    f"PRAGMA cache_size=-{_CACHE_KIB}",
    "PRAGMA secure_delete=OFF",
)


class LostFiles(StorageError):
    """The file or its log was removed or replaced while it was open."""


class StoreFull(StorageError):
    """The disk is full. Nothing was stored; the same commit may be tried again."""


@frozen
class Loaded:
    """What a store held.

    `nodes` are sorted by path, and the parent of each one is among them or in
    `ALWAYS_THERE`. No zxid of an earlier epoch is as high as `epoch << 32`.
    `problems` has a sentence for each row that made no sense; such a row is left out,
    and stays in the file until its path is written again.
    """

    nodes: list[StoredNode]
    epoch: int
    problems: list[str] = field(factory=list)


class INodeStore(Protocol):
    """Where the persistent znodes are kept; see `NodeStore`."""

    def open(self) -> Loaded:
        """Begin a new epoch."""

    def commit(self, changes: Mapping[str, StoredNode | None]) -> None:
        """Make changes durable, all or none."""

    def close(self) -> None:
        """End the use of it."""


class MemoryStore:
    """A store that lasts as long as the object does."""

    def __init__(self) -> None:
        self.nodes: dict[str, StoredNode] = {}
        self.epoch = 0

    def open(self) -> Loaded:
        """See `INodeStore`."""
        self.epoch += 1
        return Loaded(sorted(self.nodes.values(), key=lambda one: one.path), self.epoch)

    def commit(self, changes: Mapping[str, StoredNode | None]) -> None:
        """See `INodeStore`."""
        for path, node in changes.items():
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node

    def close(self) -> None:
        """See `INodeStore`."""


class NodeStore:
    """The store in the file at `path`; `connect` is `sqlite3.connect` or behaves so,
    `seconds` a clock that never jumps.

    `broken` says why nothing can be stored any more until the next start, None while
    all is well.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.broken: str | None = None
        self._connect = connect
        self._seconds = seconds
        self._connection: sqlite3.Connection | None = None
        self._files: FilesInUse | None = None
        self._looked_s = float("-inf")

    # -- opening ------------------------------------------------------------------

    def open(self) -> Loaded:
        """Create the file if there is none, check it, read it, begin a new epoch.

        Raises DirectoryInUse while another process has it open, and StorageError when
        it cannot be read or written, is damaged, no file of ours, or of a newer
        version.
        """
        with explained(self.path):
            make_file(self.path)
            connection = self._connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
            try:
                loaded = self._prepare(connection)
                self._files = FilesInUse.of(self.path)
            except BaseException:
                connection.close()
                raise
        self._connection = connection
        self._looked_s = float("-inf")
        self.broken = None
        return loaded

    def _prepare(self, connection: sqlite3.Connection) -> Loaded:
        for statement in _BEFORE_READING:
            connection.execute(statement)
        fresh = is_fresh(connection, self.path)
        if value_of(connection, "PRAGMA journal_mode=WAL") != "wal":
            raise StorageError(f"{self.path}: SQLite cannot keep a log beside it")
        for statement in _BEFORE_WRITING:
            connection.execute(statement)
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA if fresh else ():
            connection.execute(statement)
        loaded = self._load(connection)
        connection.execute("UPDATE tree SET epoch=?", (loaded.epoch,))
        connection.execute("COMMIT")
        return loaded

    def _load(self, connection: sqlite3.Connection) -> Loaded:
        epochs = connection.execute("SELECT epoch FROM tree").fetchall()
        if len(epochs) != 1 or not isinstance(epochs[0][0], int):
            raise damaged(
                self.path, "its table `tree` has not the one row it should have"
            )
        nodes, found = read(connection)
        highest = max((max(node.mzxid, node.pzxid) for node in nodes), default=0)
        epoch = max(epochs[0][0], highest >> _EPOCH_BITS) + 1
        return Loaded(nodes, epoch, [f"{self.path}: {one}" for one in found])

    # -- committing ---------------------------------------------------------------

    def commit(self, changes: Mapping[str, StoredNode | None]) -> None:
        """Store the last state of each path, None for one that is gone; all or none,
        and safe from a loss of power once this returns.

        Raises StoreFull when the disk is full: nothing is stored and the store goes
        on. Raises StorageError when it can store nothing any more, until it is opened
        again; whether these changes are stored is then not known. A write or fsync
        that failed is not tried again: the system may have dropped the data and report
        success the second time. A file that is no longer where it was is a failure too.
        """
        connection = self._connection
        if connection is None:
            raise StorageError(f"{self.path} is not open")
        if self.broken is not None:
            raise StorageError(self.broken)
        try:
            write(connection, changes)
        except sqlite3.Error as error:
            raise self._failed(connection, error) from error
        except BaseException:
            self.broken = f"{self.path}: a commit was broken off"
            raise
        self._look_after_files()

    def _look_after_files(self) -> None:
        """After the commit, so that one after a quiet time is never acknowledged in
        vain; once in `_LOOK_S`, for a look costs the interpreter's lock twice."""
        now_s = self._seconds()
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        self.broken = self._lost()
        if self.broken is not None:
            raise LostFiles(self.broken)

    def _lost(self) -> str | None:
        lost = self._files.lost if self._files is not None else None
        if lost is None:
            return None
        return (
            f"{lost}. Stop the broker and put back what was there before you start it"
            " again, or the offsets of all consumer groups are gone"
        )

    def _failed(
        self, connection: sqlite3.Connection, error: sqlite3.Error
    ) -> StorageError:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if "disk is full" in str(error) and not connection.in_transaction:
            return StoreFull(f"{self.path}: the disk is full")
        self.broken = (
            f"{self.path}: {describe(error)}; nothing more is stored until the next"
            " start. Look after the disk, then start again"
        )
        return StorageError(self.broken)

    def close(self) -> None:
        """Move the log into the file and close it; a second call does nothing.

        Raises StorageError when the log could not be moved. Nothing is lost then: the
        next `open` reads it. Raises LostFiles when file or log are not where they
        were, unless a commit has said so.
        """
        connection, self._connection = self._connection, None
        if connection is None:
            return
        lost = self._lost() if self.broken is None else None
        with explained(self.path):
            try:
                if self.broken is None and lost is None:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.close()
        if lost is not None:
            raise LostFiles(lost)
