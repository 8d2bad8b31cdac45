"""Offsets in tables: the contract, tables of the original, what a table may lack."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet import reactor
from twisted.internet.defer import gatherResults, inlineCallbacks, succeed
from twisted.trial.unittest import SynchronousTestCase, TestCase

from metatwist.client.errors import OffsetStorageFailed
from metatwist.client.offsets.interface import Claim, Commit
from metatwist.client.offsets.sql import SqlOffsets, SqlSettings
from metatwist.client.offsets.sql_dialect import MYSQL, POSTGRES
from metatwist.coordination.formats import OffsetRecord
from tests.client.offsets.offset_contract import GROUP, OffsetContract, place
from tests.client.offsets.sql_case import MariaDbCase, PostgresCase

ME = Claim("g1_me")


def commit(offset: int, message: int | None = None, topic: str = "t") -> Commit:
    """A commit of partition 0-3."""
    return Commit(place(topic, 0, 3), OffsetRecord(offset, message), ME)


class SqliteCase(TestCase):
    """A directory for a SQLite file."""

    def setUp(self) -> None:
        """Make the directory."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = self.directory / "offsets.sqlite3"

    def open(self, group: str = GROUP, settings: Any = None) -> SqlOffsets:
        """A storage on the file."""
        storage = SqlOffsets.sqlite(reactor, group, self.path, settings)
        self.addCleanup(storage.close)
        return storage


class SqliteContractTest(OffsetContract, SqliteCase):
    """The contract, on SQLite."""

    def new_storage(self, group: str = GROUP) -> Any:
        """See OffsetContract."""
        return succeed(self.open(group))


class MariaDbContractTest(MariaDbCase, OffsetContract):
    """The contract, on MariaDB."""


class PostgresContractTest(PostgresCase, OffsetContract):
    """The contract, on PostgreSQL."""


class SqliteTest(SqliteCase):
    """What is special about SQLite."""

    @inlineCallbacks
    def test_busy(self) -> Any:
        """A file that somebody else writes for too long fails the commit, not later
        ones."""
        settings = SqlSettings(create_table=True, statement_timeout_s=0.2)
        storage = self.open(settings=settings)
        yield storage.commit((commit(1),))
        other = sqlite3.connect(self.path)
        other.execute("BEGIN IMMEDIATE")
        outcome = yield storage.commit((commit(2),))
        other.rollback()
        other.close()
        (error,) = outcome.values()
        self.assertIsInstance(error, OffsetStorageFailed)
        self.assertIn("locked", str(error))
        outcome = yield storage.commit((commit(3),))
        self.assertEqual([None], [*outcome.values()])

    @inlineCallbacks
    def test_no_database(self) -> Any:
        """A file that is no database is named as such and left alone."""
        self.path.write_bytes(b"x" * 4096)
        loading = self.open().load(place("t"), ME)
        error = yield self.assertFailure(loading, OffsetStorageFailed)
        self.assertIn("not a database", str(error))
        self.assertEqual(b"x" * 4096, self.path.read_bytes())


