"""What is known of a consumer group: frozen values for dashboards and scripts.

All convert to JSON by `attrs.asdict`. Times are ms since 1970, lags and offsets bytes.
What is not known is None, never 0.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from metatwist.coordination.formats import OffsetRecord


class OffsetState(str, Enum):
    """How a committed offset lies to its log.

    ABSENT: nothing is committed, the consumer begins at an offset of its own choice;
    UNREADABLE: there is text that is no offset record; UNCHECKED: the log is not known
    here; BELOW_START: retention was faster, the consumer jumps to the start; ABOVE_END:
    the log lost data, or a record is wrong, and the consumer waits in silence.
    """

    ABSENT = "absent"
    UNREADABLE = "unreadable"
    UNCHECKED = "unchecked"
    WITHIN = "within"
    BELOW_START = "below start"
    ABOVE_END = "above end"


@frozen
class Position:
    """A group's place in the log of a partition.

    `raw` is the text of an unreadable record. `lag_bytes` is what is still to be read,
    None where that cannot be told, above the end as well. `skipped_bytes` were deleted
    before the group read them.
    """

    state: OffsetState
    record: OffsetRecord | None = None
    raw: str | None = None
    committed_ms: int | None = None
    log_start: int | None = None
    log_end: int | None = None
    lag_bytes: int | None = None
    skipped_bytes: int = 0


@frozen
class PartitionView:
    """A partition of a topic, seen by a group.

    `registered`: some broker offers it now, else it has only an owner or an offset
    from another time. `owner` is a consumer id; `owner_is_member` is None without one.
    """

    name: str
    broker_id: int
    partition: int
    registered: bool
    owner: str | None
    owner_is_member: bool | None
    position: Position


@frozen
class Lag:
    """Bytes still to be read over several partitions.

    `total_bytes` is None unless all of it is known; `known_bytes` is the sum of what
    is, beside `unknown_partitions` that it leaves out. Partitions that no broker has
    registered cannot be counted: then the total is None with nothing unknown.
    """

    total_bytes: int | None
    known_bytes: int
    unknown_partitions: int


@frozen
class TopicView:
    """A topic that a group subscribes to, or did.

    `subscribers` are consumer ids; `offered_by` are the brokers, as `0-m` or `0-s1`,
    that let it be consumed now, none if it does not exist. Partitions are in the
    order of their numbers.
    """

    topic: str
    subscribers: tuple[str, ...]
    offered_by: tuple[str, ...]
    partitions: tuple[PartitionView, ...]
    lag: Lag


@frozen
class MemberView:
    """A living consumer; `problem` says why its topics could not be read."""

    id: str
    topics: tuple[str, ...]
    since_ms: int
    owned_partitions: int
    problem: str | None = None


class Trouble(str, Enum):
    """What an operator would want to look at."""

    NO_OWNER = "partition without an owner"
    UNKNOWN_OWNER = "owner is not a member"
    IDLE_MEMBER = "member owns nothing"
    NO_SUCH_TOPIC = "no broker offers the topic"
    NO_SUCH_PARTITION = "no broker offers the partition"
    OFFSET_ABOVE_END = "committed offset above the end of the log"
    OFFSET_BELOW_START = "committed offset below the start of the log"
    OFFSET_UNREADABLE = "committed offset cannot be read"
    MEMBER_UNREADABLE = "topics of a member cannot be read"
    REGISTRATION_UNREADABLE = "registration of a broker cannot be read"


@frozen
class Finding:
    """One trouble, where it is, and a sentence on it.

    A tree is read while it changes: one that is gone at the next look was a rebalance.
    """

    trouble: Trouble
    detail: str
    topic: str | None = None
    partition: str | None = None
    member: str | None = None


@frozen
class GroupSummary:
    """One line on a group; all but name and lag are counts."""

    name: str
    members: int
    topics: int
    partitions: int
    findings: int
    lag: Lag


@frozen
class GroupView:
    """A consumer group.

    `replication`: by its name these are slave brokers, which own and commit nothing.
    Members are in the order that rebalancing uses, topics by name.
    """

    name: str
    replication: bool
    members: tuple[MemberView, ...]
    topics: tuple[TopicView, ...]
    lag: Lag
    findings: tuple[Finding, ...]

    def summary(self) -> GroupSummary:
        """The line on it."""
        return GroupSummary(
            name=self.name,
            members=len(self.members),
            topics=len(self.topics),
            partitions=sum(len(topic.partitions) for topic in self.topics),
            findings=len(self.findings),
            lag=self.lag,
        )
