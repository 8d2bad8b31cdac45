"""What an offset storage is; write your own against this and its contract tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import field, frozen
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from metatwist.client.errors import ClientError
from metatwist.client.message import TopicPartition
from metatwist.coordination.formats import OffsetRecord


def _always() -> bool:
    return True


@frozen
class Claim:
    """A consumer's right to a partition, which commits are fenced by.

    Attributes:
        consumer: the consumer id, `<group>_<unique>`, as the owner node says.
        session_id: of the coordinator's session of the owner node, 0 for none.
        holds: whether the claim can still be proven by this consumer's own clock; asked
            right before each write.
    """

    consumer: str
    session_id: int = 0
    holds: Callable[[], bool] = field(default=_always, eq=False, repr=False)


@frozen
class Commit:
    """One offset to be stored: of `record.offset`, all messages before it are done."""

    partition: TopicPartition
    record: OffsetRecord
    claim: Claim


CommitOutcome = Mapping[TopicPartition, ClientError | None]
"""For each partition None, or why it was not stored: `NotOwner` when the claim does not
hold, `OffsetStorageFailed` otherwise."""


class IOffsetStorage(Interface):
    """Offsets of one consumer group, by topic and partition.

    All Deferreds fire exactly once, on the reactor's thread. Cancelling one stops the
    wait, not the write. After `close` all fail with `ClientStopped`.
    """

    description = Attribute("str: where the offsets are, for people")

    def load(partition: TopicPartition, claim: Claim) -> Deferred[OffsetRecord | None]:
        """The stored offset, None when there is none. Fails with OffsetStorageFailed,
        also when what is stored cannot be read."""

    def commit(commits: tuple[Commit, ...]) -> Deferred[CommitOutcome]:
        """Store offsets, creating what is missing; never fails as a whole. A partition
        is at most once in `commits`. An offset may go back: a user has sought."""

    def close() -> Deferred[None]:
        """Let go of files and connections, after the writes under way."""
