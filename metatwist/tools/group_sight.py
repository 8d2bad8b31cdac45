"""Who has which partitions of a group, as the tree says (spec layout 3.5, 3.6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import frozen

from metatwist.client.group.view import GroupReader
from metatwist.client.message import TopicPartition
from metatwist.client.settings import ConsumerSettings
from metatwist.coordination.errors import NoNode
from metatwist.coordination.layout import Layout


@frozen
class Sight:
    """How a group was at one moment, for the member `me`.

    Attributes:
        share: what `me` should hold.
        owners: the consumer id that holds each partition, if any does.
        members: consumer ids, of those that died too until their sessions end.
    """

    me: str
    share: Collection[TopicPartition]
    owners: Mapping[TopicPartition, str]
    members: Collection[str]

    def is_others(self, partition: TopicPartition) -> bool:
        """Another member has it, and is meant to."""
        owner = self.owners.get(partition)
        is_another = owner != self.me and owner in self.members
        return is_another and partition not in self.share


class GroupSight:
    """Looks at a group; `me` is a consumer id, `<group>_<unique>`."""

    def __init__(
        self, coordinator: Any, layout: Layout, settings: ConsumerSettings, me: str
    ) -> None:
        self._coordinator = coordinator
        self._layout = layout
        self._settings = settings
        self._me = me

    async def look(self, partitions: Iterable[TopicPartition]) -> Sight:
        """See who has these. Raises CoordinationErrors."""
        wanted = list(partitions)
        topics = {one.topic for one in wanted}
        group = self._settings.group
        reader = GroupReader(
            self._coordinator, self._layout, group, topics, lambda: None
        )
        try:
            picture = await reader.read()
        finally:
            reader.forget()
        owners = {}
        for one in wanted:
            owner = await self._owner(one)
            if owner is not None:
                owners[one] = owner
        share = picture.share(self._me, self._settings.strategy)
        return Sight(self._me, share, owners, picture.members)

    async def _owner(self, one: TopicPartition) -> str | None:
        path = self._layout.owner(self._settings.group, one.topic, one.partition)
        try:
            data, _ = await self._coordinator.get(path)
        except NoNode:
            return None
        return str(data, "utf-8", "backslashreplace")
