"""What the trees of brokers and topics say (spec layout 3, 5.1, 5.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import Factory, define, frozen
from twisted.logger import Logger

from metatwist.client.discovery.addresses import normalised_url
from metatwist.client.discovery.waiting import together
from metatwist.client.discovery.watched_tree import WatchedTree
from metatwist.client.interfaces import PublishRoutes
from metatwist.client.znodes import Key
from metatwist.coordination.broker_url import read_broker_url
from metatwist.coordination.formats import read_partition_count
from metatwist.coordination.layout import Layout, TopicTree
from metatwist.coordination.names import NodeName, PartitionName, producer_order
from metatwist.coordination.unreadable import Unreadable

_SLAVE = re.compile("slave(0|[1-9][0-9]{0,9})")
_MOST_REMEMBERED = 1000
_log = Logger()


@define
class Warnings:
    """Says of each node once what is wrong with it, and again when that changes."""

    _said: dict[str, str] = Factory(dict)

    def say(self, path: str, problem: Unreadable) -> None:
        """Warn that a node is left out."""
        text = f"{problem.text!r} {problem.reason}"
        if self._said.get(path) == text:
            return
        if len(self._said) >= _MOST_REMEMBERED:
            del self._said[next(iter(self._said))]
        self._said[path] = text
        _log.warn("left out {path}: {text}", path=path, text=text)

    def withdraw(self, path: str) -> None:
        """The node is fine, or gone."""
        self._said.pop(path, None)


@frozen
class TreeReading:
    """One look at the tree, many requests at once.

    `used` collects the nodes that the answer depends on, before they are read. All
    raise CoordinationError. A node that vanishes meanwhile, or cannot be read, is left
    out; that of a broker with a bad address is as good as none.
    """

    tree: WatchedTree
    layout: Layout
    warnings: Warnings
    used: set[Key]

    async def routes(self, topic: str) -> PublishRoutes | None:
        """Where a topic can be sent to: masters with an address, by `<id>-m` nodes.
        None when the topic has no directory."""
        names = await self._children(self.layout.topic_dir(TopicTree.PUBLISH, topic))
        if names is None:
            return None
        nodes = [one for one in map(NodeName.parse, names) if one and one.slave is None]
        offers = await together(self._offer(topic, node) for node in nodes)
        served = [(node, *offer) for node, offer in zip(nodes, offers, strict=True)]
        return PublishRoutes(
            topic,
            tuple(
                producer_order(
                    partition
                    for node, count, url in served
                    if url is not None
                    for partition in _partitions(node, count)
                )
            ),
            {node.broker_id: url for node, count, url in served if url and count},
        )

    async def partitions(self, topic: str) -> tuple[PartitionName, ...]:
        """What consumers may read: of a master and its slaves, the larger count."""
        tree = TopicTree.SUBSCRIBE
        names = await self._children(self.layout.topic_dir(tree, topic))
        nodes = list(filter(None, map(NodeName.parse, names or ())))
        counts = await together(self._count(tree, topic, node) for node in nodes)
        found: set[PartitionName] = set()
        for node, count in zip(nodes, counts, strict=True):
            found.update(_partitions(node, count))
        return tuple(producer_order(found))

    async def readers(self, broker_id: int) -> tuple[str, ...]:
        """The master's address, else those of its slaves."""
        master = await self._url(self.layout.master(broker_id))
        if master is not None:
            return (master,)
        names = await self._children(self.layout.broker(broker_id)) or ()
        slaves = [int(found[1]) for found in map(_SLAVE.fullmatch, names) if found]
        urls = await together(
            self._url(self.layout.slave(broker_id, number)) for number in slaves
        )
        return tuple(dict.fromkeys(url for url in urls if url is not None))

    async def _offer(self, topic: str, node: NodeName) -> tuple[int, str | None]:
        url, count = await together(
            (
                self._url(self.layout.master(node.broker_id)),
                self._count(TopicTree.PUBLISH, topic, node),
            )
        )
        assert isinstance(count, int)
        assert url is None or isinstance(url, str)
        return count, url

    async def _count(self, tree: TopicTree, topic: str, node: NodeName) -> int:
        path = self.layout.topic_node(tree, topic, node)
        data = await self._data(path)
        count = None if data is None else read_partition_count(tree, data)
        if isinstance(count, Unreadable):
            self.warnings.say(path, count)
            return 0
        self.warnings.withdraw(path)
        return count or 0

    async def _url(self, path: str) -> str | None:
        data = await self._data(path)
        found = None if data is None else read_broker_url(data)
        if isinstance(found, Unreadable):
            self.warnings.say(path, found)
            return None
        try:
            url = None if found is None else str(normalised_url(found))
        except ValueError as error:
            self.warnings.say(path, Unreadable.of(data or b"", str(error)))
            return None
        self.warnings.withdraw(path)
        return url

    async def _children(self, path: str) -> list[str] | None:
        self.used.add((path, True))
        return await self.tree.children(path)

    async def _data(self, path: str) -> bytes | None:
        self.used.add((path, False))
        return await self.tree.data(path)


def _partitions(node: NodeName, count: int) -> Iterable[PartitionName]:
    return (PartitionName(node.broker_id, number) for number in range(count))
