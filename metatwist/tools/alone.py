"""A consumer beside all groups: it reads everything and stores nothing."""

from __future__ import annotations

from collections.abc import Iterable

from metatwist.client.consumer import Consumer
from metatwist.client.hooks import ConsumerHooks
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.memory import MemoryOffsets
from metatwist.client.settings import ConsumerSettings
from metatwist.coordination.names import PartitionName
from metatwist.tools.running import Scene

GROUP = "metatwist-console"
"""What brokers see in its requests; nothing of it is in any tree."""


def consumer_alone(
    scene: Scene,
    settings: ConsumerSettings,
    partitions: Iterable[TopicPartition],
    hooks: ConsumerHooks,
) -> Consumer:
    """Not started. With addresses alone it takes partitions that appear later, too."""
    if scene.coordinator is None:
        return scene.client.consumer(settings, offsets=MemoryOffsets(), hooks=hooks)
    by_topic: dict[str, list[PartitionName]] = {}
    for topic, name in partitions:
        by_topic.setdefault(topic, []).append(name)
    return scene.client.consumer(
        settings, offsets=MemoryOffsets(), partitions=by_topic, hooks=hooks
    )
