"""A local SQLite file: how it is made, opened, and written so that it lasts.

One process has it at a time. What was written in a transaction survives the end of the
process and a loss of power: the file is in WAL mode with `synchronous=FULL`, as is the
coordinator's. All of it blocks; calls come from one thread at a time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from metatwist.client.errors import LocalStoreFailed

_PRAGMAS = (
    "PRAGMA locking_mode=EXCLUSIVE",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
)
_WHAT_IT_IS = (
    "PRAGMA application_id",
    "PRAGMA user_version",
    "SELECT count(*) FROM sqlite_master",
)


@frozen
class FileKind:
    """What a file is for.

    Attributes:
        application_id: what tells its kind, positive.
        version: of its tables, positive.
        tables: the statements that make them in an empty file.
    """

    application_id: int
    version: int
    tables: tuple[str, ...]


def opened(path: Path, kind: FileKind, wait_s: float = 0) -> sqlite3.Connection:
    """The file, made if there is none; no transaction begins by itself.

    Waits up to `wait_s` seconds for another process that has it. Raises OSError and
    sqlite3.Error (see `explained` and `is_in_use`), and LocalStoreFailed for a file of
    another kind or version, which is left as it is.
    """
    _make(path)
    connection = sqlite3.connect(
        path, timeout=wait_s, isolation_level=None, check_same_thread=False
    )
    try:
        _is_new(connection, path, kind)  # raises before anything is changed
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        with transaction(connection):
            if _is_new(connection, path, kind):
                for statement in kind.tables:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={kind.application_id}")
                connection.execute(f"PRAGMA user_version={kind.version}")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_new(connection: sqlite3.Connection, path: Path, kind: FileKind) -> bool:
    """Whether there is nothing in it."""
    found = [connection.execute(query).fetchone()[0] for query in _WHAT_IT_IS]
    if found == [0, 0, 0]:
        return True
    if found[:2] != [kind.application_id, kind.version]:
        raise LocalStoreFailed(f"{path}: not a store of this kind and version")
    return False


def _make(path: Path) -> None:
    """Create it so that its name survives a loss of power."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o644))
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class CommitInDoubt(sqlite3.OperationalError):
    """A COMMIT failed: it may be in the file and not on the disk, and what is written
    behind it, or found there already, would not be durable whatever SQLite says."""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of what is done inside is kept, or, when that raises, none. Raises
    CommitInDoubt after which the file should not be used any more."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if is_full(error):
                raise
            raise CommitInDoubt(str(error)) from error
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def is_in_use(error: Exception) -> bool:
    """Whether another process, or another store of this one, has the file."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def is_full(error: Exception) -> bool:
    """Whether only space is missing: nothing was written, and later there may be
    some."""
    return isinstance(error, sqlite3.OperationalError) and "full" in str(error)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What the file raises inside, as LocalStoreFailed with the path; its `__cause__`
    is the OSError, the sqlite3.Error or, for a value that cannot be stored, the
    OverflowError or UnicodeError."""
    try:
        yield
    except OSError as error:
        raise LocalStoreFailed(f"{path}: {error.strerror}") from error
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        text = "in use by another process or store" if is_in_use(error) else str(error)
        raise LocalStoreFailed(f"{path}: {text}") from error
