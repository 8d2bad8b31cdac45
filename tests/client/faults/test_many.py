"""A client that lives long, and what it has made and ended."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

from metatwist.client import OneWayProducer, Producer
from tests.client.faults.world import TOPIC, FaultCase, World


class ManyTest(FaultCase):
    """What has ended needs no memory."""

    def test_producers(self) -> None:
        """Producers that were stopped are let go of."""
        world = World(self)
        node = world.node()
        ended: list[Any] = []
        for make in (node.client.producer, node.client.one_way_producer):
            producer: Producer | OneWayProducer = make()
            if isinstance(producer, Producer):
                world.send(producer, count=3)
            world.run(1)
            self.successResultOf(producer.stop())
            ended.append(ref(producer))
            del producer
        world.run(1)
        gc.collect()
        self.assertEqual([one() for one in ended], [None, None])
        world.finish()

    def test_consumers(self) -> None:
        """A consumer that was stopped is let go of."""
        world = World(self)
        node = world.node()
        world.brokers[0].deliver(TOPIC, b"x")
        ended = ref(world.join(node))
        world.run(2)
        consumer, node.consumer = node.consumer, None
        assert consumer is not None
        stopped = consumer.stop()
        world.run(1)
        self.successResultOf(stopped)
        del consumer
        node.events.clear()
        gc.collect()
        self.assertIsNone(ended())
        world.finish()
