"""What databases differ in: their driver, how they quote, what limits their waits."""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attrs import field, frozen

DEFAULT_TABLE = "meta_topic_partition_group_offset"
"""The original's (spec client 15.2)."""

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?")


def _check_table(_settings: object, _field: object, table: str) -> None:
    if not _TABLE.fullmatch(table):
        raise ValueError(f"{table!r} is no name of a table")


def _check_limit(_settings: object, attribute: Any, limit_s: float) -> None:
    if not 0 < limit_s < 3600:
        raise ValueError(f"{attribute.name} must be more than 0 s and below an hour")


@frozen
class SqlSettings:
    """How a table of offsets is used.

    Attributes:
        table: its name, with or without a schema before a dot; it is quoted.
        create_table: make it where it is missing, which needs the right to.
        connect_timeout_s: the longest that connecting takes.
        statement_timeout_s: the longest that one statement takes, waits for locks
            included.
    """

    table: str = field(default=DEFAULT_TABLE, validator=_check_table)
    create_table: bool = False
    connect_timeout_s: float = field(default=5.0, validator=_check_limit)
    statement_timeout_s: float = field(default=10.0, validator=_check_limit)

    @property
    def limit_s(self) -> float:
        """The longest that one load or commit takes, once it has begun."""
        return self.connect_timeout_s + self.statement_timeout_s


@frozen
class Statements:
    """The texts for one table. All parameters are positional: what is set first, then
    topic, partition and group."""

    select: str
    update: str
    insert: str
    create: str


@frozen
class Dialect:
    """One kind of database.

    Attributes:
        driver: the module.
        how_to_get: what to install where that is missing.
        parameter: the mark of one.
        quote: what stands around names.
        text: the type of a text of so many characters.
        options: what the driver's `connect` needs besides what a user gives, which is
            its second argument.
        cut: end a connection that another thread waits for.
        create_suffix: ends CREATE TABLE.
    """

    driver: str
    how_to_get: str
    parameter: str
    quote: str
    text: str
    options: Callable[[SqlSettings, dict[str, Any]], dict[str, Any]]
    cut: Callable[[Any], None] = lambda connection: None
    create_suffix: str = ""

    def statements(self, table: str) -> Statements:
        """The texts for a table."""
        name = ".".join(map(self._quoted, table.split(".")))
        partition, offset = self._quoted("partition"), self._quoted("offset")
        mark = self.parameter
        where = f"topic = {mark} AND {partition} = {mark} AND group_id = {mark}"
        columns = f"{offset}, msg_id, topic, {partition}, group_id"
        return Statements(
            select=f"SELECT {offset}, msg_id FROM {name} WHERE {where}",
            update=(
                f"UPDATE {name} SET {offset} = {mark}, msg_id = {mark} WHERE {where}"
            ),
            insert=f"INSERT INTO {name} ({columns}) VALUES ({', '.join([mark] * 5)})",
            create=(
                f"CREATE TABLE IF NOT EXISTS {name} ("
                f"topic {self.text % 255} NOT NULL, "
                f"{partition} {self.text % 64} NOT NULL, "
                f"group_id {self.text % 255} NOT NULL, "
                f"{offset} BIGINT NOT NULL, "
                "msg_id BIGINT DEFAULT -1 NOT NULL, "
                f"PRIMARY KEY (topic, {partition}, group_id)){self.create_suffix}"
            ),
        )

    def _quoted(self, name: str) -> str:
        return f"{self.quote}{name}{self.quote}"


def _mysql_options(settings: SqlSettings, given: dict[str, Any]) -> dict[str, Any]:
    found_rows = 2  # CLIENT.FOUND_ROWS: an update that changes nothing counts its row
    return {
        "connect_timeout": settings.connect_timeout_s,
        "read_timeout": settings.statement_timeout_s,
        "write_timeout": settings.statement_timeout_s,
        **given,
        "client_flag": given.get("client_flag", 0) | found_rows,
    }


def _postgres_options(settings: SqlSettings, given: dict[str, Any]) -> dict[str, Any]:
    statement_ms = math.ceil(settings.statement_timeout_s * 1000)
    limit = f"-c statement_timeout={statement_ms}"
    return {
        "connect_timeout": math.ceil(settings.connect_timeout_s),
        "tcp_user_timeout": statement_ms,
        **given,
        "options": f"{limit} {given.get('options', '')}".rstrip(),
    }


def _sqlite_options(settings: SqlSettings, given: dict[str, Any]) -> dict[str, Any]:
    # It is used by one thread at a time, but closed by another one.
    busy_s = settings.statement_timeout_s
    return {"timeout": busy_s, **given, "check_same_thread": False}


def _cut_socket(connection: Any) -> None:
    import psycopg

    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as shared,
    ):
        shared.shutdown(socket.SHUT_RDWR)


MYSQL = Dialect(
    driver="pymysql",
    how_to_get="PyMySQL is not installed: pip install 'metatwist[mysql]'",
    parameter="%s",
    quote="`",
    text="VARCHAR(%d)",
    options=_mysql_options,
    create_suffix=" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
)
POSTGRES = Dialect(
    driver="psycopg",
    how_to_get="psycopg is not installed: pip install 'metatwist[postgres]'",
    parameter="%s",
    quote='"',
    text="VARCHAR(%d)",
    options=_postgres_options,
    # The others have a limit for each wait; a PostgreSQL that stands still has none.
    cut=_cut_socket,
)
SQLITE = Dialect(
    driver="sqlite3",
    how_to_get="this Python was built without SQLite",
    parameter="?",
    quote='"',
    text="VARCHAR(%d)",
    options=_sqlite_options,
)
