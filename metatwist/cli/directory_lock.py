"""The lock of a data directory, as a broker takes it: `flock` of the directory itself.

No lock file is left behind, and the lock ends with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
        directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise AdminError(
            f"cannot open the data directory {directory}: {error.strerror}"
        ) from None
    try:
        fcntl.flock(directory_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(directory_fd)
        raise DirectoryInUse(
            f"{directory} is in use: a broker runs on it (or another offline tool); "
            "stop the broker first, or use the verb without `offline`"
        ) from None
    try:
        yield directory_fd
    finally:
        os.close(directory_fd)
