"""Where a consumer gets its partitions from, and where its offsets are, by default."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.interfaces import IReactorCore

from metatwist.client.ground import Ground
from metatwist.client.group.fixed import FixedAssignment, Partitions, all_partitions
from metatwist.client.group.identity import unique_id
from metatwist.client.group.lease import steady_seconds
from metatwist.client.group.membership import GroupMembership
from metatwist.client.interfaces import IAssignment
from metatwist.client.offsets.coordinator import CoordinatorOffsets
from metatwist.client.offsets.interface import IOffsetStorage
from metatwist.client.offsets.memory import MemoryOffsets
from metatwist.client.settings import ConsumerSettings
from metatwist.coordination.names import PartitionName, consumer_id

Chosen = Partitions | Sequence[PartitionName]
"""Partitions by topic, or the same ones of each topic."""


def offsets_for(ground: Ground, group: str) -> IOffsetStorage:
    """The coordinator, or memory where there is none."""
    if ground.coordinator is None:
        return MemoryOffsets()
    return CoordinatorOffsets(ground.coordinator, ground.layout, group)


def assignment_for(
    ground: Ground,
    settings: ConsumerSettings,
    session_timeout_s: float,
    chosen: Chosen | None,
) -> IAssignment:
    """The chosen partitions; else by group; without a coordinator all there are."""
    if chosen is None and ground.coordinator is not None:
        is_real = IReactorCore.providedBy(ground.reactor)
        return GroupMembership(
            ground.reactor,
            ground.coordinator,
            ground.layout,
            settings,
            session_timeout_s,
            steady_seconds if is_real else None,
        )
    me = consumer_id(settings.group, settings.consumer_id or unique_id())
    if chosen is None:
        every = all_partitions(ground.discovery)
        return FixedAssignment(every, me, ground.reactor)
    return FixedAssignment(chosen, me, ground.reactor)
