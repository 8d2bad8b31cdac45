"""The crash test's own reading of SQLite's log, against what SQLite makes of it."""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from .write_ahead_log import WriteAheadLog, lose, tear

COMMITS = 19
SEEDS = range(200)


class DamagedLog(SynchronousTestCase):
    """A database whose log has 19 commits; number n brings node /n with version n,
    and zeros, which end the log."""

    def setUp(self) -> None:
        """Copy it while it is open, which is as a kill would leave it."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        live = self.directory / "live.sqlite3"
        connection = sqlite3.connect(live, isolation_level=None)
        self.addCleanup(connection.close)
        connection.execute("PRAGMA page_size=1024")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE tree(epoch)")
        connection.execute("CREATE TABLE node(path, version, data)")
        connection.execute("INSERT INTO tree VALUES(7)")
        connection.execute("COMMIT")
        for number in range(1, COMMITS):
            row = f"/{number}", number, bytes(number * 250)
            connection.execute("INSERT INTO node VALUES(?, ?, ?)", row)
        self.live = live

    def killed(self) -> Path:
        """Another copy of the database."""
        database = self.directory / "killed.sqlite3"
        for end in ("", "-wal"):
            shutil.copy(f"{self.live}{end}", f"{database}{end}")
        return database

    def log(self, database: Path) -> WriteAheadLog:
        """Its log, which must be readable."""
        log = WriteAheadLog.of(database)
        assert log is not None
        return log

    def versions(self, database: Path) -> list[int]:
        """What SQLite finds, after which there is no log."""
        connection = sqlite3.connect(database)
        rows = connection.execute("SELECT version FROM node ORDER BY version")
        found = [version for (version,) in rows]
        connection.close()
        return found

    def test_all_commits_are_seen(self) -> None:
        """Every commit is found, up to the end of the file."""
        log = self.log(self.killed())
        self.assertEqual((len(log.commits), log.end), (COMMITS, len(log.data)))

    def test_no_log(self) -> None:
        """A log that is missing, or has no sound head, is none."""
        database = self.killed()
        path = self.log(database).path
        path.write_bytes(bytes(32) + path.read_bytes()[32:])
        self.assertIsNone(WriteAheadLog.of(database))
        path.unlink()
        self.assertIsNone(WriteAheadLog.of(database))

    def test_torn(self) -> None:
        """SQLite finds all commits in a torn log, and so does the reading."""
        for seed in SEEDS:
            database = self.killed()
            tear(self.log(database), random.Random(seed))
            self.assertEqual(len(self.log(database).commits), COMMITS)
            self.assertEqual(self.versions(database), list(range(1, COMMITS)))

    def test_lossy(self) -> None:
        """Of a log with a damage SQLite finds the commits before, which are some."""
        counts = set()
        for seed in SEEDS:
            database = self.killed()
            lost = lose(self.log(database), database, random.Random(seed))
            assert lost is not None
            left = sorted(version for _, version in lost[1].rows.values())
            self.assertEqual(self.versions(database), left)
            self.assertEqual(left, list(range(1, len(left) + 1)))
            self.assertEqual(lost[1].epoch, 7)
            counts.add(len(left))
        self.assertGreater(len(counts), 2)
        self.assertLess(min(counts), COMMITS - 1)
