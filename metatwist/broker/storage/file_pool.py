"""Open files, bounded: thousands of segments, a few hundred descriptors."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from metatwist.broker.storage.files import FileOps


class OpenFile:
    """A descriptor and how many users hold it.

    A held file stays open whatever happens to its name, so a reader of a segment that
    retention removed finishes.
    """

    __slots__ = ("_pool", "fd", "holders", "path", "writable")

    def __init__(self, pool: FilePool, path: Path, fd: int, writable: bool) -> None:
        self._pool = pool
        self.path = path
        self.fd = fd
        self.writable = writable
        self.holders = 1

    def hold(self) -> OpenFile:
        """Begin one more use of a file that is held already."""
        self.holders += 1
        return self

    def release(self) -> None:
        """End one use; each `hold` needs exactly one."""
        self.holders -= 1
        if not self.holders:
            self._pool.released(self)


class FilePool:
    """Descriptors by path, the least recently used closed past `limit`.

    Files in use are never closed, so the number open is at most `limit` or the number
    in use, whichever is larger. In use are those that somebody reads or syncs, and
    each segment with bytes that no fsync has covered yet (see `PartitionLog`): in
    group commit for as long as a flush takes, in direct mode up to `unflushInterval`.
    """

    def __init__(self, files: FileOps, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._open: OrderedDict[Path, OpenFile] = OrderedDict()
        self._orphans: set[OpenFile] = set()

    def __len__(self) -> int:
        return len(self._open) + len(self._orphans)

    def hold(self, path: Path, writable: bool = False) -> OpenFile:
        """The open file for `path`, held until its `release`; OSError if it fails.

        With `writable` it can be appended to, and is created where it is missing.
        """
        file = self._open.get(path)
        if file is not None and (file.writable or not writable):
            self._open.move_to_end(path)
            file.holders += 1
            return file
        self.forget(path)
        fd = self._files.open(path, writable)
        file = self._open[path] = OpenFile(self, path, fd, writable)
        if len(self._open) > self._limit:
            self._close_idle()
        return file

    def forget(self, path: Path) -> None:
        """The name is going away: close as soon as nobody holds the file."""
        file = self._open.pop(path, None)
        if file is None:
            return
        if file.holders:
            self._orphans.add(file)
        else:
            self._files.close(file.fd)

    def released(self, file: OpenFile) -> None:
        """Called by `OpenFile.release` when the last holder has gone."""
        if file in self._orphans:
            self._orphans.discard(file)
            self._files.close(file.fd)
        elif len(self._open) > self._limit:
            self._close_idle()

    def close(self) -> None:
        """Close all that nobody holds."""
        for path in list(self._open):
            self.forget(path)

    def _close_idle(self) -> None:
        for path, file in list(self._open.items()):
            if len(self._open) <= self._limit:
                return
            if not file.holders:
                del self._open[path]
                self._files.close(file.fd)
