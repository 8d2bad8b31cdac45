"""Owner nodes: the only thing that keeps two consumers from one partition (spec layout
9.2). They are made, looked at and deleted here, never overwritten."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks

from metatwist.client.message import TopicPartition
from metatwist.coordination.errors import NodeExists, NoNode
from metatwist.coordination.interface import NodeEvent
from metatwist.coordination.layout import Layout
from metatwist.coordination.unreadable import Unreadable, text_of


@frozen
class Ownership:
    """Whose a partition is: `ours` by this session and consumer, else that of `owner`;
    `watch` fires when the node is changed or deleted. Without a node all are None."""

    ours: bool = False
    owner: str | None = None
    watch: Deferred[NodeEvent] | None = None


class OwnerNodes:
    """The owner nodes of a consumer, `<group>_<unique>`. Failures are
    CoordinationErrors."""

    def __init__(
        self, coordinator: Any, layout: Layout, group: str, consumer: str
    ) -> None:
        self._coordinator = coordinator
        self._layout = layout
        self._group = group
        self._data = consumer.encode()

    def _path(self, partition: TopicPartition) -> str:
        return self._layout.owner(self._group, partition.topic, partition.partition)

    @inlineCallbacks
    def claim(self, partition: TopicPartition, session_id: int) -> Any:
        """Make the node if there is none; fires with the Ownership that holds then.

        It is ours only if a read says so: the create may have been carried out though
        its answer was lost, and the node may be another's by now.
        """
        path = self._path(partition)
        with suppress(NodeExists):
            yield self._coordinator.create(
                path, self._data, ephemeral=True, make_parents=True
            )
        return (yield self.look(partition, session_id))

    @inlineCallbacks
    def look(self, partition: TopicPartition, session_id: int) -> Any:
        """Fires with the present Ownership."""
        try:
            found = yield self._coordinator.get_and_watch(self._path(partition))
        except NoNode:
            return Ownership()
        data, stat, watch = found
        if data == self._data and stat.ephemeral_owner == session_id:
            return Ownership(True, data.decode(), watch)
        owner = text_of(data)
        if isinstance(owner, Unreadable):
            owner = owner.text
        return Ownership(False, owner or "nobody", watch)

    @inlineCallbacks
    def release(self, partition: TopicPartition, session_id: int) -> Any:
        """Delete the node if it is ours; fires when it is not, or no more."""
        path = self._path(partition)
        with suppress(NoNode):
            data, stat = yield self._coordinator.get(path)
            if data == self._data and stat.ephemeral_owner == session_id:
                yield self._coordinator.delete(path, stat.version)
