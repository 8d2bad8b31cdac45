"""Replacing a small file so that a crash leaves the old one or the new one, never a
part; and a lock between processes. All of it blocks: for threads only."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK_POLL_S = 0.02
_MODE = 0o644


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `<path>.metatwist.tmp`, make it durable and rename it to `path`,
    keeping the mode of a file that was there.

    One writer at a time: see `locked`. Raises OSError; the old file is untouched then,
    unless the rename itself could not be made durable.
    """
    temporary = path.with_name(f"{path.name}.metatwist.tmp")
    try:
        _write_durably(temporary, data, _mode_of(path))
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None


def _write_durably(path: Path, data: bytes, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    fd = os.open(path, flags, _MODE if mode is None else mode)
    try:
        if mode is not None:
            os.fchmod(fd, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def locked(path: Path, limit_s: float) -> Iterator[None]:
    """Hold the lock file `path`, which is made and stays: whoever removed it could
    split those that wait from those that come.

    Raises TimeoutError when somebody else holds it for `limit_s`, or OSError.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    try:
        _take(fd, path, time.monotonic() + limit_s)
        yield
    finally:
        os.close(fd)


def _take(fd: int, path: Path, deadline_s: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{path} is locked by another process") from None
        time.sleep(_LOCK_POLL_S)
