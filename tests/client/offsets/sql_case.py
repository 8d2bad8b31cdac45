"""Databases for the tests of SQL storages: each test has a table of its own, with the
columns that the original's statements need."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

import psycopg
import pymysql
from attrs import evolve
from twisted.internet import reactor
from twisted.internet.defer import succeed
from twisted.trial.unittest import TestCase

from metatwist.client.offsets.sql import SqlOffsets, SqlSettings
from tests.client.offsets.offset_contract import GROUP
from tests.support.mariadb_server import MariaDbServer, find_mariadb
from tests.support.postgres_server import PostgresServer, find_postgres

_NUMBERS = itertools.count()
# As in spec client 15.2, without the key that the statements do not need.
_ORIGINAL = """\
CREATE TABLE {table} (
  topic VARCHAR(255) NOT NULL,
  {quote}partition{quote} VARCHAR(64) NOT NULL,
  group_id VARCHAR(255) NOT NULL,
  {quote}offset{quote} BIGINT NOT NULL,
  msg_id BIGINT NOT NULL DEFAULT -1)
"""


class ServerCase(TestCase):
    """A server for the tests of a class; a base class.

    Attributes:
        server: it runs while a test begins.
        table: the test's own, there and empty.
        settings: they name the table.
        quote, driver: what stands around names, and the module.
    """

    server: ClassVar[Any]
    quote: ClassVar[str]
    driver: ClassVar[Any]

    @classmethod
    def new_server(cls, work_dir: Path) -> Any:
        """A server that does not run yet; raises SkipTest where there is none."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls) -> None:
        """Start the server."""
        work_dir = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, work_dir, ignore_errors=True)
        cls.server = cls.new_server(work_dir / "server")
        cls.addClassCleanup(cls.server.kill)
        cls.server.start()

    def setUp(self) -> None:
        """Make the table, as somebody who knows the original did."""
        if not self.server.is_running:
            self.server.start()
        self.table = f"offsets_{next(_NUMBERS)}"
        self.settings = SqlSettings(self.table)
        self.server.query(_ORIGINAL.format(table=self.table, quote=self.quote))

    def open(self, group: str = GROUP, **connect: Any) -> SqlOffsets:
        """A storage; `connect` replaces what leads to the server."""
        raise NotImplementedError

    def new_storage(self, group: str = GROUP) -> Any:
        """See OffsetContract."""
        return succeed(self.open(group))

    def rows(self) -> list[Any]:
        """All of the table: topic, partition, group, offset, message id."""
        q = self.quote
        columns = f"topic, {q}partition{q}, group_id, {q}offset{q}, msg_id"
        return sorted(self.server.query(f"SELECT {columns} FROM {self.table}"))

    def insert(self, *row: object) -> None:
        """Add a row, in the order of `rows`."""
        marks = ", ".join(["%s"] * len(row))
        self.server.query(f"INSERT INTO {self.table} VALUES ({marks})", *row)


class MariaDbCase(ServerCase):
    """On MariaDB."""

    quote = "`"
    driver = pymysql

    @classmethod
    def new_server(cls, work_dir: Path) -> Any:
        """See ServerCase."""
        why_not = find_mariadb()
        if why_not is not None:
            raise SkipTest(why_not)
        return MariaDbServer(work_dir)

    def open(self, group: str = GROUP, **connect: Any) -> SqlOffsets:
        """See ServerCase."""
        where = {**self.server.connect, **connect}
        storage = SqlOffsets.mysql(reactor, group, self.settings, **where)
        self.addCleanup(storage.close)
        return storage


class PostgresCase(ServerCase):
    """On PostgreSQL."""

    quote = '"'
    driver = psycopg

    @classmethod
    def new_server(cls, work_dir: Path) -> Any:
        """See ServerCase."""
        why_not = find_postgres()
        if why_not is not None:
            raise SkipTest(why_not)
        return PostgresServer(work_dir)

    def open(self, group: str = GROUP, **connect: Any) -> SqlOffsets:
        """See ServerCase."""
        where = {**self.server.connect, **connect}
        storage = SqlOffsets.postgres(reactor, group, self.settings, **where)
        self.addCleanup(storage.close)
        return storage


def with_limits(settings: SqlSettings, limit_s: float) -> SqlSettings:
    """The same with other limits for connecting and statements."""
    return evolve(settings, connect_timeout_s=limit_s, statement_timeout_s=limit_s)
