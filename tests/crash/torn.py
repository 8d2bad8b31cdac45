"""What a power loss may do to files, laid over them while no broker runs.

SIGKILL leaves the page cache alone, so killing a process shows nothing of it. Bytes
that were neither acknowledged, nor served after a start, nor vouched for by a line of
the sidecar may be missing, zero or garbage; so may any end of a sidecar, which is
never synced.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from tests.support.wire_client import HEADER, checksum

_SECTOR_BYTES = 512


@frozen
class Tail:
    """The segments of a partition with bytes that may be lost; `floor` is where those
    begin (absolute)."""

    directory: Path
    floor: int
    random: random.Random

    @property
    def segments(self) -> list[tuple[int, Path]]:
        """(start, path) of every segment, ascending."""
        paths = self.directory.glob("*.meta")
        return sorted((int(path.stem), path) for path in paths)

    def cuttable(self) -> tuple[Path, int, int] | None:
        """(path, first position that may be lost, size) of a segment, or None."""
        found = []
        for start, path in self.segments:
            size = path.stat().st_size
            if start + size > self.floor:
                found.append((path, max(self.floor - start, 0), size))
        return self.random.choice(found) if found else None


def _append(tail: Tail, data: bytes) -> str:
    path = tail.segments[-1][1]
    with open(path, "ab") as file:
        file.write(data)
    return f"{len(data)} bytes appended to {path.name}"


def append_garbage(tail: Tail) -> str:
    """Random bytes behind the end."""
    return "garbage: " + _append(
        tail, tail.random.randbytes(tail.random.randint(1, 5000))
    )


def append_zeros(tail: Tail) -> str:
    """Zeros behind the end: the size was on disk, the data was not."""
    return "zeros: " + _append(tail, bytes(tail.random.randint(1, 50_000)))


def append_part_of_record(tail: Tail) -> str:
    """A record whose end is missing behind the end."""
    body = tail.random.randbytes(tail.random.randint(1, 3000))
    message_id = tail.random.getrandbits(62)
    whole = HEADER.pack(len(body), checksum(body), message_id, 0) + body
    return "part: " + _append(tail, whole[: tail.random.randrange(1, len(whole))])


def cut(tail: Tail) -> str | None:
    """Bytes that may be lost are missing."""
    found = tail.cuttable()
    if found is None:
        return None
    path, first, size = found
    left = tail.random.randint(first, size)
    with open(path, "r+b") as file:
        file.truncate(left)
    return f"{path.name} cut from {size} to {left} bytes"


def overwrite(tail: Tail) -> str | None:
    """Sectors that may be lost are zero, or something else.

    Whole ones, as a disk writes them: bytes changed within a header, which no checksum
    covers, would be no torn write.
    """
    found = tail.cuttable()
    if found is None:
        return None
    path, first, size = found
    begin = -(-tail.random.randint(first, size) // _SECTOR_BYTES) * _SECTOR_BYTES
    if begin >= size:
        return None
    some = tail.random.randint(begin, size) // _SECTOR_BYTES * _SECTOR_BYTES
    end = tail.random.choice((size, some))
    fill = tail.random.choice((bytes, tail.random.randbytes))
    with open(path, "r+b") as file:
        file.seek(begin)
        file.write(fill(end - begin))
    return f"{path.name} overwritten from {begin} to {end} of {size}"


def lose_newest_file(tail: Tail) -> str | None:
    """The newest segment's name never reached the directory on disk."""
    segments = tail.segments
    start, path = segments[-1]
    if len(segments) < 2 or start < tail.floor:
        return None
    path.unlink()
    path.with_suffix(".index").unlink(missing_ok=True)
    return f"{path.name} lost"


def damage_sidecar(tail: Tail) -> str:
    """A sidecar is missing, cut, or has zeros or garbage at its end."""
    sidecars = sorted(tail.directory.glob("*.index"))[-2:]
    if not sidecars:
        return "no sidecar"
    path = tail.random.choice(sidecars)
    text = path.read_bytes()
    left = text[: tail.random.randint(0, len(text))]
    kind = tail.random.randrange(4)
    if kind == 0:
        path.unlink()
        return f"{path.name} lost"
    ends = (b"", bytes(len(text) - len(left)), tail.random.randbytes(40))
    path.write_bytes(left + ends[kind - 1])
    return f"{path.name} damaged from {len(left)} of {len(text)} on"


_APPENDING: tuple[Callable[[Tail], str], ...] = (
    append_garbage,
    append_zeros,
    append_part_of_record,
)
_LOSING: tuple[Callable[[Tail], str | None], ...] = (cut, overwrite, lose_newest_file)


def durable_end(directory: Path) -> int:
    """The highest end that a sidecar of the partition vouches for."""
    found = 0
    for path in directory.glob("*.index"):
        for line in path.read_bytes().splitlines():
            word, _, rest = line.partition(b" ")
            if word in (b"checkpoint", b"clean", b"sealed"):
                found = max(found, int(rest.split(b" ")[0]))
    return found


def lay_torn_write(directory: Path, protected_end: int, source: random.Random) -> str:
    """Damage the end of one partition; returns what was done."""
    floor = max(protected_end, durable_end(directory))
    tail = Tail(directory, floor, source)
    if not tail.segments:
        return "no segment yet"
    lost = source.choice(_LOSING)(tail) if source.random() < 0.6 else None
    done = [lost or source.choice(_APPENDING)(tail)]
    if source.random() < 0.3:
        done.append(damage_sidecar(tail))
    return ", ".join(done)
