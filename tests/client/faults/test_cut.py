"""A connection that ends within an answer, at every byte of it."""

from __future__ import annotations

from typing import Any

from metatwist.client import ConnectionLost, ProducerSettings, SendResult
from tests.client.faults.world import FaultCase, World

FAR = 240
"""More bytes than the answers of a conversation have here."""


class CutTest(FaultCase):
    """A put, a fetch, a poll, and what is asked first on a connection."""

    def _play(
        self, after_bytes: int, at_connect: bool, may_duplicate: bool
    ) -> list[Any]:
        """What the producer was told, all else being checked."""
        world = World(self, {"t": 1})
        node = world.node()
        world.join(node)
        broker = world.brokers[0]
        settings = ProducerSettings(may_duplicate=may_duplicate)
        producer = node.client.producer(settings)
        if at_connect:
            for _ in range(1000):
                world.clock.advance(0.001)
                if broker.connections:
                    break
        else:
            world.run(1)
        broker.drop_connections(after_bytes)
        world.send(producer, "x" * 40, 2)
        world.run(1)
        world.send(producer)
        world.settle()
        outcomes = [one.outcomes[0] for one in world.ledger.sent.values()]
        world.finish()
        return outcomes

    def test_answers(self) -> None:
        """Wherever an answer is cut, nothing is lost and outcomes are told right: for
        some of the places that is "unknown", and for some the answer had come."""
        unknown = 0
        for after_bytes in range(1, FAR):
            first = self._play(after_bytes, False, False)[0]
            if not isinstance(first, SendResult):
                first.trap(ConnectionLost)
                unknown += 1
        self.assertGreater(unknown, 20)
        self.assertLess(unknown, FAR - 50)

    def test_answers_with_retries(self) -> None:
        """With `may_duplicate` all is stored, wherever the answer is cut."""
        for after_bytes in range(1, 120):
            outcomes = self._play(after_bytes, False, True)
            self.assertEqual([SendResult] * 3, [type(one) for one in outcomes])

    def test_first_answers(self) -> None:
        """The same for what is asked first on a connection."""
        for after_bytes in range(1, 140):
            self._play(after_bytes, True, False)
