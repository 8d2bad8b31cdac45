"""The admin verbs over a live broker (spec configuration-and-operations 10).

The control socket serves them; a dashboard calls the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from attrs import frozen
from twisted.internet.defer import Deferred

from metatwist.broker.admin_request import Parameter, Verb
from metatwist.broker.group_queries import GroupQueries
from metatwist.broker.metrics import BrokerCollector
from metatwist.broker.moving import Moving
from metatwist.broker.operations import Operations
from metatwist.broker.stats import Stats
from metatwist.broker.status import Status
from metatwist.broker.topics import Topics
from metatwist.errors import AdminError


class IBroker(Protocol):
    """What the verbs need of the broker as a whole."""

    def reload(self) -> object:
        """Read the configuration again."""

    def request_stop(self) -> str:
        """Stop soon."""


@frozen
class Views:
    """What can be asked of the broker without changing it."""

    stats: Stats
    status: Status
    metrics: BrokerCollector
    groups: GroupQueries


_TOPIC = Parameter("topic", str, "the topic")
_FIRST = Parameter("first", int, "the first partition")
_LAST = Parameter("last", int, "the last partition, included")
_ONE_TOPIC = Parameter("topic", str, "only this topic", required=False)


class AdminVerbs:
    """Every verb once, as a method that returns a JSON value or a Deferred of one."""

    def __init__(
        self,
        broker: IBroker,
        operations: Operations,
        topics: Topics,
        views: Views,
        moving: Moving,
    ) -> None:
        self._broker = broker
        self._operations = operations
        self._topics = topics
        self._stats = views.stats
        self._status = views.status
        self._metrics = views.metrics
        self._groups = views.groups
        self._moving = moving

    def table(self) -> dict[str, Verb]:
        """The verbs by name."""
        span = (_TOPIC, _FIRST, _LAST)
        force = Parameter("force", bool, "asked and confirmed", False, False)
        shift = Parameter("offset", int, "added to each partition number")
        item = Parameter("item", str, "an item of `stats`", required=False, default="")
        partition = Parameter("partition", int, "the partition")
        time_ms = Parameter("time_ms", int, "milliseconds since 1970")
        group = Parameter("group", str, "only this group, in full", required=False)
        one = Parameter("first", int, "the first partition", required=False)
        last = Parameter("last", int, "the last one, included", required=False)
        broker, operations = self._broker, self._operations
        verbs = [
            Verb("close-partitions", "refuse puts and gets", span, self.close),
            Verb("open-partitions", "allow them again", (_TOPIC, one, last), self.open),
            Verb("delete-partitions", "remove data", (*span, force), self.delete),
            Verb("move-partitions", "renumber", (*span, shift), self._moving.move),
            Verb("reload", "read the configuration again", (), broker.reload),
            Verb("flush", "sync what is written", (_ONE_TOPIC,), operations.flush),
            Verb("retain", "run retention now", (_ONE_TOPIC,), operations.retain),
            Verb("stats", "an item of the wire's stats", (item,), self.stats),
            Verb("status", "the broker's state", (), self._status.status),
            Verb("metrics", "numbers for Prometheus", (), self._metrics.text),
            Verb("groups", "consumer groups and lag", (group,), self._groups.groups),
            Verb("recovery", "what the start found", (), self._status.recovery),
            Verb(
                "offset-at",
                "the first message at or after a time",
                (_TOPIC, partition, time_ms),
                operations.offset_at,
            ),
            Verb("stop", "stop in order", (), broker.request_stop),
        ]
        return {verb.name: verb for verb in verbs}

    def close(self, topic: str, first: int, last: int) -> object:
        """Answer 403 to puts and gets; forgotten at a restart, kept at a reload."""
        self._check(topic, first, last)
        return self._change(topic, first, last, self._topics.closed.add)

    def open(self, topic: str, first: int | None, last: int | None) -> object:
        """Open partitions again, all closed ones of the topic by default."""
        if (first is None) != (last is None):
            raise AdminError("give both the first and the last partition, or neither")
        if first is None or last is None:
            numbers = self._closed(topic)
            first, last = min(numbers, default=0), max(numbers, default=-1)
        else:
            check_span(first, last)
        return self._change(topic, first, last, self._topics.closed.discard)

    def _change(
        self, topic: str, first: int, last: int, change: Callable[[Any], None]
    ) -> object:
        for partition in range(first, last + 1):
            change((topic, partition))
        self._topics.changed()
        return {"topic": topic, "closed": self._closed(topic)}

    def _closed(self, topic: str) -> list[int]:
        return sorted(number for name, number in self._topics.closed if name == topic)

    def _check(self, topic: str, first: int, last: int) -> None:
        if not self._topics.accepts(topic) and topic not in self._topics.names():
            known = ", ".join(self._topics.names()[:20])
            raise AdminError(f"no topic {topic!r}; there are: {known}")
        check_span(first, last)
        highest = self._highest(topic)
        if last > highest:
            raise AdminError(
                f"partitions {first} to {last}: the last one of {topic} is {highest}"
            )

    def _highest(self, topic: str) -> int:
        """The highest partition that is configured or stored."""
        stored = max(self._topics.catalog.partitions_of(topic), default=0)
        if not self._topics.accepts(topic):
            return stored
        return max(stored, self._topics.partition_count(topic) - 1)

    def delete(self, topic: str, first: int, last: int, force: bool) -> Deferred[Any]:
        """Remove partitions with all their messages."""
        check_span(first, last)
        if not force:
            raise AdminError("deleting cannot be undone: confirm with force")
        return self._moving.delete(topic, first, last)

    def stats(self, item: str) -> object:
        """The text of a `stats` item."""
        _, body = self._stats.answer(item)
        return body.decode("utf-8", "replace")


def check_span(first: int, last: int) -> None:
    """Raises AdminError unless 0 <= first <= last, and not absurdly many."""
    if not 0 <= first <= last:
        raise AdminError(f"partitions {first} to {last}: needs 0 <= first <= last")
    if last - first > 100_000:
        raise AdminError(f"partitions {first} to {last}: more than 100,000 at once")
