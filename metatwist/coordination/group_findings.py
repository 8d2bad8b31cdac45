"""What an operator would want to know about a consumer group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from metatwist.coordination.group_view import (
    Finding,
    MemberView,
    OffsetState,
    PartitionView,
    Position,
    TopicView,
    Trouble,
)
from metatwist.coordination.unreadable import Unreadable


def findings_of(
    members: Sequence[MemberView], topics: Sequence[TopicView], owning: bool
) -> tuple[Finding, ...]:
    """All troubles of a group; `owning` says that its members should own partitions."""
    found = list(_of_members(members, owning))
    for topic in topics:
        found += _of_topic(topic, owning)
    return tuple(found)


def unreadable_registration(topic: str, node: str, problem: Unreadable) -> Finding:
    """Consumers take the broker `node` for one without partitions of the topic."""
    return Finding(
        Trouble.REGISTRATION_UNREADABLE,
        f"consumers cannot use {node} for {topic}: {problem.text!r} {problem.reason}",
        topic=topic,
    )


def _of_members(members: Sequence[MemberView], owning: bool) -> Iterator[Finding]:
    for one in members:
        if one.problem is not None:
            detail = f"the topics of {one.id} cannot be read: {one.problem}"
            yield Finding(Trouble.MEMBER_UNREADABLE, detail, member=one.id)
        elif owning and not one.owned_partitions:
            wants = ", ".join(one.topics) or "no topic"
            detail = f"{one.id} owns no partition; it subscribes to {wants}"
            yield Finding(Trouble.IDLE_MEMBER, detail, member=one.id)


def _of_topic(topic: TopicView, owning: bool) -> Iterator[Finding]:
    name = topic.topic
    if topic.subscribers and not topic.offered_by:
        detail = f"{name} is subscribed to, but no broker offers it"
        yield Finding(Trouble.NO_SUCH_TOPIC, detail, topic=name)
    for one in topic.partitions:
        for trouble, detail in _of_partition(topic, one, owning):
            sentence = f"{name} {one.name}: {detail}"
            yield Finding(
                trouble, sentence, topic=name, partition=one.name, member=one.owner
            )


def _of_partition(
    topic: TopicView, one: PartitionView, owning: bool
) -> Iterator[tuple[Trouble, str]]:
    wanted = bool(topic.subscribers)
    if one.owner is None and one.registered and wanted and owning:
        yield Trouble.NO_OWNER, "nobody consumes it"
    if one.owner_is_member is False:
        yield Trouble.UNKNOWN_OWNER, f"its owner {one.owner} is not a member"
    if wanted and topic.offered_by and not one.registered:
        yield Trouble.NO_SUCH_PARTITION, "no broker offers it now"
    yield from _of_position(one.position)


def _of_position(position: Position) -> Iterator[tuple[Trouble, str]]:
    if position.state is OffsetState.UNREADABLE:
        detail = f"the committed offset {position.raw!r} cannot be read"
        yield Trouble.OFFSET_UNREADABLE, detail
    if position.record is None:
        return
    offset = position.record.offset
    if position.state is OffsetState.ABOVE_END:
        detail = f"{offset} is committed, but the log ends at {position.log_end}"
        yield Trouble.OFFSET_ABOVE_END, detail
    if position.state is OffsetState.BELOW_START:
        detail = (
            f"{offset} is committed, but the log begins at {position.log_start}: "
            f"{position.skipped_bytes} bytes are lost to this group"
        )
        yield Trouble.OFFSET_BELOW_START, detail
