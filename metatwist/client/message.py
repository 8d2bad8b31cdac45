"""Messages: what is sent, what came of it, what is received."""

from __future__ import annotations

from typing import NamedTuple

from attrs import frozen

from metatwist.coordination.names import PartitionName
from metatwist.wire.records import split_payload

MOST_SHOWN_BYTES = 64


@frozen
class Message:
    """To be sent.

    Attributes:
        topic: its name.
        body: any bytes, also none.
        attribute: travels with it (spec wire-protocol 2.2); None for none, which is not
            the same as "".
        key: what selectors by key hash; it is not sent.
    """

    topic: str
    body: bytes
    attribute: str | None = None
    key: bytes | str | None = None


class SendResult(NamedTuple):
    """Stored. `offset` is in bytes, -1 while in a transaction or parked locally;
    `message_id` is 0 when parked locally."""

    message_id: int
    partition: PartitionName
    offset: int


class ReceivedMessage(NamedTuple):
    """One message of a partition.

    `offset` is where it begins and `next_offset` where the next one does, in bytes.
    """

    topic: str
    partition: PartitionName
    offset: int
    next_offset: int
    message_id: int
    flag: int
    payload: bytes

    def __repr__(self) -> str:
        """Without most of a large payload: events have messages, and are logged."""
        size_bytes = len(self.payload)
        payload = repr(self.payload[:MOST_SHOWN_BYTES])
        if size_bytes > MOST_SHOWN_BYTES:
            payload += f"... of {size_bytes} bytes"
        return (
            f"ReceivedMessage(topic={self.topic!r}, partition={self.partition},"
            f" offset={self.offset}, next_offset={self.next_offset},"
            f" message_id={self.message_id}, flag={self.flag}, payload={payload})"
        )

    @property
    def attribute(self) -> str | None:
        """The attribute, None for none; raises ValueError when it is malformed."""
        return split_payload(self.flag, self.payload)[0]

    @property
    def body(self) -> bytes:
        """The payload without attribute; raises ValueError when that is malformed."""
        return split_payload(self.flag, self.payload)[1]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: PartitionName

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"
