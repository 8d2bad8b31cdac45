"""What a consumer tells its user beside messages: frozen values, one a happening.

A consumer calls `on_event` with each, on the reactor's thread; an exception from there
is logged. All are logged as well.
"""

from __future__ import annotations

from attrs import frozen

from metatwist.client.errors import ClientError
from metatwist.client.message import ReceivedMessage, TopicPartition


@frozen
class Assigned:
    """Partitions are now this consumer's, and are being read."""

    partitions: tuple[TopicPartition, ...]


@frozen
class Revoked:
    """Partitions are no more this consumer's; `lost` without having been given back,
    so that what was not committed will be delivered again."""

    partitions: tuple[TopicPartition, ...]
    lost: bool


@frozen
class OffsetJumped:
    """Reading goes on at `to_offset` (bytes), for a reason: `start`, `deleted` (by
    retention), `beyond the end`, `corrupt`, `sought`, `moved` (as the broker said)."""

    partition: TopicPartition
    from_offset: int | None
    to_offset: int
    reason: str


@frozen
class PartitionStopped:
    """Nothing more is read from the partition until it is sought or assigned anew."""

    partition: TopicPartition
    error: ClientError


@frozen
class FetchFailed:
    """A fetch failed for the `failures`th time in a row; it will be tried again."""

    partition: TopicPartition
    error: ClientError
    failures: int


@frozen
class DeliveryFailed:
    """A listener failed on a message, `failures` times now; it is delivered again."""

    message: ReceivedMessage
    error: ClientError
    failures: int


@frozen
class Rejected:
    """A message failed too often; `outcome` says where it went."""

    message: ReceivedMessage
    outcome: str


@frozen
class RejectionFailed:
    """Where rejected messages go did not take one, `failures` times now; it is tried
    again, and the partition waits."""

    message: ReceivedMessage
    error: ClientError
    failures: int


@frozen
class FilterFailed:
    """The filter raised, so that the message was skipped; told once a partition and
    kind of exception."""

    message: ReceivedMessage
    error: ClientError


@frozen
class CommitFailed:
    """An offset could not be stored; it is tried again, unless NotOwner."""

    partition: TopicPartition
    error: ClientError


@frozen
class GroupTrouble:
    """The consumer's place in its group is in doubt or contested; it goes on trying."""

    text: str


Event = (
    Assigned
    | Revoked
    | OffsetJumped
    | PartitionStopped
    | FetchFailed
    | DeliveryFailed
    | Rejected
    | RejectionFailed
    | FilterFailed
    | CommitFailed
    | GroupTrouble
)
