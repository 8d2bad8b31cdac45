"""Which partitions can be read, and where."""

from __future__ import annotations

from twisted.internet.defer import CancelledError

from metatwist.client.discovery.looking import PATIENCE_S
from metatwist.client.errors import InvalidMessage, NotConnected
from metatwist.coordination.errors import ConnectionLost
from tests.client.discovery.tree_case import TreeCase


class ReadersTests(TreeCase):
    """The addresses to read from (spec client 16)."""

    def readers(self, broker_id: int = 0) -> tuple[str, ...]:
        """The answer for a broker."""
        found: tuple[str, ...] = self.successResultOf(self.discovery.readers(broker_id))
        return found

    def test_master_first(self) -> None:
        """The master alone; its slaves in random order when it is gone; the master
        again when it is back."""
        self.master(0)
        for number in range(2):
            self.put(f"ids/0/slave{number}", f"meta://s{number}:8123")
        self.assertEqual(self.readers(), ("meta://b0:8123",))
        self.drop("ids/0/master")
        self.soon()
        self.assertEqual(self.readers(), ("meta://s1:8123", "meta://s0:8123"))
        self.master(0)
        self.soon()
        self.assertEqual(self.readers(), ("meta://b0:8123",))

    def test_unreadable_slaves(self) -> None:
        """Garbage and strange names are no slaves."""
        self.put("ids/0/slave", "meta://s:1")
        self.put("ids/0/slavex", "meta://s:2")
        self.put("ids/0/slave1", "s:3")
        self.put("ids/0/slave2", "meta://s:4")
        self.put("ids/0/master_config_checksum", "17")
        self.assertEqual(self.readers(), ("meta://s:4",))

    def test_gone(self) -> None:
        """There is nobody to read from at a broker that is gone, whatever its
        directory says."""
        self.put("ids/0", "meta://dead:8123", ephemeral=False)
        self.assertEqual(self.readers(), ())
        self.assertEqual(self.readers(7), ())

    def test_cached(self) -> None:
        """Asking again costs no read until something changes."""
        self.master(0)
        self.readers()
        before = self.counting.total
        for _ in range(100):
            self.readers()
        self.assertEqual(self.counting.total, before)
        self.master(0, "meta://elsewhere:9000")
        self.soon()
        self.assertEqual(self.readers(), ("meta://elsewhere:9000",))

    def test_new_slave(self) -> None:
        """A slave that registers later is seen."""
        self.assertEqual(self.readers(), ())
        self.put("ids/0/slave1", "meta://s1:8123")
        self.soon()
        self.assertEqual(self.readers(), ("meta://s1:8123",))

    def test_forgotten_watches(self) -> None:
        """Watches of brokers nobody asks for any more are given up."""
        for broker_id in range(50):
            self.readers(broker_id)
        self.clock.advance(121)
        self.readers(99)
        self.assertEqual(len(self.own.watching), 2)


class PartitionsTests(TreeCase):
    """What consumers may read (spec layout 5.3)."""

    def partitions(self, topic: str = "t") -> list[str]:
        """The answer for a topic."""
        found = self.successResultOf(self.discovery.partitions(topic))
        return [str(one) for one in found]

    def test_union(self) -> None:
        """Of a master and its slaves the larger count; the order is that of numbers."""
        sub = "topics-sub"
        self.offer("t", "10-m", 1, sub)
        self.offer("t", "2-m", 11, sub)
        self.offer("t", "2-s0", 12, sub)
        self.offer("t", "2-s1", 3, sub)
        self.offer("t", "weird", 3, sub)
        self.put("topics-sub/t/5-m", "12")
        expected = [f"2-{number}" for number in range(12)] + ["10-0"]
        self.assertEqual(self.partitions(), expected)

    def test_unknown(self) -> None:
        """An unknown topic has none, nothing is made for it, and its coming is seen."""
        self.assertEqual(self.partitions(), [])
        self.assertEqual(self.counting.calls["create"], 0)
        self.offer("t", "0-m", 1, "topics-sub")
        self.soon()
        self.assertEqual(self.partitions(), ["0-0"])

    def test_topics(self) -> None:
        """All topics of both trees, once each."""
        self.assertEqual(self.successResultOf(self.discovery.topics()), [])
        self.offer("b", "0-m", 1)
        self.offer("b", "0-m", 1, "topics-sub")
        self.offer("a", "0-m", 1, "topics-sub")
        self.assertEqual(self.successResultOf(self.discovery.topics()), ["a", "b"])


class PatienceTests(TreeCase):
    """While the coordinator cannot be asked."""

    def setUp(self) -> None:
        """It does not answer at first."""
        super().setUp()
        self.master(0)
        self.offer("t", "0-m", 1, "topics-sub")
        self.counting.error = ConnectionLost()

    def test_first_answer(self) -> None:
        """What is asked for before it has ever answered waits for that."""
        asked = (
            self.discovery.partitions("t"),
            self.discovery.topics(),
            self.discovery.readers(0),
        )
        for one in asked:
            self.assertNoResult(one)
        self.counting.error = None
        self.clock.advance(1)
        partitions, topics, readers = map(self.successResultOf, asked)
        self.assertEqual([str(one) for one in partitions], ["0-0"])
        self.assertEqual((topics, readers), (["t"], ("meta://b0:8123",)))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_connection(self) -> None:
        """They are answered as soon as it is connected."""
        self.counting.error = None
        self.own.suspend()
        asked = self.discovery.partitions("t")
        self.clock.advance(5)
        self.assertNoResult(asked)
        self.own.open(self.tree.realm)
        self.soon()
        self.assertEqual(len(self.successResultOf(asked)), 1)

    def test_patience(self) -> None:
        """They fail when it takes too long, and ask no more."""
        asked = self.discovery.partitions("t")
        self.clock.pump([1.0] * int(PATIENCE_S))
        self.failureResultOf(asked, NotConnected)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertLess(self.counting.total, 10)

    def test_hopeless(self) -> None:
        """A name that cannot be is refused at once."""
        self.failureResultOf(self.discovery.partitions("a/b"), InvalidMessage)

    def test_cancel(self) -> None:
        """A cancelled one asks no more."""
        asked = self.discovery.partitions("t")
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])