class OriginalTable:
    """On a table as deployments of the original have it; a mixin."""

    @inlineCallbacks
    def test_existing_row(self: Any) -> Any:
        """A row of the original is read, and updated in its place; other rows stay."""
        self.insert("t", "0-3", "g1", 4096, -77)
        self.insert("t", "0-3", "g2", 1, -1)
        storage = self.open()
        loaded = yield storage.load(place("t", 0, 3), ME)
        self.assertEqual(OffsetRecord(4096, -77), loaded)
        yield storage.commit((commit(5000, 9),))
        rows = [("t", "0-3", "g1", 5000, 9), ("t", "0-3", "g2", 1, -1)]
        self.assertEqual(rows, self.rows())

    @inlineCallbacks
    def test_inserted(self: Any) -> Any:
        """A row that is missing is inserted once, also when the same is stored again:
        -1 stands for no message id."""
        storage = self.open()
        for offset in (7, 7, 8, 8):
            outcome = yield storage.commit((commit(offset),))
            self.assertEqual([None], [*outcome.values()])
        self.assertEqual([("t", "0-3", "g1", 8, -1)], self.rows())

    @inlineCallbacks
    def test_doubled_row(self: Any) -> Any:
        """Of several rows for a partition the smallest offset counts, and one commit
        makes them agree."""
        for offset in (30, 10, 20):
            self.insert("t", "0-3", "g1", offset, -1)
        storage = self.open()
        loaded = yield storage.load(place("t", 0, 3), ME)
        self.assertEqual(OffsetRecord(10), loaded)
        yield storage.commit((commit(40),))
        self.assertEqual({40}, {row[3] for row in self.rows()})

    @inlineCallbacks
    def test_no_table(self: Any) -> Any:
        """A missing table fails loads and commits, until somebody makes it."""
        self.server.query(f"DROP TABLE {self.table}")
        storage = self.open()
        loading = storage.load(place("t"), ME)
        error = yield self.assertFailure(loading, OffsetStorageFailed)
        self.assertIn(self.table, str(error))
        outcome = yield storage.commit((commit(1),))
        self.assertIsInstance(outcome[place("t", 0, 3)], OffsetStorageFailed)
        self.settings = evolve(self.settings, create_table=True)
        yield self.open().commit((commit(2),))
        yield storage.commit((commit(3),))
        self.assertEqual([("t", "0-3", "g1", 3, -1)], self.rows())

    @inlineCallbacks
    def test_made_table(self: Any) -> Any:
        """The table that it makes has a key, and serves several at once."""
        self.server.query(f"DROP TABLE {self.table}")
        self.settings = evolve(self.settings, create_table=True)
        storages = [self.open() for _ in range(4)]
        commits = [one.commit((commit(9),)) for one in storages]
        outcomes = yield gatherResults(commits)
        self.assertEqual([{place("t", 0, 3): None}] * 4, outcomes)
        self.assertEqual([("t", "0-3", "g1", 9, -1)], self.rows())
        with self.assertRaisesRegex(self.driver.IntegrityError, "(?i)duplicate"):
            self.insert("t", "0-3", "g1", 1, 1)

    @inlineCallbacks
    def test_case(self: Any) -> Any:
        """In a table that it makes, names that differ in case are two."""
        self.server.query(f"DROP TABLE {self.table}")
        self.settings = evolve(self.settings, create_table=True)
        storage = self.open()
        yield storage.commit((commit(1, topic="t"), commit(2, topic="T")))
        loaded = yield storage.load(place("t", 0, 3), ME)
        self.assertEqual(OffsetRecord(1), loaded)


class MariaDbTest(MariaDbCase, OriginalTable):
    """On MariaDB."""


class PostgresTest(PostgresCase, OriginalTable):
    """On PostgreSQL."""


class SettingsTest(SynchronousTestCase):
    """What is refused before anything is connected."""

    def test_table(self) -> None:
        """A table's name cannot carry SQL."""
        SqlSettings("shop.offsets_2")
        for name in ("", "a b", "a;b", 'a"b', "a`b", "1a", "a.b.c", ".a", "a.", "a\n"):
            with self.assertRaises(ValueError):
                SqlSettings(name)

    def test_limits(self) -> None:
        """A limit is more than nothing and less than an hour."""
        for limit_s in (0.0, -1.0, 3600.0, float("nan")):
            with self.assertRaises(ValueError):
                SqlSettings(connect_timeout_s=limit_s)
            with self.assertRaises(ValueError):
                SqlSettings(statement_timeout_s=limit_s)

    def test_no_driver(self) -> None:
        """Without its driver a storage says what to install."""
        cases = [(SqlOffsets.mysql, MYSQL, "mysql")]
        cases.append((SqlOffsets.postgres, POSTGRES, "postgres"))
        for make, dialect, extra in cases:
            self.patch(sys, "modules", {**sys.modules, dialect.driver: None})
            with self.assertRaises(ModuleNotFoundError) as caught:
                make(reactor, "g")
            self.assertIn(f"pip install 'metatwist[{extra}]'", str(caught.exception))

    def test_no_password_shown(self) -> None:
        """The description has the place, and no password."""
        connect: dict[str, Any] = {"host": "db", "user": "u", "password": "secret"}
        storage = SqlOffsets.mysql(reactor, "g", **connect)
        self.successResultOf(storage.close())
        self.assertIn("db", storage.description)
        self.assertNotIn("secret", storage.description)
