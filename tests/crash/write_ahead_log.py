"""SQLite's write-ahead log, read and damaged as a loss of power may damage it.

A log is a header and frames, each one page with a checksum over all before it; the last
frame of a commit says so (https://www.sqlite.org/fileformat2.html#walformat). What lies
behind the last commit was never acknowledged, and may be lost or be anything. What was
acknowledged is on disk; should a disk lose that all the same, from some point on, then
the commits before that point must be found, and nothing else.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import define, frozen

_HEADER = struct.Struct(">IIIIIIII")
_FRAME = struct.Struct(">IIIIII")
_MAGIC = 0x377F0682
_SECTOR_BYTES = 512
_WORD = 0xFFFFFFFF
_LATE_COMMITS = 6


@frozen
class Left:
    """What a damaged log leaves of a database: data and version by path; and the epoch,
    which counts the starts."""

    epoch: int
    rows: dict[str, tuple[bytes | None, int]]


@frozen
class _Sum:
    """The checksum up to some place; `order` is that of the bytes of a word."""

    order: str
    first: int = 0
    second: int = 0

    def over(self, data: bytes) -> _Sum:
        """The checksum after `data`, whose size is a multiple of 8."""
        first, second = self.first, self.second
        words = struct.unpack(f"{self.order}{len(data) // 4}I", data)
        for one, other in zip(words[::2], words[1::2], strict=True):
            first = (first + one + second) & _WORD
            second = (second + other + first) & _WORD
        return _Sum(self.order, first, second)

    @property
    def pair(self) -> tuple[int, int]:
        """As it is written."""
        return self.first, self.second


@define
class WriteAheadLog:
    """The log of the database at `path` as it is in the file.

    `commits` are the positions behind each whole commit, `sum` is the checksum there.
    """

    path: Path
    data: bytes
    page_bytes: int
    salts: tuple[int, int]
    sum: _Sum
    commits: list[int]

    @classmethod
    def of(cls, database: Path) -> WriteAheadLog | None:
        """None where there is none, or its header is not whole."""
        path = database.with_name(f"{database.name}-wal")
        data = path.read_bytes() if path.exists() else b""
        if len(data) < _HEADER.size:
            return None
        magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack_from(data)
        start = _Sum(">" if magic & 1 else "<").over(data[: _HEADER.size - 8])
        if magic & ~1 != _MAGIC or start.pair != (first, second):
            return None
        log = cls(path, data, page_bytes, (salts[0], salts[1]), start, [])
        for end, is_commit, sum_ in log._frames():
            if is_commit:
                log.commits.append(end)
                log.sum = sum_
        return log

    def _frames(self) -> Iterator[tuple[int, bool, _Sum]]:
        """(position behind, whether it ends a commit, checksum) of each whole frame."""
        at, sum_ = _HEADER.size, self.sum
        size = _FRAME.size + self.page_bytes
        while at + size <= len(self.data):
            _, pages, *salts, first, second = _FRAME.unpack_from(self.data, at)
            page = self.data[at + _FRAME.size : at + size]
            sum_ = sum_.over(self.data[at : at + 8] + page)
            if (*salts,) != self.salts or sum_.pair != (first, second):
                return
            at += size
            yield at, pages != 0, sum_

    @property
    def end(self) -> int:
        """The position behind the last whole commit."""
        return self.commits[-1] if self.commits else _HEADER.size

    @property
    def frames(self) -> int:
        """How many frames the whole commits have."""
        return (self.end - _HEADER.size) // (_FRAME.size + self.page_bytes)

    def frame(self, page: bytes, sum_: _Sum) -> tuple[bytes, _Sum]:
        """A sound frame that ends no commit, to stand where the checksum is `sum_`."""
        head = struct.pack(">II", 2, 0)
        sum_ = sum_.over(head + page)
        return head + struct.pack(">IIII", *self.salts, *sum_.pair) + page, sum_

    def write(self, at: int, data: bytes, is_end: bool) -> None:
        """Overwrite from a position on; with `is_end` the file ends there."""
        with open(self.path, "r+b") as file:
            file.seek(at)
            file.write(data)
            if is_end:
                file.truncate()


# -- behind the last commit -----------------------------------------------------------


def _behind(log: WriteAheadLog, source: random.Random) -> str:
    """Garbage, zeros or nothing."""
    data = source.choice((b"", bytes(source.randint(1, 20_000)), source.randbytes(999)))
    log.write(log.end, data, is_end=source.random() < 0.7)
    return f"{len(data)} bytes behind {log.end}"


def _unfinished(log: WriteAheadLog, source: random.Random) -> str:
    """Frames of a commit whose end is missing, the last of them in part at times."""
    data, sum_ = b"", log.sum
    count = source.randint(1, 3)
    for _ in range(count):
        frame, sum_ = log.frame(source.randbytes(log.page_bytes), sum_)
        data += frame
    left = len(data) - source.choice((0, source.randrange(len(frame))))
    log.write(log.end, data[:left], is_end=source.random() < 0.7)
    return f"{left} bytes of {count} frames without a commit behind {log.end}"


def tear(log: WriteAheadLog, source: random.Random) -> str:
    """Damage what was never acknowledged; answers what was done."""
    return source.choice((_behind, _unfinished))(log, source)


# -- within the last commits: each answers the first position that is not as it was ----


def _cut(log: WriteAheadLog, at: int, source: random.Random) -> int:
    log.write(at, b"", is_end=True)
    return at


def _zero(log: WriteAheadLog, at: int, source: random.Random) -> int:
    at = at // _SECTOR_BYTES * _SECTOR_BYTES
    log.write(at, bytes(len(log.data) - at), is_end=False)
    # What was zero before is not damaged: the rest of a page, say.
    return log.end - len(log.data[at : log.end].lstrip(b"\0"))


def _scramble(log: WriteAheadLog, at: int, source: random.Random) -> int:
    size = min(_SECTOR_BYTES, log.end - at)
    changed = bytes(byte ^ 0x5A for byte in log.data[at : at + size])
    log.write(at, changed, is_end=False)
    return at


_LOSSES: tuple[Callable[[WriteAheadLog, int, random.Random], int], ...] = (
    _cut,
    _zero,
    _scramble,
)


def lose(
    log: WriteAheadLog, database: Path, source: random.Random
) -> tuple[str, Left] | None:
    """Damage one of the last commits; answers what was done and what must be left,
    None where there is no commit."""
    if not log.commits:
        return None
    earlier = [_HEADER.size, *log.commits]
    floor = source.choice(earlier[-_LATE_COMMITS - 1 : -1])
    how = source.choice(_LOSSES)
    at = how(log, source.randrange(floor, log.end), source)
    whole = max((end for end in log.commits if end <= at), default=0)
    done = f"{how.__name__.strip('_')} at {at} of {log.end}, {whole} left"
    return done, _left(database, log.data[:whole])


def _left(database: Path, log: bytes) -> Left:
    """What SQLite itself reads from the database with another log."""
    copy = database.with_name("copy.sqlite3")
    beside = copy.with_name(f"{copy.name}-wal")
    shutil.copy(database, copy)
    beside.write_bytes(log)
    connection = sqlite3.connect(copy)
    try:
        connection.text_factory = bytes
        if not connection.execute("SELECT * FROM sqlite_master").fetchall():
            return Left(0, {})
        ((epoch,),) = connection.execute("SELECT epoch FROM tree")
        rows = connection.execute("SELECT path, data, version FROM node")
        return Left(epoch, {path.decode(): (data, n) for path, data, n in rows})
    finally:
        connection.close()
        for path in copy.parent.glob(f"{copy.name}*"):
            path.unlink()
