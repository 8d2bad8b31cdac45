"""What a fake broker holds: topics, their partitions, what is closed, and counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from attrs import define, field

from metatwist.errors import (
    PartitionClosed,
    PartitionMissing,
    TopicRefused,
    WrongPartition,
)
from metatwist.message_times import EPOCH_MS, SEQUENCE_BITS, TIME_SHIFT
from metatwist.testing.partition import FakePartition

BROKER_CHOOSES = -1
_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1


@define
class Counters:
    """As `stats` tells them (spec wire-protocol 3.7)."""

    cmd_put: int = 0
    cmd_get: int = 0
    cmd_offset: int = 0
    get_miss: int = 0
    put_failed: int = 0


class RisingIds:
    """Message ids (spec wire-protocol 2.4), positive even if the clock begins at 0."""

    def __init__(self, broker_id: int, seconds: Callable[[], float]) -> None:
        self._worker = broker_id << SEQUENCE_BITS
        self._seconds = seconds
        self._last = 0

    def next(self) -> int:
        """An id above all before."""
        elapsed_ms = max(int(self._seconds() * 1000) - EPOCH_MS, 1)
        found = max(self._last + 1, elapsed_ms << TIME_SHIFT | self._worker)
        if found == self._last + 1 and not found & _SEQUENCE_MASK:
            found = ((self._last >> TIME_SHIFT) + 1) << TIME_SHIFT | self._worker
        self._last = found
        return found


@define
class FakeStore:
    """Topics and partitions of one broker; `changed` is called after each change.

    A partition is there from its first put on, as a broker's is.
    """

    broker_id: int
    topics: dict[str, int]
    ids: RisingIds
    segment_bytes: int
    partitions: dict[tuple[str, int], FakePartition] = field(factory=dict)
    closed: set[tuple[str, int]] = field(factory=set)
    counters: Counters = field(factory=Counters)
    changed: Callable[[], object] = lambda: None
    _turns: count[int] = field(factory=count)

    @classmethod
    def of(
        cls,
        broker_id: int,
        topics: Mapping[str, int],
        segment_bytes: int,
        seconds: Callable[[], float],
    ) -> FakeStore:
        """An empty one; `topics` are numbers of partitions by name."""
        ids = RisingIds(broker_id, seconds)
        return cls(broker_id, dict(topics), ids, segment_bytes)

    def closed_text(self, partition: int) -> str:
        """The words of spec wire-protocol 3.2, step 2."""
        return f"partition[{self.broker_id}-{partition}] has been closed"

    def choose(self, topic: str) -> int:
        """The partition of a put to -1: the open ones in turn."""
        numbers = range(self._count(topic))
        writable = [one for one in numbers if (topic, one) not in self.closed]
        if not writable:
            raise PartitionClosed(self.closed_text(BROKER_CHOOSES))
        return writable[next(self._turns) % len(writable)]

    def _count(self, topic: str) -> int:
        if topic not in self.topics:
            raise TopicRefused(topic)
        return self.topics[topic]

    def check(self, topic: str, partition: int) -> None:
        """Raises TopicRefused or WrongPartition for what no put may go to."""
        partitions = self._count(topic)
        if not 0 <= partition < partitions:
            raise WrongPartition(partition)

    def for_put(self, topic: str, partition: int) -> FakePartition:
        """A partition, made when it is not there; raises as `check`."""
        self.check(topic, partition)
        key = topic, partition
        if key not in self.partitions:
            self.partitions[key] = FakePartition(self.segment_bytes)
        return self.partitions[key]

    def for_read(self, topic: str, partition: int) -> FakePartition:
        """A partition; raises PartitionMissing where nothing is stored."""
        found = self.partitions.get((topic, partition))
        if found is None:
            raise PartitionMissing(topic, partition)
        return found

    def append(
        self, topic: str, partition: int, flag: int, payload: bytes
    ) -> tuple[int, int]:
        """Store a message; (id, offset). Raises as `check`."""
        message_id = self.ids.next()
        offset = self.for_put(topic, partition).append(message_id, flag, payload)
        self.changed()
        return message_id, offset
