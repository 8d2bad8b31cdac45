"""What everybody who works on a data directory agrees on: its lock, and the names of
what is being deleted.

The lock is a `flock` of the directory itself. No lock file is left behind, and the lock
ends with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

TRASH_PREFIX = "metatwist.deleted."
"""Begins the name of a partition folder whose deletion has begun. What follows has no
`-`, so that no broker takes it for a partition (spec storage 2)."""

HIGHEST_PARTITION = (1 << 31) - 1
"""The highest number of a partition: the wire and the Java broker have 32 bits."""


def lock_directory(path: Path) -> int | None:
    """Open a directory and take its exclusive lock, held until the descriptor that is
    returned is closed; None when somebody else holds it.

    Raises OSError when the directory cannot be opened or locked.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    return fd
