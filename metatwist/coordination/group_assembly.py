"""Makes the view of a consumer group from a copy of the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import Factory, define, evolve, frozen

from metatwist.coordination.formats import read_partition_count, read_topics
from metatwist.coordination.group_findings import findings_of, unreadable_registration
from metatwist.coordination.group_view import (
    Finding,
    GroupView,
    MemberView,
    PartitionView,
    TopicView,
)
from metatwist.coordination.interface import Data
from metatwist.coordination.layout import Layout, TopicTree
from metatwist.coordination.names import (
    NodeName,
    PartitionName,
    is_path_element,
    producer_order,
    string_order,
)
from metatwist.coordination.positions import (
    LogBounds,
    combined,
    lag_over,
    position_of,
)
from metatwist.coordination.tree_copy import TreeCopy
from metatwist.coordination.unreadable import Unreadable, text_of

REPLICATION_PREFIX = "meta-slave-group_"


@frozen
class _Offers:
    """What brokers offer of a topic; `findings` are registrations nobody can read."""

    nodes: tuple[str, ...]
    partitions: frozenset[PartitionName]
    findings: tuple[Finding, ...]


@define
class Assembly:
    """Makes views from one copy; what brokers offer is worked out once a topic."""

    layout: Layout
    copy: TreeCopy
    bounds: LogBounds
    _offers: dict[str, _Offers] = Factory(dict)

    def topics_of(self, group: str) -> set[str]:
        """The topics a group subscribes to, owns partitions or has offsets of."""
        return {
            *self._children(self.layout.owners(group)),
            *self._children(self.layout.offsets(group)),
            *(topic for one in self._members(group) for topic in one.topics),
        }

    def partitions_of(self, group: str, topic: str) -> set[PartitionName]:
        """The partitions of a topic with an owner or an offset in a group."""
        if not is_path_element(topic):
            return set()
        names = (
            *self._children(self.layout.owners_of(group, topic)),
            *self._children(self.layout.offsets_of(group, topic)),
        )
        return {found for name in names if (found := PartitionName.parse(name))}

    async def view(self, group: str) -> GroupView:
        """The view of a group, made at the pace of the copy."""
        members = self._members(group)
        topics = []
        for name in sorted(self.topics_of(group)):
            topic = self._topic(group, name, members)
            topics.append(topic)
            await self.copy.pacing.after(1 + len(topic.partitions))
        owned = Counter(one.owner for topic in topics for one in topic.partitions)
        counted = tuple(evolve(one, owned_partitions=owned[one.id]) for one in members)
        replication = group.startswith(REPLICATION_PREFIX)
        findings = findings_of(counted, topics, owning=not replication)
        offers = [self._offers_of(topic.topic) for topic in topics]
        return GroupView(
            name=group,
            replication=replication,
            members=counted,
            topics=tuple(topics),
            lag=combined(topic.lag for topic in topics),
            findings=(*findings, *(one for offer in offers for one in offer.findings)),
        )

    def _children(self, path: str) -> list[str]:
        return self.copy.children.get(path, [])

    def _members(self, group: str) -> list[MemberView]:
        names = self._children(self.layout.members(group))
        found = []
        for name in string_order(filter(is_path_element, names)):
            data = self.copy.data.get(self.layout.member(group, name))
            if data is not None:
                found.append(_member(name, data))
        return found

    def _topic(
        self, group: str, topic: str, members: Sequence[MemberView]
    ) -> TopicView:
        offers = self._offers_of(topic)
        known = {one.id for one in members}
        names = offers.partitions | self.partitions_of(group, topic)
        partitions = tuple(
            self._partition(group, topic, name, known) for name in producer_order(names)
        )
        complete = bool(partitions and offers.nodes) and not offers.findings
        return TopicView(
            topic=topic,
            subscribers=tuple(one.id for one in members if topic in one.topics),
            offered_by=offers.nodes,
            partitions=partitions,
            lag=lag_over((one.position for one in partitions), complete),
        )

    def _partition(
        self, group: str, topic: str, name: PartitionName, members: set[str]
    ) -> PartitionView:
        owner = self._owner(self.layout.owner(group, topic, name))
        offset = self.copy.data.get(self.layout.offset(group, topic, name))
        bounds = self.bounds.bounds(name.broker_id, topic, name.partition)
        return PartitionView(
            name=str(name),
            broker_id=name.broker_id,
            partition=name.partition,
            registered=name in self._offers_of(topic).partitions,
            owner=owner,
            owner_is_member=None if owner is None else owner in members,
            position=position_of(offset, bounds),
        )

    def _owner(self, path: str) -> str | None:
        data = self.copy.data.get(path)
        text = None if data is None else text_of(data[0])
        return text.text if isinstance(text, Unreadable) else text

    def _offers_of(self, topic: str) -> _Offers:
        found = self._offers.get(topic)
        if found is None:
            found = self._offers[topic] = self._read_offers(topic)
        return found

    def _read_offers(self, topic: str) -> _Offers:
        """The union over masters and slaves (spec layout 5.3)."""
        nodes: list[str] = []
        partitions: set[PartitionName] = set()
        findings = []
        tree = TopicTree.SUBSCRIBE
        if not is_path_element(topic):
            return _Offers((), frozenset(), ())
        names = self._children(self.layout.topic_dir(tree, topic))
        for node in filter(None, map(NodeName.parse, names)):
            data = self.copy.data.get(self.layout.topic_node(tree, topic, node))
            if data is None:
                continue
            count = read_partition_count(tree, data[0])
            if isinstance(count, Unreadable):
                findings.append(unreadable_registration(topic, str(node), count))
            elif count:
                nodes.append(str(node))
                partitions.update(
                    PartitionName(node.broker_id, number) for number in range(count)
                )
        return _Offers(tuple(nodes), frozenset(partitions), tuple(findings))


def _member(name: str, data: Data) -> MemberView:
    topics = read_topics(data[0])
    if isinstance(topics, Unreadable):
        return MemberView(name, (), data[1].ctime, 0, topics.reason)
    return MemberView(name, tuple(sorted(topics)), data[1].ctime, 0)
