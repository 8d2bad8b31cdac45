"""How local SQLite files are made, opened, written and explained."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import LocalStoreFailed
from metatwist.client.sqlite_file import (
    FileKind,
    explained,
    is_full,
    is_in_use,
    opened,
    transaction,
)

KIND = FileKind(7, 1, ("CREATE TABLE t (a)", "CREATE INDEX i ON t (a)"))


class SqliteFileTest(SynchronousTestCase):
    """One file at a path in directories that are not there."""

    def setUp(self) -> None:
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        self.path = Path(directory) / "deep" / "new"

    def _opened(self, kind: FileKind = KIND) -> sqlite3.Connection:
        connection = opened(self.path, kind)
        self.addCleanup(connection.close)
        return connection

    def _rows(self, connection: sqlite3.Connection) -> list[tuple[int]]:
        return connection.execute("SELECT a FROM t").fetchall()

    def test_kept(self) -> None:
        """What a transaction has written is there after the next opening, with what the
        file is, in a mode that lasts."""
        connection = self._opened()
        with transaction(connection):
            connection.execute("INSERT INTO t VALUES (1)")
        connection.close()
        connection = self._opened()
        self.assertEqual([(1,)], self._rows(connection))
        for pragma, wanted in (
            ("application_id", 7),
            ("user_version", 1),
            ("journal_mode", "wal"),
            ("synchronous", 2),
        ):
            found = connection.execute(f"PRAGMA {pragma}").fetchone()
            self.assertEqual((wanted,), found)

    def test_all_or_none(self) -> None:
        """A transaction that raises leaves nothing, and the next one works."""
        connection = self._opened()

        def write(*values: int) -> None:
            with transaction(connection):
                for value in values:
                    connection.execute("INSERT INTO t VALUES (?)", (value,))
                    if value < 0:
                        raise ValueError

        self.assertRaises(ValueError, write, 1, -1)
        write(2)
        self.assertEqual([(2,)], self._rows(connection))

    def test_tables_or_nothing(self) -> None:
        """A file whose tables could not all be made is as empty as before."""
        bad = FileKind(7, 1, ("CREATE TABLE t (a)", "CREATE nonsense"))
        self.assertRaises(sqlite3.OperationalError, opened, self.path, bad)
        self.assertEqual([], self._rows(self._opened()))

    def test_others_are_left_alone(self) -> None:
        """A database of another kind or version, or no database at all, is refused, and
        not one byte of it changed."""
        self._opened().close()
        for kind in (FileKind(8, 1, ()), FileKind(7, 2, ())):
            before = self.path.read_bytes()
            self.assertRaises(LocalStoreFailed, opened, self.path, kind)
            self.assertEqual(before, self.path.read_bytes())
        self.path.unlink()
        other = sqlite3.connect(self.path)
        other.execute("CREATE TABLE t (a)")
        other.close()
        for content in (self.path.read_bytes(), b"no database " * 100):
            self.path.write_bytes(content)
            problem = (LocalStoreFailed, sqlite3.DatabaseError)
            self.assertRaises(problem, opened, self.path, KIND)
            self.assertEqual(content, self.path.read_bytes())

    def test_one_at_a_time(self) -> None:
        """A file that is open is refused to others, and that is told so."""
        first = self._opened()

        def open_it() -> None:
            with explained(self.path):
                self._opened()

        error = self.assertRaises(LocalStoreFailed, open_it)
        self.assertIn("in use", str(error))
        self.assertTrue(is_in_use(error.__cause__))
        first.close()
        open_it()

    def test_full(self) -> None:
        """Want of space is told from what breaks a file."""
        connection = self._opened()
        connection.execute("PRAGMA max_page_count=1")

        def write(statement: str) -> None:
            with explained(self.path), transaction(connection):
                connection.execute(statement, (bytes(100_000),))

        error = self.assertRaises(LocalStoreFailed, write, "INSERT INTO t VALUES (?)")
        self.assertTrue(is_full(error.__cause__))
        error = self.assertRaises(LocalStoreFailed, write, "INSERT INTO u VALUES (?)")
        self.assertFalse(is_full(error.__cause__))

    def test_no_such_place(self) -> None:
        """What the file system says is told with the path."""

        def open_it() -> None:
            with explained(self.path):
                opened(self.path / "below", KIND)

        self._opened()
        self.assertIn(str(self.path), str(self.assertRaises(LocalStoreFailed, open_it)))
