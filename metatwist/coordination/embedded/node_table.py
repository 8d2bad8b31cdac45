"""The table of znodes in SQLite: its layout, and many rows in few statements.

SQLite works without the interpreter's lock. Taking that back for every single row would
make the reactor's thread wait, and wait for it; so a statement has up to 256 rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from metatwist.coordination.embedded.stored_node import (
    COLUMNS,
    StoredNode,
    flat_rows,
    node_of,
)

ALWAYS_THERE = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
"""Nodes that every tree has, whether they are stored or not."""

APPLICATION_ID = int.from_bytes(b"MTzk", "big")
SCHEMA_VERSION = 1

# Before 3.32 a statement takes 999 values.
_MOST_ROWS = 256 if sqlite3.sqlite_version_info >= (3, 32) else 64

SCHEMA = (
    "CREATE TABLE tree(epoch INTEGER NOT NULL)",
    "INSERT INTO tree VALUES(0)",
    "CREATE TABLE node(path TEXT NOT NULL PRIMARY KEY, data, acl TEXT NOT NULL, "
    + ", ".join(f"{name} INTEGER NOT NULL" for name in COLUMNS[3:])
    + ") WITHOUT ROWID",
    f"PRAGMA application_id={APPLICATION_ID}",
    f"PRAGMA user_version={SCHEMA_VERSION}",
)
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM node ORDER BY path"


def _upsert(rows: int) -> str:
    row = f"({', '.join('?' * len(COLUMNS))})"
    changes = ", ".join(f"{name}=excluded.{name}" for name in COLUMNS[1:])
    return (
        f"INSERT INTO node({', '.join(COLUMNS)}) "
        f"SELECT * FROM (VALUES {', '.join([row] * rows)}) WHERE column1 IS NOT NULL "
        f"ON CONFLICT(path) DO UPDATE SET {changes}"
    )


def _delete(rows: int) -> str:
    return f"DELETE FROM node WHERE path IN ({', '.join('?' * rows)})"


# Powers of two, so that few statements serve batches of any size; NULL fills them up.
_SIZES = [1 << power for power in range(_MOST_ROWS.bit_length())]
_UPSERTS = {size: _upsert(size) for size in _SIZES}
_DELETES = {size: _delete(size) for size in _SIZES}

Values = list[str | bytes | int | None]


def write(
    connection: sqlite3.Connection, changes: Mapping[str, StoredNode | None]
) -> None:
    """Store the last state of each path in one transaction.

    Raises sqlite3.Error; the transaction may then be open still.
    """
    gone = [path for path, node in changes.items() if node is None]
    nodes = [node for node in changes.values() if node is not None]
    statements = [*_deletes(gone), *_upserts(nodes)]
    if len(statements) == 1:
        # Its own transaction: the interpreter's lock is given up once, not three times.
        connection.execute(*statements[0])
    elif statements:
        connection.execute("BEGIN IMMEDIATE")
        for statement, values in statements:
            connection.execute(statement, values)
        connection.execute("COMMIT")


def _deletes(paths: list[str]) -> Iterator[tuple[str, Values]]:
    for start in range(0, len(paths), _MOST_ROWS):
        values: Values = [*paths[start : start + _MOST_ROWS]]
        size = _size_for(len(values))
        yield _DELETES[size], values + [None] * (size - len(values))


def _upserts(nodes: list[StoredNode]) -> Iterator[tuple[str, Values]]:
    for start in range(0, len(nodes), _MOST_ROWS):
        piece = nodes[start : start + _MOST_ROWS]
        size = _size_for(len(piece))
        empty = len(COLUMNS) * (size - len(piece))
        yield _UPSERTS[size], flat_rows(piece) + [None] * empty


def _size_for(rows: int) -> int:
    """The smallest of `_SIZES` that is enough."""
    return 1 << (rows - 1).bit_length()


def read(connection: sqlite3.Connection) -> tuple[list[StoredNode], list[str]]:
    """All nodes, sorted by path, and what is wrong with those that are left out.

    A parent is among the nodes or `ALWAYS_THERE`. From here on the connection answers
    all text as bytes.
    """
    connection.text_factory = bytes
    nodes: list[StoredNode] = []
    problems: list[str] = []
    there = set(ALWAYS_THERE)
    for row in connection.execute(_SELECT):
        try:
            node = node_of(row)
            if (node.path.rpartition("/")[0] or "/") not in there:
                raise ValueError("its parent is missing")
        except ValueError as error:
            problems.append(f"node {_shown(row[0])} is left out: {error}")
            continue
        nodes.append(node)
        there.add(node.path)
    return nodes, problems


def _shown(path: object) -> str:
    return path.decode("utf-8", "replace") if isinstance(path, bytes) else repr(path)
