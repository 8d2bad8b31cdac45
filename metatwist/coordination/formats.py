"""Values in znodes: topic registrations, checksums, consumers, offsets (spec layout 3).

Each value has `encode`; each `read_...` takes the data of a node, accepts every form
that was ever written, and never raises: garbage is `Unreadable`, blank is None.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

from attrs import field, frozen
from attrs.validators import optional

from metatwist.coordination.layout import TopicTree
from metatwist.coordination.names import NodeName
from metatwist.coordination.unreadable import Unreadable, text_of

MOST_PARTITIONS = 100_000
_DECIMAL = re.compile("[+-]?[0-9]{1,40}")
_CHECKSUM = re.compile("[0-9]{1,10}")
_INT64 = range(-(2**63), 2**63)
_UINT32 = range(2**32)
_JSON = json.JSONDecoder()
_UNKNOWN_MESSAGE = -1


# -- topic registration (3.3) -------------------------------------------------------


@frozen
class TopicRegistration:
    """A broker offers partitions 0 .. `partitions` - 1 of a topic under its name."""

    partitions: int
    node: NodeName

    def encode(self, tree: TopicTree) -> bytes:
        """Text for the old tree, JSON for the others.

        Java readers refuse the JSON for any other member than these two.
        """
        if tree is TopicTree.OLD:
            return str(self.partitions).encode()
        members = {"numParts": self.partitions, "broker": str(self.node)}
        return json.dumps(members, separators=(",", ":")).encode()


def read_partition_count(tree: TopicTree, data: bytes) -> int | Unreadable | None:
    """How many partitions a node of a topic tree offers; None when it is blank.

    As strict as Java, so that what one consumer sees the others see too: an unknown
    member, or a bare number outside of the old tree, is Unreadable; a quoted number
    and a missing `broker` are fine; a missing `numParts` is 0. The broker is told by
    the node's name. Past 100,000 partitions it is taken for garbage.
    """
    text = text_of(data)
    if not isinstance(text, str):
        return text
    try:
        count = _decimal(text) if tree is TopicTree.OLD else _num_parts(text)
    except (ValueError, RecursionError) as error:
        return Unreadable.of(data, str(error) or "is no topic registration")
    if not 0 <= count <= MOST_PARTITIONS:
        return Unreadable.of(data, f"{count} is no number of partitions")
    return count


def _num_parts(text: str) -> int:
    # What follows the object is ignored, as by the Java mapper (tried).
    members: Any = _JSON.raw_decode(text.lstrip())[0]
    if not isinstance(members, dict):
        raise ValueError("is no JSON object")
    unknown = members.keys() - {"numParts", "broker"}
    if unknown:
        raise ValueError(f"has the unknown member {sorted(unknown)[0]!r}")
    if isinstance(members.get("broker"), (dict, list)):
        raise ValueError("its broker is no text")
    count: Any = members.get("numParts")
    if count is None:
        return 0
    if isinstance(count, str):
        return _decimal(count.strip())
    if isinstance(count, bool) or not isinstance(count, (int, float)):
        raise ValueError("its numParts is no number")
    if not abs(count) <= 2**31:
        raise ValueError("its numParts is out of range")
    return int(count)


def _decimal(text: str) -> int:
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


# -- configuration checksum (3.4) ---------------------------------------------------


def config_checksum(file: bytes) -> int:
    """The unsigned CRC-32 of a configuration file."""
    return zlib.crc32(file)


def encode_checksum(checksum: int) -> bytes:
    """A checksum as it is registered."""
    return str(checksum).encode()


def read_checksum(data: bytes) -> int | Unreadable | None:
    """A registered checksum; None when it is blank."""
    text = text_of(data)
    if not isinstance(text, str):
        return text
    if not _CHECKSUM.fullmatch(text) or int(text) not in _UINT32:
        return Unreadable.of(data, "is no unsigned 32 bit number")
    return int(text)


# -- consumer registration (3.5) ----------------------------------------------------


def encode_topics(topics: frozenset[str]) -> bytes:
    """The topics of a consumer, sorted, as Java takes the same text from an earlier
    session for its own. Raises ValueError for a name that is blank or has a comma."""
    for topic in topics:
        if not topic.strip() or "," in topic:
            raise ValueError(f"{topic!r} cannot be listed as a topic")
    return ",".join(sorted(topics)).encode()


def read_topics(data: bytes) -> frozenset[str] | Unreadable:
    """The topics of a consumer; none when it is blank."""
    text = text_of(data)
    if isinstance(text, Unreadable):
        return text
    return frozenset(topic for topic in (text or "").split(",") if topic.strip())


# -- offset record (3.6) ------------------------------------------------------------


def _check_int64(_record: object, _field: object, number: int) -> None:
    if number not in _INT64:
        raise ValueError(f"{number} does not fit into 64 bits")


@frozen
class OffsetRecord:
    """A committed offset: bytes from the start of the partition's log.

    `message_id` is the last message that the consumer was handed, often negative;
    None when it is not known, written as -1. An offset below 0 is never right, but is
    read as it is.
    """

    offset: int = field(validator=_check_int64)
    message_id: int | None = field(default=None, validator=optional(_check_int64))

    def encode(self) -> bytes:
        """`<message id>-<offset>`; raises ValueError for an offset below 0."""
        if self.offset < 0:
            raise ValueError(f"{self.offset} is no offset")
        known = _UNKNOWN_MESSAGE if self.message_id is None else self.message_id
        return f"{known}-{self.offset}".encode()


def read_offset(data: bytes) -> OffsetRecord | Unreadable | None:
    """A committed offset; None when it is blank.

    What stands before the last hyphen is the message id, unless that hyphen is the
    first character or there is none: then all of it is an offset of before 1.4.
    """
    text = text_of(data)
    if not isinstance(text, str):
        return text
    hyphen = text.rfind("-")
    message_id = None
    try:
        if hyphen > 0:
            written = _decimal(text[:hyphen])
            message_id = None if written == _UNKNOWN_MESSAGE else written
            text = text[hyphen + 1 :]
        return OffsetRecord(_decimal(text), message_id)
    except ValueError as error:
        return Unreadable.of(data, f"is no offset record: {error}")
