"""The coordinator's SQLite file: making it, whose it is, what its errors say.

Every StorageError names the file and what can be done about it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from metatwist.coordination.embedded.node_table import APPLICATION_ID, SCHEMA_VERSION
from metatwist.errors import DirectoryInUse, StorageError

_MOST_PROBLEMS = 5


def make_file(path: Path) -> None:
    """Create what is missing of the file and its directories, durably."""
    directory = path.parent
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700 if one == directory else 0o777, exist_ok=True)
        _sync_directory(one.parent)
    # Without O_EXCL the close would drop the locks of an open store of this process.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with suppress(FileExistsError):
        os.close(os.open(path, flags, 0o600))
    _sync_directory(directory)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_fresh(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is empty; raises StorageError unless it is that or ours and
    sound."""
    application = value_of(connection, "PRAGMA application_id")
    version = value_of(connection, "PRAGMA user_version")
    tables = value_of(connection, "SELECT count(*) FROM sqlite_master")
    if (application, version, tables) == (0, 0, 0):
        return True
    if application != APPLICATION_ID:
        raise StorageError(
            f"{path} is a database of some other program; "
            "move it away, or let the coordinator keep its file elsewhere"
        )
    if version != SCHEMA_VERSION:
        raise StorageError(
            f"{path} was written by another version of metatwist (its layout "
            f"is {version}, this version knows {SCHEMA_VERSION}): "
            "use the version that wrote it"
        )
    found = connection.execute(f"PRAGMA quick_check({_MOST_PROBLEMS})").fetchall()
    if found != [("ok",)]:
        raise damaged(path, "; ".join(str(row[0]) for row in found))
    return False


def value_of(connection: sqlite3.Connection, query: str) -> object:
    """The first column of the first row, None where there is none."""
    row = connection.execute(query).fetchone()
    return row[0] if row else None


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of the system and of SQLite into StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    except sqlite3.Error as error:
        raise _explain(path, str(error)) from error


def _explain(path: Path, text: str) -> StorageError:
    if "locked" in text:
        return DirectoryInUse(
            f"{path} is in use by another process: a broker, or an sqlite3 shell; "
            "stop that first"
        )
    if "not a database" in text or "malformed" in text:
        return damaged(path, text)
    return StorageError(f"{path}: {text}")


def damaged(path: Path, how: str) -> StorageError:
    """The error for a file whose content makes no sense."""
    return StorageError(
        f"{path} is damaged, or no file of the coordinator: {how}. Restore it from a "
        f"copy, or save what is left with `sqlite3 {path} .recover`, or move it away "
        f"together with {path}-wal to begin with an empty tree (without the offsets "
        "of all consumer groups)"
    )
