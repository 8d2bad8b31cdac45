"""What a master registers for its clients, as pure functions (spec layout 3.3, 9.1).

An `Offer` says for one topic how many partitions each of the three trees shows; nodes
follow from offers. Nothing here asks what is registered.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from metatwist.broker.settings import BrokerSettings, TopicSettings
from metatwist.broker.settings.coordination import tree_settings
from metatwist.broker.topics import Topics
from metatwist.coordination.formats import TopicRegistration
from metatwist.coordination.layout import Layout, TopicTree
from metatwist.coordination.names import NodeName, path_element_problem


@frozen
class Stored:
    """What is stored of a topic: partitions below `end`, and whether one of them can't
    be used."""

    end: int
    failed: bool


@frozen
class Offer:
    """Partitions of one topic in each tree; None where the broker is not to be seen."""

    old: int | None
    publish: int | None
    subscribe: int | None

    def in_tree(self, tree: TopicTree) -> int | None:
        """The number of partitions that a tree shows."""
        return {
            TopicTree.OLD: self.old,
            TopicTree.PUBLISH: self.publish,
            TopicTree.SUBSCRIBE: self.subscribe,
        }[tree]


NOTHING = Offer(None, None, None)
_NOT_STORED = Stored(0, False)


def stored_topics(topics: Topics) -> dict[str, Stored]:
    """What the catalog holds, partitions that could not be loaded included."""
    ends: dict[str, int] = {}
    failed = {name for name, _ in topics.catalog.failed}
    for name, number in topics.catalog.failed:
        ends[name] = max(ends.get(name, 0), number + 1)
    for (name, number), log in topics.catalog.logs.items():
        ends[name] = max(ends.get(name, 0), number + 1)
        if log.failure is not None:
            failed.add(name)
    return {name: Stored(end, name in failed) for name, end in ends.items()}


def offers(
    settings: BrokerSettings, stored: Mapping[str, Stored]
) -> tuple[dict[str, Offer], dict[str, str]]:
    """The offer of each topic that is configured or stored, sorted by name; and why
    names cannot be registered.

    The literal text of a wildcard section is registered as well, as Java does.
    """
    found: dict[str, Offer] = {}
    unfit: dict[str, str] = {}
    for name in sorted({*settings.topics, *stored}):
        problem = path_element_problem(name)
        if problem is not None:
            unfit[name] = problem
            continue
        its = settings.topics.get(name) or settings.section_for(name)
        found[name] = _offer(its, settings.defaults, stored.get(name, _NOT_STORED))
    return found, unfit


def _offer(its: TopicSettings | None, defaults: TopicSettings, stored: Stored) -> Offer:
    if its is None:  # its section is gone: puts are refused, what is there can be read
        return Offer(None, None, stored.end if defaults.accept_subscribe else None)
    count = its.num_partitions
    subscribe = max(count, stored.end) if its.accept_subscribe else None
    if stored.failed:  # spec replication S5, B2
        return Offer(None, None, subscribe)
    return Offer(count, count if its.accept_publish else None, subscribe)


@frozen
class Names:
    """Where the nodes of one master are."""

    layout: Layout
    broker_id: int

    @classmethod
    def of(cls, settings: BrokerSettings) -> Names:
        """Those of the broker with these settings."""
        return cls(Layout(tree_settings(settings).root), settings.broker_id)

    @property
    def broker(self) -> str:
        """The broker's directory."""
        return self.layout.broker(self.broker_id)

    @property
    def master(self) -> str:
        """The node of a living master."""
        return self.layout.master(self.broker_id)

    @property
    def checksum(self) -> str:
        """The node of the configuration's checksum."""
        return self.layout.checksum(self.broker_id)

    def topic_nodes(self, topic: str, offer: Offer) -> dict[str, bytes | None]:
        """What each of the topic's three nodes holds, in the order in which they are
        made; None for one that shall not be."""
        name = NodeName(self.broker_id)
        nodes: dict[str, bytes | None] = {}
        for tree in TopicTree:
            count = offer.in_tree(tree)
            data = None
            if count is not None:
                data = TopicRegistration(count, name).encode(tree)
            nodes[self.layout.topic_node(tree, topic, name)] = data
        return nodes
