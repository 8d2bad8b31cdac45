"""The operating system as storage sees it, in one small object.

`os` and `open` appear here and in `archive` only, so a torn write, a full disk or a
refused permission is a test case: hand in another object with these calls.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from metatwist.data_directory import lock_directory

_MOST_BUFFERS = 1024  # IOV_MAX of Linux


class FileStatus(NamedTuple):
    """Size in bytes and time of last modification in seconds since 1970."""

    size_bytes: int
    modified_s: float


class FileOps:
    """The real file system. Every call raises OSError as the system does."""

    def open(self, path: Path, writable: bool) -> int:
        """A descriptor for reading, or for appending as well (then created)."""
        if not writable:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(path, flags, 0o644)

    def readable(self, path: Path) -> bool:
        """True when this process may read the file."""
        return os.access(path, os.R_OK)

    def close(self, fd: int) -> None:
        """Give the descriptor back."""
        os.close(fd)

    def append(self, fd: int, buffers: Sequence[bytes]) -> None:
        """Write all of `buffers` at the end, or raise; a part may then be there."""
        for first in range(0, len(buffers), _MOST_BUFFERS):
            piece = buffers[first : first + _MOST_BUFFERS]
            written = self.write_some(fd, piece)
            if written != sum(map(len, piece)):
                self._append_rest(fd, memoryview(b"".join(piece))[written:])

    def _append_rest(self, fd: int, rest: memoryview) -> None:
        while rest:
            rest = rest[self.write_some(fd, [rest]) :]

    def write_some(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        """Write as much at the end as the system takes in one call; its length."""
        return os.writev(fd, buffers)

    def read(self, fd: int, position: int, size: int) -> bytes:
        """At most `size` bytes at `position`; fewer only at the end of the file."""
        data = os.pread(fd, size, position)
        while 0 < len(data) < size:
            more = os.pread(fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def will_need(self, fd: int, position: int, size: int) -> None:
        """Ask the system to read ahead, where it can be asked."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, position, size, os.POSIX_FADV_WILLNEED)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """fsync; blocks, so never on the reactor's thread."""
        os.fsync(fd)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable; blocks."""
        fd = self.open_directory(path)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def open_directory(self, path: Path) -> int:
        """A descriptor of a directory, for fsync."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def lock_directory(self, path: Path) -> int | None:
        """A descriptor that holds the directory's lock; None when another has it."""
        return lock_directory(path)

    def status(self, path: Path) -> FileStatus:
        """Size and modification time."""
        found = os.stat(path)
        return FileStatus(found.st_size, found.st_mtime)

    def entries(self, path: Path) -> Iterator[tuple[str, bool]]:
        """(name, is a directory) of everything in a directory, sorted by name."""
        with os.scandir(path) as found:
            yield from sorted((entry.name, entry.is_dir()) for entry in found)

    def make_directory(self, path: Path) -> list[Path]:
        """Create a directory and its missing parents; returns what was made, the
        highest first. Nothing is synced."""
        missing = [one for one in (path, *path.parents) if not os.path.lexists(one)]
        os.makedirs(path, exist_ok=True)
        return missing[::-1]

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all that is in it; one that is gone is no error."""
        if os.path.lexists(path):
            shutil.rmtree(path)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file or directory."""
        os.rename(source, target)

    def read_all(self, path: Path) -> bytes:
        """The whole of a small file."""
        return path.read_bytes()

    def read_tail(self, path: Path, size: int) -> bytes:
        """At most the last `size` bytes of a file."""
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size)

    def replace_text(self, path: Path, text: bytes) -> None:
        """Write a small file whole, by rename; not synced."""
        draft = path.with_name(path.name + ".tmp")
        draft.write_bytes(text)
        os.replace(draft, path)

    def append_text(self, path: Path, text: bytes) -> None:
        """Append to a small file, creating it; not synced."""
        with open(path, "ab", buffering=0) as file:
            file.write(text)


@contextmanager
def opened(files: FileOps, path: Path, writable: bool = False) -> Iterator[int]:
    """A descriptor for the length of a `with` block."""
    fd = files.open(path, writable)
    try:
        yield fd
    finally:
        files.close(fd)
