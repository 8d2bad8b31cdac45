"""One segment: a file of records back to back, named after its first offset."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from metatwist.broker.storage import sidecar
from metatwist.broker.storage.files import FileOps

SUFFIX = ".meta"


def segment_path(directory: Path, start: int) -> Path:
    """The file for a segment that starts at offset `start` (spec storage 3)."""
    return directory / f"{start:020d}{SUFFIX}"


def parse_name(name: str) -> int | None:
    """The start offset in a segment's name, None when it is no segment's name."""
    digits, dot, rest = name.partition(".")
    if dot + rest != SUFFIX or not (digits.isascii() and digits.isdigit()):
        return None
    start = int(digits)
    return start if start < 1 << 63 else None


class TimeIndex:
    """Sparse (time, offset) pairs, both ascending."""

    __slots__ = ("offsets", "times_ms")

    def __init__(self) -> None:
        self.times_ms = array("q")
        self.offsets = array("q")

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.times_ms, self.offsets, strict=False)

    def add(self, time_ms: int, offset: int) -> int:
        """Append a pair; a time that falls back counts as the last one. Returns it."""
        if self.times_ms:
            time_ms = max(time_ms, self.times_ms[-1])
        # The offset first: a search on another thread goes by the times.
        self.offsets.append(offset)
        self.times_ms.append(time_ms)
        return time_ms

    def floor(self, time_ms: int) -> int | None:
        """The offset of the last pair strictly before `time_ms`, None if none is."""
        at = bisect_right(self.times_ms, time_ms - 1)
        return self.offsets[at - 1] if at else None


class Segment:
    """One file of a partition. Offsets are absolute; `end` is behind its last byte.

    `bad` lists ranges that hold no records; `verified` is False while nobody has
    walked the file, one that another broker left. `messages` counts whole records;
    `last_id` is the id of the last of them, 0 while that is not known.
    """

    __slots__ = (
        "bad",
        "end",
        "index",
        "last_id",
        "messages",
        "path",
        "start",
        "verified",
    )

    def __init__(self, path: Path, start: int, end: int) -> None:
        self.path = path
        self.start = start
        self.end = end
        self.messages = 0
        self.last_id = 0
        self.bad: tuple[tuple[int, int], ...] = ()
        self.verified = True
        self.index: TimeIndex | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of records, bad ranges included."""
        return self.end - self.start

    @property
    def sidecar_path(self) -> Path:
        """The file of checkpoints and times beside this one."""
        return self.path.with_suffix(sidecar.SUFFIX)

    def readable_from(self, offset: int) -> int:
        """`offset`, or the end of the bad range that holds it."""
        for begin, end in self.bad:
            if begin <= offset < end:
                return end
        return offset

    def readable_until(self, offset: int) -> int:
        """Where an unbroken run of good bytes from `offset` ends."""
        for begin, _ in self.bad:
            if begin > offset:
                return begin
        return self.end

    def load_index(self, files: FileOps) -> TimeIndex:
        """The time index, from memory or from the sidecar; reads a small file."""
        kept = self.index
        if kept is not None:
            return kept
        index = TimeIndex()
        try:
            text = files.read_all(self.sidecar_path)
        except OSError:
            return index
        facts = sidecar.parse(text, self.start, self.size_bytes)
        for time_ms, offset in facts.times if facts else ():
            index.add(time_ms, offset)
        return index
