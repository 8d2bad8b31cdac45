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
    data: bytes, partition: TopicPartition, offset: int, most_message_bytes: int
) -> RecordRun:
    """The records of a body that starts at `offset`.

    The inner loop runs once a message of every consumer: no calls and no attributes
    that can be avoided. Twenty zero bytes, which no broker writes but a crash may
    leave, are no record although their checksum fits.
    """
    messages: list[ReceivedMessage] = []
    append, new, kind = messages.append, tuple.__new__, ReceivedMessage
    unpack, crc, mask, header = unpack_header, crc32, CHECKSUM_MASK, HEADER_BYTES
    topic, name = partition
    size = len(data)
    last_header = size - header
    position, here = 0, offset
    while position <= last_header:
        length, checksum, message_id, flag = unpack(data, position)
        start = position + header
        end = start + length
        if end > size or not 0 <= length <= most_message_bytes:
            break
        payload = data[start:end]
        if crc(payload) & mask != checksum or not (
            checksum or length or message_id or flag
        ):
            return RecordRun(messages, here, Ending.CORRUPT, header + length)
        behind = offset + end
        append(new(kind, (topic, name, here, behind, message_id, flag, payload)))
        position, here = end, behind
    ending, record_bytes = _ending(data, position, most_message_bytes)
    return RecordRun(messages, here, ending, record_bytes)


def _ending(
    data: bytes, position: int, most_message_bytes: int
) -> tuple[Ending, int | None]:
    """How a body ends whose whole and intact records end at `position`."""
    left = len(data) - position
    if not left:
        return Ending.COMPLETE, None
    if left < HEADER_BYTES:
        return Ending.PARTIAL, None
    length = unpack_header(data, position)[0]
    if length < 0:
        return Ending.CORRUPT, None
    if length > most_message_bytes:
        return Ending.TOO_LARGE, HEADER_BYTES + length
    return Ending.PARTIAL, HEADER_BYTES + length


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
