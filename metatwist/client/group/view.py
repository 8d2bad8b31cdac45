"""Who is in a group and which partitions there are to share (spec layout 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from attrs import frozen
from twisted.internet.defer import inlineCallbacks
from twisted.logger import Logger

from metatwist.client.group.shares import share_by
from metatwist.client.group.waiting import all_of
from metatwist.client.group.watched_reads import WatchedReads
from metatwist.client.message import TopicPartition
from metatwist.client.settings import Strategy
from metatwist.coordination.errors import NodeExists
from metatwist.coordination.formats import read_partition_count, read_topics
from metatwist.coordination.layout import Layout, TopicTree
from metatwist.coordination.names import NodeName, PartitionName, is_path_element
from metatwist.coordination.unreadable import Unreadable

_TREE = TopicTree.SUBSCRIBE


@frozen
class GroupPicture:
    """The topics of each member by consumer id, and the partitions of each of my
    topics."""

    members: Mapping[str, frozenset[str]]
    partitions: Mapping[str, frozenset[PartitionName]]

    def share(self, me: str, strategy: Strategy) -> frozenset[TopicPartition]:
        """What a member should hold: of each topic, its share among the topic's
        subscribers."""
        found: set[TopicPartition] = set()
        for topic, partitions in self.partitions.items():
            subscribers = [one for one, its in self.members.items() if topic in its]
            mine = share_by(strategy)(me, subscribers, partitions)
            found.update(TopicPartition(topic, one) for one in mine)
        return frozenset(found)


class GroupReader:
    """Reads pictures of a group; `changed` is called when the last one is old."""

    _log = Logger()

    def __init__(
        self,
        coordinator: Any,
        layout: Layout,
        group: str,
        topics: Iterable[str],
        changed: Callable[[], object],
    ) -> None:
        self._coordinator = coordinator
        self._layout = layout
        self._group = group
        self._topics = sorted(topics)
        self._reads = WatchedReads(coordinator, changed)
        self._warned: set[tuple[str, str]] = set()

    def forget(self) -> None:
        """Read everything anew next time: watches may have been lost."""
        self._reads.forget()

    @inlineCallbacks
    def read(self) -> Any:
        """Fires with a GroupPicture; fails with CoordinationErrors. One at a time."""
        self._reads.begin()
        members, *partitions = yield all_of(
            [self._members(), *map(self._partitions, self._topics)]
        )
        self._reads.end()
        return GroupPicture(members, dict(zip(self._topics, partitions, strict=True)))

    @inlineCallbacks
    def _members(self) -> Any:
        listed = yield self._reads.children(self._layout.members(self._group))
        names = [name for name in listed or () if is_path_element(name)]
        paths = [self._layout.member(self._group, name) for name in names]
        found = yield all_of(map(self._reads.data, paths))
        members = {}
        for name, path, data in zip(names, paths, found, strict=True):
            topics = None if data is None else read_topics(data)
            if isinstance(topics, Unreadable):
                self._warn(path, topics)
            elif topics is not None:
                members[name] = topics
        return members

    @inlineCallbacks
    def _partitions(self, topic: str) -> Any:
        listed = yield self._brokers(topic)
        nodes = [node for node in map(NodeName.parse, listed) if node is not None]
        paths = [self._layout.topic_node(_TREE, topic, node) for node in nodes]
        found = yield all_of(map(self._reads.data, paths))
        partitions: set[PartitionName] = set()
        for node, path, data in zip(nodes, paths, found, strict=True):
            count = None if data is None else read_partition_count(_TREE, data)
            if isinstance(count, Unreadable):
                self._warn(path, count)
            else:
                numbers = range(count or 0)
                partitions.update(PartitionName(node.broker_id, n) for n in numbers)
        return frozenset(partitions)

    @inlineCallbacks
    def _brokers(self, topic: str) -> Any:
        """The children of the topic's directory, which is made so that it can be
        watched, as Java does it."""
        path = self._layout.topic_dir(_TREE, topic)
        listed = yield self._reads.children(path)
        if listed is None:
            with suppress(NodeExists):
                yield self._coordinator.create(path, make_parents=True)
            listed = yield self._reads.children(path)
        return listed or []

    def _warn(self, path: str, found: Unreadable) -> None:
        if (path, found.text) not in self._warned:
            self._warned.add((path, found.text))
            self._log.warn(
                "left out of the sharing: {path} {reason}: {text!r}",
                path=path,
                reason=found.reason,
                text=found.text,
            )
