"""The coordinator's SQLite file: making it, whose it is, what its errors say.

Every StorageError names the file and what can be done about it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import frozen

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
    for one in (path, directory):
        _check_writable(one)
    _sync_directory(directory)


def _check_writable(path: Path) -> None:
    """SQLite would only speak of an I/O error, or of a readonly database."""
    if os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return
    read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    why = "the file system is mounted read-only" if read_only else "permission denied"
    raise StorageError(f"{path} cannot be written: {why}")


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


Identity = tuple[int, int]
"""Device and inode."""


@frozen
class FilesInUse:
    """Which files a database and its log were when they were opened.

    SQLite goes on to write to a file that has lost its name, and reports success: what
    it stores there is gone with the process.
    """

    path: Path
    identities: tuple[tuple[Path, Identity], ...]

    @classmethod
    def of(cls, path: Path) -> FilesInUse:
        """The files that are there now; raises OSError where one is missing."""
        # SQLite puts the log beside the file that a symbolic link leads to.
        real = path.resolve()
        files = (path, real.with_name(f"{real.name}-wal"))
        return cls(path, tuple((one, _identity_of(one)) for one in files))

    @property
    def lost(self) -> str | None:
        """What has become of them, None while both are where they were."""
        for one, identity in self.identities:
            try:
                in_place = _identity_of(one) == identity
            except (FileNotFoundError, NotADirectoryError):
                in_place = False
            except OSError as error:
                return f"{one}: {error.strerror}"
            if not in_place:
                return f"{one} was removed or replaced while in use"
        return None


def _identity_of(path: Path) -> Identity:
    found = os.stat(path)
    return found.st_dev, found.st_ino


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
        raise _explain(path, describe(error)) from error


def describe(error: sqlite3.Error) -> str:
    """What SQLite says, with its own name for it where Python tells that (3.11)."""
    name = getattr(error, "sqlite_errorname", None)
    return str(error) if name is None else f"{error} ({name})"


def _explain(path: Path, text: str) -> StorageError:
    if "disk is full" in text:
        return StorageError(
            f"{path}: the disk is full, and a start needs room for a few KiB; make"
            " space, then start again"
        )
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
