"""Offsets in a table: MySQL and MariaDB, where Java consumers may keep theirs (spec
client 15.2), PostgreSQL, SQLite.

A commit is one transaction of an UPDATE for each partition, and an INSERT where that
finds no row (spec client 21 W15), which needs no unique key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.enterprise import adbapi
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from typing_extensions import Self

from metatwist.client.message import TopicPartition
from metatwist.client.offsets.gathering import GatheringOffsets, Records
from metatwist.client.offsets.sql_dialect import (
    MYSQL,
    POSTGRES,
    SQLITE,
    Dialect,
    SqlSettings,
)
from metatwist.coordination.formats import OffsetRecord

__all__ = ["SqlOffsets", "SqlSettings"]

_UNKNOWN_MESSAGE = -1
_DEFAULTS = SqlSettings()


class NoAnswer(Exception):
    """The database did not answer in time."""


class _Connection(adbapi.Connection):
    """One that is dropped after any error, so that the next use connects anew: whether
    it still works is not worth finding out. Closing it rolls back."""

    def rollback(self) -> None:
        self._pool.disconnect(self._connection)


class _Pool(adbapi.ConnectionPool):
    connectionFactory = _Connection


class SqlOffsets(GatheringOffsets):
    """See IOffsetStorage; the offsets of `group` in a table of `dialect`.

    It has one connection, on a thread of its own. After an error, as of a server that
    was restarted, it connects and tries again; a commit can be repeated. Claims are
    asked on the reactor's thread right before each transaction.

    Made by `mysql`, `postgres` or `sqlite`, which raise ModuleNotFoundError where the
    driver is not installed. Nothing is connected before it is needed.
    """

    def __init__(
        self,
        reactor: Any,
        group: str,
        dialect: Dialect,
        settings: SqlSettings,
        connect: dict[str, Any],
    ) -> None:
        place = connect.get("host") or connect.get("database") or "localhost"
        table = f"table {settings.table} of {dialect.driver} {place}"
        super().__init__(f"group {group} in {table}")
        self._reactor = reactor
        self._group = group
        self._dialect = dialect
        self._settings = settings
        self._statements = dialect.statements(settings.table)
        self._has_table = not settings.create_table
        self._errors: Any = _driver(dialect)
        options = dialect.options(settings, connect)
        self._pool = _Pool(
            dialect.driver, cp_min=1, cp_max=1, cp_reactor=reactor, **options
        )

    @classmethod
    def mysql(
        cls,
        reactor: Any,
        group: str,
        settings: SqlSettings = _DEFAULTS,
        **connect: Any,
    ) -> Self:
        """In MySQL or MariaDB; `connect` is as `pymysql.connect` takes it: `host`,
        `port`, `unix_socket`, `user`, `password`, `database`, `ssl`..."""
        return cls(reactor, group, MYSQL, settings, connect)

    @classmethod
    def postgres(
        cls,
        reactor: Any,
        group: str,
        settings: SqlSettings = _DEFAULTS,
        **connect: Any,
    ) -> Self:
        """In PostgreSQL; `connect` is as `psycopg.connect` takes it: `host`, `port`,
        `user`, `password`, `dbname`, `sslmode`..."""
        return cls(reactor, group, POSTGRES, settings, connect)

    @classmethod
    def sqlite(
        cls,
        reactor: Any,
        group: str,
        path: Path | str,
        settings: SqlSettings | None = None,
    ) -> Self:
        """In a SQLite file, made with its table where it is missing, unless `settings`
        say otherwise."""
        chosen = settings or evolve(_DEFAULTS, create_table=True)
        return cls(reactor, group, SQLITE, chosen, {"database": str(path)})

    # -- jobs, on the reactor's thread -------------------------------------------

    def _read(self, partitions: frozenset[TopicPartition]) -> Deferred[Records]:
        return self._run(lambda connection: self._select(connection, partitions))

    def _write(self, records: Records) -> Deferred[None]:
        return self._run(lambda connection: self._upsert(connection, records))

    def _passes(self, result: object) -> bool:
        errors = self._errors
        # Integrity: somebody inserted the row between our UPDATE and our INSERT.
        kinds = (errors.OperationalError, errors.InterfaceError, errors.IntegrityError)
        return isinstance(result, kinds)

    def _run(self, work: Callable[[Any], Any]) -> Deferred[Any]:
        is_over = False

        def run(connection: Any) -> Any:
            if is_over:
                raise NoAnswer("nobody waits for it any more")
            self._prepare(connection)
            return work(connection)

        def give_up(_result: object, limit_s: float) -> Failure:
            nonlocal is_over
            is_over = True
            for connection in list(self._pool.connections.values()):
                self._dialect.cut(connection)
            return Failure(NoAnswer(f"the database gave no answer in {limit_s:g} s"))

        job: Deferred[Any] = self._pool.runWithConnection(run)
        return job.addTimeout(self._settings.limit_s, self._reactor, give_up)

    def _release(self) -> Deferred[None] | None:
        if not self._pool.running:
            self._pool.close()
            return None
        # Closing the pool waits for its thread, so that must be idle first.
        closed: Deferred[None] = Deferred()
        idle = deferToThreadPool(self._reactor, self._pool.threadpool, _nothing)
        idle.addCallback(lambda _: self._pool.close()).chainDeferred(closed)
        limit_s = self._settings.limit_s
        return closed.addTimeout(limit_s, self._reactor, lambda _, __: None)

    # -- on the pool's thread ----------------------------------------------------

    def _prepare(self, connection: Any) -> None:
        if self._has_table:
            return
        try:
            with _cursor(connection) as cursor:
                cursor.execute(self._statements.create)
            connection.commit()
        except self._errors.DatabaseError as error:
            # Others may make it too, which PostgreSQL fails in several ways: try again.
            text = f"the table could not be made: {error}"
            raise self._errors.OperationalError(text) from error
        self._has_table = True

    def _select(self, connection: Any, partitions: Iterable[TopicPartition]) -> Records:
        found: dict[TopicPartition, OffsetRecord] = {}
        with _cursor(connection) as cursor:
            for one in partitions:
                cursor.execute(self._statements.select, self._key(one))
                rows = cursor.fetchall()
                if rows:
                    # Several, without a unique key: rather twice than never.
                    offset, message = min(rows, key=lambda row: row[0])
                    found[one] = _record(offset, message)
        return found

    def _upsert(self, connection: Any, records: Records) -> None:
        # In one order, so that two writers do not wait for each other's rows.
        with _cursor(connection) as cursor:
            for one in sorted(records):
                values = (*_values(records[one]), *self._key(one))
                cursor.execute(self._statements.update, values)
                if cursor.rowcount == 0:
                    cursor.execute(self._statements.insert, values)

    def _key(self, partition: TopicPartition) -> tuple[str, str, str]:
        return partition.topic, str(partition.partition), self._group


def _driver(dialect: Dialect) -> Any:
    try:
        return import_module(dialect.driver)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(dialect.how_to_get, name=dialect.driver) from None


def _cursor(connection: Any) -> Any:
    return closing(connection.cursor())


def _values(record: OffsetRecord) -> tuple[int, int]:
    known = record.message_id
    return record.offset, _UNKNOWN_MESSAGE if known is None else known


def _record(offset: int, message: int | None) -> OffsetRecord:
    known = None if message in (None, _UNKNOWN_MESSAGE) else message
    return OffsetRecord(offset, known)


def _nothing() -> None:
    return None
