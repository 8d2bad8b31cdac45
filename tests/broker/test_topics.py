"""What the broker knows of its topics: where puts may go, and what is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from metatwist.errors import PartitionClosed, PartitionStopped, TopicRefused
from tests.support.broker_parts import BrokerParts, get, put


class TopicsCase(SynchronousTestCase):
    """A broker whose topic `test` has partitions 0 to 2."""

    def setUp(self) -> None:
        self.parts = BrokerParts(self)
        self.topics = self.parts.topics
        self.peer = self.parts.connect()


class WritableTests(TopicsCase):
    """Where a put without a partition may go."""

    def writable(self) -> list[int]:
        """The partitions, the caches dropped as after every change."""
        self.topics.changed()
        return self.topics.writable_partitions("test")

    def test_all(self) -> None:
        """Partitions without a store count; a topic that is not accepted has none."""
        self.assertEqual(self.writable(), [0, 1, 2])
        self.peer.ask(put(b"x", partition=1))
        self.assertEqual(self.writable(), [0, 1, 2])
        self.assertRaises(TopicRefused, self.topics.writable_partitions, "nope")

    def test_left_out(self) -> None:
        """Closed, moved, unloadable and stopped ones are left out."""
        self.topics.closed.add(("test", 0))
        self.assertEqual(self.writable(), [1, 2])
        self.topics.busy["test", 1] = "being moved"
        self.assertEqual(self.writable(), [2])
        self.topics.closed.clear()
        self.topics.busy.clear()
        self.parts.catalog.failed["test", 2] = "damaged"
        self.assertEqual(self.writable(), [0, 1])

    def test_stopped_at_work(self) -> None:
        """A put without a partition does not meet one that a failed fsync stopped."""
        self.peer.send(put(b"x", partition=2))
        self.parts.turn()
        self.parts.sync(OSError(5, "Input/output error"))
        self.peer.taken()
        self.assertEqual(self.topics.writable_partitions("test"), [0, 1])
        self.assertIn(b"result 200 ", self.peer.ask(put(b"x", partition=-1)))

    def test_none_is_left(self) -> None:
        """When all are closed or moved that is said, and else why one is stopped."""
        for number in range(3):
            self.topics.closed.add(("test", number))
        error = self.assertRaises(PartitionClosed, self.writable)
        self.assertEqual(str(error), "partition[5--1] has been closed")
        self.topics.closed.discard(("test", 1))
        self.topics.busy["test", 1] = "being moved"
        self.assertRaises(PartitionClosed, self.writable)
        self.topics.busy.clear()
        self.parts.catalog.failed["test", 1] = "damaged"
        error = self.assertRaises(PartitionStopped, self.writable)
        self.assertEqual(str(error), "damaged")
        self.assertIn(b"damaged", self.peer.ask(put(b"x", partition=-1)))


class ForgetTests(TopicsCase):
    """Partitions that are deleted."""

    def forget(self, partition: int) -> None:
        """As a deletion does it."""
        queue = self.topics.queues["wild1", partition]
        self.topics.forget(("wild1", partition))
        queue.log.close()

    def test_numbers_go(self) -> None:
        """A deleted partition's numbers go, and with its last partition a topic that
        has no section of its own is counted no more."""
        for partition in (0, 1):
            self.peer.ask(put(b"x", topic="wild1", partition=partition))
        self.peer.ask(get(0, topic="wild1"))
        self.forget(0)
        self.assertEqual(list(self.parts.numbers.partitions), [("wild1", 1)])
        self.assertTrue(self.topics.is_counted("wild1"))
        self.forget(1)
        self.assertEqual(list(self.parts.numbers.partitions), [])
        self.assertFalse(self.topics.is_counted("wild1"))


class CountedDict(dict[Any, Any]):
    """Counts how often all of it is gone through."""

    walks = 0

    def __iter__(self) -> Iterator[Any]:
        self.walks += 1
        return super().__iter__()

    def items(self) -> Any:
        """See dict."""
        self.walks += 1
        return super().items()


class TopicsListTests(TopicsCase):
    """`stats topics` of a broker with many topics."""

    def walks(self) -> int:
        """How often the list goes through all partitions."""
        logs = self.parts.catalog.logs = CountedDict(self.parts.catalog.logs)
        self.parts.stats.answer("topics")
        return logs.walks

    def test_effort(self) -> None:
        """It does not go through all partitions once for each topic."""
        self.peer.ask(put(b"x"))
        before = self.walks()
        for number in range(9):
            self.peer.ask(put(b"x", topic=f"wild{number}"))
        self.assertEqual(self.walks(), before)
