"""A partition in memory: bytes at rising offsets, in segments."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from metatwist.wire.records import HEADER_BYTES, Record, encode, whole_records

_CHECKSUM_AT = 4


class StoredMessage(NamedTuple):
    """A message as it is stored; `offset` in bytes, `attribute` None for none."""

    partition: int
    offset: int
    attribute: str | None
    body: bytes


class FakePartition:
    """Records one behind the other; offsets count bytes and are never used again,
    unless data is lost.

    A segment that has reached `segment_bytes` is followed by the next: no answer goes
    past the end of one (spec wire-protocol 3.4).
    """

    def __init__(self, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._starts = [0]
        self._data = bytearray()

    @property
    def start(self) -> int:
        """The first offset that can be read, if there is anything."""
        return self._starts[0]

    @property
    def end(self) -> int:
        """The offset of the next message."""
        return self.start + len(self._data)

    @property
    def size_bytes(self) -> int:
        """All that is stored."""
        return len(self._data)

    def append(self, message_id: int, flag: int, payload: bytes) -> int:
        """Store a message; returns its offset."""
        offset = self.end
        self._data += encode(message_id, flag, payload)
        if self.end - self._starts[-1] >= self._segment_bytes:
            self._starts.append(self.end)
        return offset

    def read(self, offset: int, most_bytes: int) -> bytes:
        """The bytes from an offset on that is not the end, within one segment."""
        at = bisect_right(self._starts, offset)
        segment_end = self._starts[at] if at < len(self._starts) else self.end
        end = min(offset + most_bytes, segment_end)
        return bytes(self._data[offset - self.start : end - self.start])

    def nearest(self, offset: int) -> int:
        """Where to read on from (spec wire-protocol 3.5): a segment's start, or the
        end."""
        if offset >= self.end:
            return self.end
        return self._starts[max(bisect_right(self._starts, offset) - 1, 0)]

    def records(self) -> list[Record]:
        """All that is stored, with offsets in the partition."""
        return [
            record._replace(offset=self.start + record.offset)
            for record in whole_records(bytes(self._data))
        ]

    # -- misfortunes --------------------------------------------------------------

    def _first_from(self, offset: int) -> int:
        """The first record that begins at an offset or behind it, else the end."""
        found = (one.offset for one in self.records() if one.offset >= offset)
        return next(found, self.end)

    def forget_before(self, offset: int) -> None:
        """Drop the records that begin before an offset, as retention does."""
        start = self._first_from(offset)
        del self._data[: start - self.start]
        self._starts = [start, *(one for one in self._starts if one > start)]

    def lose_from(self, offset: int) -> None:
        """Drop the records that begin at an offset or behind it; it is used again."""
        end = self._first_from(offset)
        del self._data[end - self.start :]
        self._starts = [self.start, *(one for one in self._starts[1:] if one < end)]

    def corrupt(self, offset: int) -> None:
        """Damage the message at an offset, so that its checksum is wrong.

        Raises ValueError when none begins there.
        """
        found = [one for one in self.records() if one.offset == offset]
        if not found:
            raise ValueError(f"no message begins at offset {offset}")
        inside = HEADER_BYTES if found[0].payload else _CHECKSUM_AT
        self._data[offset - self.start + inside] ^= 1
