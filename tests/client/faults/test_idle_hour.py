"""An hour in which nothing happens."""

from __future__ import annotations

import gc
from collections import Counter

from tests.client.faults.world import FaultCase, World

TOPICS = {"t": 8, "u": 8, "v": 8}
MINUTE_S = 60
MOST_TIMERS = 120
MOST_REQUESTS_A_MINUTE = 24 * 8
"""A poll of each partition waits for 20 s, now and then it is asked what is kept; the
rest are heartbeats."""
MOST_NEW_OBJECTS = 2000
WARM_UP_MINUTES = 30


class IdleHourTest(FaultCase):
    """Three topics of eight partitions, two consumers, a producer."""

    def test_idle_hour(self) -> None:
        """Memory and timers stay as they are, and brokers are hardly asked anything."""
        world = World(self, TOPICS)
        broker = world.brokers[0]
        nodes = [world.node(), world.node()]
        for node in nodes:
            world.join(node, topics=list(TOPICS))
        producer = nodes[0].client.producer()
        for topic in TOPICS:
            world.send(producer, topic=topic, count=8)
        world.settle()
        counts: list[Counter[str]] = []
        most_timers = 0
        for minute in range(60):
            # The broker remembers requests, not the client.
            broker._service.requests.clear()
            for node in nodes:
                node.events.clear()
            for _ in range(MINUTE_S):
                world.clock.advance(1)
                world.cluster.pump()
                most_timers = max(most_timers, len(world.clock.getDelayedCalls()))
            asked = len(broker.requests)
            if minute:
                self.assertLess(asked, MOST_REQUESTS_A_MINUTE, f"minute {minute}")
            if minute in (WARM_UP_MINUTES - 1, 59):
                counts.append(_objects())
        self.assertLess(most_timers, MOST_TIMERS)
        grown = counts[-1] - counts[0]
        self.assertLess(sum(grown.values()), MOST_NEW_OBJECTS, grown.most_common(5))
        world.send(producer)
        world.settle()
        world.finish()


def _objects() -> Counter[str]:
    """How many there are of each kind."""
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects())
