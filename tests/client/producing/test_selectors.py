"""Which partition a message goes to (spec client 5.3)."""

from __future__ import annotations

import random
from collections import Counter
from zlib import crc32

from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import NoPartition, SelectorFailed
from metatwist.client.message import Message
from metatwist.client.producing.selectors import ByKey, RandomChoice, RoundRobin
from metatwist.coordination.names import PartitionName
from tests.client.producing.fakes import World, message

PARTITIONS = tuple(PartitionName(0, number) for number in range(3))


class SelectorsTest(SynchronousTestCase):
    """The ones that come along."""

    def test_round_robin_begins_at_one(self) -> None:
        """The first pick is index 1, and one counter serves all topics."""
        selector = RoundRobin()
        picked = [selector(topic, PARTITIONS, message()) for topic in "aabb"]
        self.assertEqual([one.partition for one in picked], [1, 2, 0, 1])

    def test_round_robin_is_even(self) -> None:
        """10,000 sends use all partitions equally."""
        selector = RoundRobin()
        four = (*PARTITIONS, PartitionName(1, 0))
        counted = Counter(selector("t", four, message()) for _ in range(10_000))
        self.assertEqual(set(counted.values()), {2500})

    def test_round_robin_wraps(self) -> None:
        """Past 2^31 - 1 the counter goes on at 0."""
        selector = RoundRobin(2**31 - 2)
        picked = [selector("t", PARTITIONS, message()) for _ in range(3)]
        expected = [(2**31 - 1) % 3, 0, 1]
        self.assertEqual([one.partition for one in picked], expected)

    def test_random_uses_its_source(self) -> None:
        """The choice is that of the source given, and reaches all partitions."""
        one, other = RandomChoice(random.Random(5)), RandomChoice(random.Random(5))
        picks = [one("t", PARTITIONS, message()) for _ in range(50)]
        self.assertEqual(picks, [other("t", PARTITIONS, message()) for _ in range(50)])
        self.assertEqual(set(picks), set(PARTITIONS))

    def test_by_key(self) -> None:
        """The index is the CRC-32 of the UTF-8 key; text and bytes are the same."""
        selector = ByKey()
        text = selector("t", PARTITIONS, message(key="käse"))
        self.assertEqual(text, PARTITIONS[crc32("käse".encode()) % 3])
        self.assertEqual(text, selector("t", PARTITIONS, message(key="käse".encode())))

    def test_without_key_round_robin(self) -> None:
        """Messages without a key take turns."""
        selector = ByKey()
        picked = [selector("t", PARTITIONS, message()) for _ in range(3)]
        self.assertEqual([one.partition for one in picked], [1, 2, 0])


class BadSelectorsTest(SynchronousTestCase):
    """Selectors of users that misbehave."""

    def failure_of(self, selector: object) -> BaseException:
        world = World.ready({0: 2}, selector)
        failure = self.failureResultOf(world.producer.send(message()))
        self.assertEqual(world.link(0).all_puts, [])
        return failure.value  # type: ignore[no-any-return]

    def test_one_that_raises(self) -> None:
        """Its exception is the cause of a SelectorFailed."""
        problem = RuntimeError("oops")

        def selector(*_: object) -> PartitionName:
            raise problem

        error = self.failure_of(selector)
        self.assertIsInstance(error, SelectorFailed)
        self.assertIs(error.__cause__, problem)
        self.assertEqual(error.topic, "t")  # type: ignore[attr-defined]

    def test_one_that_answers_nonsense(self) -> None:
        """A partition of another topic, or no partition at all, is refused."""
        for answer in (PartitionName(9, 9), "0-1", [], 5):
            error = self.failure_of(lambda *_, answer=answer: answer)
            self.assertIsInstance(error, SelectorFailed)

    def test_one_that_finds_none(self) -> None:
        """None means that no partition will do."""
        self.assertIsInstance(self.failure_of(lambda *_: None), NoPartition)


class OfferedTest(SynchronousTestCase):
    """What selectors are offered (spec client W24)."""

    def setUp(self) -> None:
        self.offered: list[tuple[str, list[str]]] = []

    def first(self, topic: str, partitions: object, one: Message) -> PartitionName:
        names = tuple(partitions)  # type: ignore[arg-type]
        self.offered.append((topic, [str(name) for name in names]))
        return names[0]  # type: ignore[no-any-return]

    def test_connected_brokers_only(self) -> None:
        """Partitions of a broker that is not connected are left out."""
        world = World.ready({0: 1, 1: 2}, self.first)
        world.producer.send(message())
        world.link(0).take().store()
        world.link(0).lose()
        world.producer.send(message())
        self.assertEqual(
            self.offered, [("t", ["0-0", "1-0", "1-1"]), ("t", ["1-0", "1-1"])]
        )

    def test_stable_selectors_see_all(self) -> None:
        """A stable selector gets the whole list for a message with a key, which waits
        for the broker of its partition."""
        selector = self.first
        stable = type(
            "Stable", (), {"stable": True, "__call__": lambda _, *a: selector(*a)}
        )
        world = World.ready({0: 1, 1: 2}, stable())
        world.link(0).lose()
        sent = world.producer.send(message(key="k"))
        world.producer.send(message())
        self.assertEqual(self.offered[0][1], ["0-0", "1-0", "1-1"])
        self.assertEqual(self.offered[1][1], ["1-0", "1-1"])
        world.link(0).connect()
        world.link(0).take().store()
        self.assertEqual(self.successResultOf(sent).partition, PartitionName(0, 0))
