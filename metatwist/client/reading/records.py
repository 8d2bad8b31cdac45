"""The body of a `value`: whole records in front, and how it ended (spec client 12.1).

A body is a raw slice of a partition, so it starts where it was asked to and usually
ends within a record (spec wire-protocol 2.6). All offsets are absolute, in bytes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.wire.records import (
    CHECKSUM_MASK,
    HEADER_BYTES,
    crc32,
    unpack_header,
)
from metatwist.wire.reply_reader import ValueChunks

SCANNED_BYTES = 64 << 10
"""How far one search for the next intact record goes: about 10 ms of the reactor."""


class Ending(Enum):
    """What comes behind the whole records of a body."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    CORRUPT = "corrupt"
    TOO_LARGE = "too large"


class RecordRun(NamedTuple):
    """What a body holds.

    Attributes:
        messages: whole and with good checksums, in order.
        next_offset: where they end, and what `ending` and `record_bytes` are about.
        ending: COMPLETE when nothing follows, PARTIAL when the next record is not all
            there, CORRUPT when it is no intact record, TOO_LARGE when its header says
            so.
        record_bytes: its size with header as that header says; None when the header is
            not there or impossible.
    """

    messages: list[ReceivedMessage]
    next_offset: int
    ending: Ending
    record_bytes: int | None


def read_records(
    value: ValueChunks, partition: TopicPartition, offset: int, most_message_bytes: int
) -> RecordRun:
    """The records of a body that starts at `offset`.

    Read where they lie: only a record that reaches from one chunk into the next is
    joined.
    """
    reading = _Reading(partition, offset, most_message_bytes)
    chunks, last = value.chunks, len(value.chunks) - 1
    rest, start = b"", value.start
    for index, chunk in enumerate(chunks):
        end = value.end if index == last else len(chunk)
        if rest:
            across = _first_record(rest, chunk, end)
            if across is None:  # larger than a chunk
                later = [*chunks[index:last], chunks[last][: value.end]]
                whole = b"".join([rest, *later])
                reading.read(whole, 0, len(whole))
                break
            start = across - len(rest)
            if reading.read(rest + chunk[:start], 0, across) != across:
                break
        stopped = reading.read(chunk, start, end)
        if reading.ending not in (Ending.COMPLETE, Ending.PARTIAL):
            break
        rest, start = chunk[stopped:end], 0
    return reading.run


def _first_record(rest: bytes, chunk: bytes, end: int) -> int | None:
    """The size, with header, of the record that begins with `rest` and goes on in
    `chunk`; None when it does not end before `end` there. An impossible size is that of
    a header: the reader finds out."""
    missing = HEADER_BYTES - len(rest)
    head = rest if missing <= 0 else rest + chunk[: min(missing, end)]
    if len(head) < HEADER_BYTES:
        return None
    size: int = HEADER_BYTES + max(0, unpack_header(head)[0])
    return size if size <= len(rest) + end else None


class _Reading:
    """The records read so far, and how they ended."""

    def __init__(
        self, partition: TopicPartition, offset: int, most_message_bytes: int
    ) -> None:
        self.ending = Ending.COMPLETE
        self._messages: list[ReceivedMessage] = []
        self._partition = partition
        self._here = offset
        self._most_bytes = most_message_bytes
        self._record_bytes: int | None = None

    @property
    def run(self) -> RecordRun:
        """All of it."""
        return RecordRun(self._messages, self._here, self.ending, self._record_bytes)

    def read(self, data: bytes, position: int, size: int) -> int:
        """The records of `data` from `position` to before `size`; returns where they
        end.

        The loop runs once a message of every consumer: no calls and no attributes that
        can be avoided. Twenty zero bytes, which no broker writes but a crash may leave,
        are no record although their checksum fits.
        """
        append, new, kind = self._messages.append, tuple.__new__, ReceivedMessage
        unpack, crc, mask, header = unpack_header, crc32, CHECKSUM_MASK, HEADER_BYTES
        topic, name = self._partition
        most_bytes, last_header = self._most_bytes, size - HEADER_BYTES
        here = self._here
        before = here - position
        while position <= last_header:
            length, checksum, message_id, flag = unpack(data, position)
            start = position + header
            end = start + length
            if end > size or not 0 <= length <= most_bytes:
                break
            payload = data[start:end]
            if crc(payload) & mask != checksum or not (
                checksum or length or message_id or flag
            ):
                self._here, self.ending = here, Ending.CORRUPT
                self._record_bytes = header + length
                return position
            behind = before + end
            append(new(kind, (topic, name, here, behind, message_id, flag, payload)))
            position, here = end, behind
        self._here = here
        self._end(data, position, size - position)
        return position

    def _end(self, data: bytes, position: int, left: int) -> None:
        """How it ends when whole and intact records end at `position`."""
        self._record_bytes = None
        if not left:
            self.ending = Ending.COMPLETE
        elif left < HEADER_BYTES:
            self.ending = Ending.PARTIAL
        else:
            length: int = unpack_header(data, position)[0]
            self.ending = self._ending_at(length)
            if length >= 0:
                self._record_bytes = HEADER_BYTES + length

    def _ending_at(self, length: int) -> Ending:
        if length < 0:
            return Ending.CORRUPT
        return Ending.TOO_LARGE if length > self._most_bytes else Ending.PARTIAL


def damaged_bytes(data: bytes, most_message_bytes: int) -> int:
    """How much to pass over at the front of `data`, whose first record is corrupt.

    As long as the record says, when an intact one follows there; else up to the next
    intact record; else as long as it says, when that may be right; else what was
    searched, where the next search begins. At least 1.

    Only records that are whole in `data` are found, so no more than its first half is
    given up: what is larger than the other half may be passed over.
    """
    length: int = unpack_header(data)[0]
    end = HEADER_BYTES + length
    plausible = 0 <= length <= most_message_bytes and end <= len(data)
    if plausible and _is_intact(data, end):
        return end
    last = min(len(data) - HEADER_BYTES, len(data) // 2, SCANNED_BYTES)
    for position in range(1, last + 1):
        if _is_intact(data, position):
            return position
    if plausible and _may_begin(data, end, most_message_bytes):
        return end
    return last + 1


def _may_begin(data: bytes, position: int, most_message_bytes: int) -> bool:
    """Whether a record that is not whole in `data` may begin there."""
    left = len(data) - position
    if left < HEADER_BYTES:
        return True
    length: int = unpack_header(data, position)[0]
    return left < HEADER_BYTES + length <= HEADER_BYTES + most_message_bytes


def _is_intact(data: bytes, position: int) -> bool:
    if position > len(data) - HEADER_BYTES:
        return False
    length, checksum, message_id, _flag = unpack_header(data, position)
    start = position + HEADER_BYTES
    if length < 0 or start + length > len(data) or not message_id:
        return False
    return bool(crc32(data[start : start + length]) & CHECKSUM_MASK == checksum)
