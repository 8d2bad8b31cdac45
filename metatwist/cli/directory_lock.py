"""The lock of a data directory, taken for an offline tool as a broker takes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metatwist.data_directory import lock_directory
from metatwist.errors import AdminError, DirectoryInUse


def is_in_use(directory: Path) -> bool:
    """Does some process hold the lock of this data directory?"""
    try:
        with locked(directory):
            return False
    except DirectoryInUse:
        return True
    except AdminError:
        return False


@contextmanager
def locked(directory: Path) -> Iterator[int]:
    """Hold the lock of a data directory; yields a descriptor of the directory.

    Raises `DirectoryInUse` while a broker or another offline tool holds it, and
    `AdminError` when the directory cannot be opened.
    """
    try:
        directory_fd = lock_directory(directory)
    except OSError as error:
        raise AdminError(
            f"cannot open the data directory {directory}: {error.strerror}"
        ) from None
    if directory_fd is None:
        raise DirectoryInUse(
            f"{directory} is in use: a broker runs on it (or another offline tool); "
            "stop the broker first, or use the verb without `offline`"
        )
    try:
        yield directory_fd
    finally:
        os.close(directory_fd)
