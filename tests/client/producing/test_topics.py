"""Publishing, discovery, and brokers that come and go (spec client 5.1 to 5.3)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import (
    Attempt,
    ClientStopped,
    ConnectionLost,
    InvalidMessage,
    NoPartition,
    NotConnected,
    SelectorFailed,
)
from metatwist.client.message import Message
from metatwist.client.producing.producer import Producer
from metatwist.client.settings import ProducerSettings
from metatwist.coordination.names import PartitionName
from tests.client.producing.fakes import World, message


class PublishTest(SynchronousTestCase):
    """`publish` says what came of it, and goes on trying."""

    def test_ready(self) -> None:
        """It fires once the routes are known and one broker is connected."""
        world = World()
        ready = world.producer.publish("t")
        self.assertNoResult(ready)
        world.discovery.set("t", {0: 1, 1: 1})
        self.assertNoResult(ready)
        world.link(1).connect()
        self.assertIsNone(self.successResultOf(ready))
        self.assertIsNone(self.successResultOf(world.producer.publish("t")))
        self.assertEqual(world.discovery.followed, ["t"])
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_unreachable(self) -> None:
        """Without a connection it fails in time, with what was tried; a broker that
        comes later is used (spec client W23)."""
        world = World(timeout_s=3)
        world.discovery.set("t", {0: 1, 1: 1})
        ready = world.producer.publish("t")
        world.link(0).last_failure = Attempt("meta://b0:8123", "refused")
        world.clock.advance(3)
        error = self.failureResultOf(ready, NotConnected).value
        tried = {one.address: one.reason for one in error.attempts}
        self.assertEqual(
            tried,
            {"meta://b0:8123": "refused", "meta://b1:8123": "not connected yet"},
        )
        world.link(0).connect()
        sent = world.producer.send(message())
        world.link(0).take().store()
        self.successResultOf(sent)

    def test_none_registered(self) -> None:
        """A topic without partitions is NoPartition in time."""
        world = World(timeout_s=3)
        world.discovery.set("t", {})
        ready = world.producer.publish("t")
        world.clock.advance(3)
        self.failureResultOf(ready, NoPartition)

    def test_no_coordinator(self) -> None:
        """When the routes cannot be read it fails at once, and heals."""
        world = World()
        world.discovery.error = NotConnected("no coordinator")
        self.failureResultOf(world.producer.publish("t"), NotConnected)
        self.failureResultOf(world.producer.publish("t"), NotConnected)
        world.discovery.set("t", {0: 1})
        world.link(0).connect()
        self.successResultOf(world.producer.publish("t"))

    def test_bad_names(self) -> None:
        """A name that no put can carry is InvalidMessage, for `send` as well."""
        for topic in ("", "a b", "a\r\nb", "a\0", 5, []):
            world = World()
            self.failureResultOf(world.producer.publish(topic), InvalidMessage)
            sent = world.producer.send(Message(topic, b""))
            self.failureResultOf(sent, InvalidMessage)
            self.assertEqual(world.discovery.followed, [])

    def test_cancelled(self) -> None:
        """Cancelling stops the wait alone."""
        world = World()
        ready = world.producer.publish("t")
        ready.cancel()
        self.failureResultOf(ready, CancelledError)
        self.assertEqual(world.clock.getDelayedCalls(), [])
        world.discovery.set("t", {0: 1})
        world.link(0).connect()
        self.successResultOf(world.producer.publish("t"))

    def test_stopped(self) -> None:
        """Whoever waits when the producer stops gets ClientStopped."""
        world = World()
        ready = world.producer.publish("t")
        self.successResultOf(world.producer.stop())
        self.failureResultOf(ready, ClientStopped)
        self.failureResultOf(world.producer.publish("t"), ClientStopped)

    def _two(self, world: World) -> tuple[Deferred[None], Deferred[None]]:
        """The first's end cancels the second."""
        first, second = world.producer.publish("t"), world.producer.publish("t")

        def cancel(result: object) -> object:
            second.cancel()
            return result

        return first.addBoth(cancel), second

    def test_one_cancels_another_when_connected(self) -> None:
        """A callback of one wait may cancel another."""
        world = World()
        first, second = self._two(world)
        world.discovery.set("t", {0: 1})
        world.link(0).connect()
        self.successResultOf(first)
        self.failureResultOf(second, CancelledError)

    def test_one_cancels_another_when_unreadable(self) -> None:
        """So may one that fails as the routes cannot be read."""
        world = World()
        first, second = self._two(world)
        world.producer._outbox.lanes("t").unreadable(NotConnected("no coordinator"))
        self.failureResultOf(first, NotConnected)
        self.failureResultOf(second, CancelledError)

    def test_one_cancels_another_at_the_stop(self) -> None:
        """And one that fails as the producer is stopped."""
        world = World()
        first, second = self._two(world)
        self.successResultOf(world.producer.stop())
        self.failureResultOf(first, ClientStopped)
        self.failureResultOf(second, CancelledError)

    def test_asks_again_at_the_stop(self) -> None:
        """Who waits for a change again when told of the stop is refused, not left
        waiting."""
        world = World.ready({0: 1})
        again = world.producer.changed("t")
        again.addCallback(lambda _: world.producer.changed("t"))
        self.successResultOf(world.producer.stop())
        self.failureResultOf(again, ClientStopped)


class WaitingTest(SynchronousTestCase):
    """Messages without anywhere to go wait as long as they have time."""

    def test_unpublished(self) -> None:
        """The first message publishes its topic and leaves once that can be."""
        world = World()
        first, second = (world.producer.send(message(body)) for body in (b"1", b"2"))
        self.assertEqual(world.discovery.followed, ["t"])
        world.discovery.set("t", {0: 1})
        world.clock.advance(4)
        world.link(0).connect()
        self.assertEqual([put.payload for put in world.link(0).puts], [b"1", b"2"])
        self.assertEqual(world.link(0).puts[0].timeout_s, 6)
        for sent in (first, second):
            world.link(0).take().store()
            self.successResultOf(sent)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_why_not(self) -> None:
        """The error says what was missing, and that nothing was sent."""
        cases = (
            (None, NotConnected, "not known yet"),
            ({}, NoPartition, "no partition is registered"),
            ({0: 1}, NotConnected, "meta://b0:8123: not connected yet"),
        )
        for counts, kind, text in cases:
            world = World(timeout_s=2)
            if counts is not None:
                world.discovery.set("t", counts)
            sent = world.producer.send(message())
            world.clock.advance(2)
            error = self.failureResultOf(sent, kind).value
            self.assertIn(text, str(error))
            self.assertFalse(error.outcome_unknown)
            self.assertEqual(error.topic, "t")
            self.assertEqual(world.producer.buffered_bytes, 0)

    def test_cancelled_by_another(self) -> None:
        """One that is cancelled as another fails is not sent, though both waited for
        the same broker."""

        def selector(topic: str, partitions: Any, one: Message) -> Any:
            return None if one.body == b"first" else partitions[0]

        world = World(selector)
        first, second = (world.producer.send(message(x)) for x in (b"first", b"second"))

        def cancel(failure: object) -> object:
            second.cancel()
            return failure

        first.addErrback(cancel)
        world.discovery.set("t", {0: 1})
        world.link(0).connect()
        self.failureResultOf(first, NoPartition)
        self.failureResultOf(second, CancelledError)
        self.assertEqual(world.link(0).all_puts, [])
        self.assertEqual(world.producer.buffered_bytes, 0)

    def test_own_time(self) -> None:
        """`timeout_s` of the call counts instead of the settings'."""
        world = World()
        sent = world.producer.send(message(), timeout_s=0.5)
        world.clock.advance(0.5)
        self.failureResultOf(sent, NotConnected)

    def test_lost_before_it_left(self) -> None:
        """A put that never left goes to another broker at once."""
        world = World.ready({0: 1, 1: 1})
        sent = world.producer.send(message())
        world.link(1).lose(NotConnected("lost before sending"))
        world.link(0).take().store()
        self.assertEqual(self.successResultOf(sent).partition, PartitionName(0, 0))


class ChangesTest(SynchronousTestCase):
    """The broker set changes (spec client 5.2, W23)."""

    def test_unaffected(self) -> None:
        """Connections and requests of brokers that stay are not touched."""
        world = World.ready({0: 1, 1: 1})
        self.successResultOf(world.producer.publish("t"))
        sent = world.producer.send(message())
        link = world.link(1)
        holders = set(link.holders)
        world.discovery.set("t", {1: 1, 2: 1})
        self.assertEqual(link.holders, holders)
        self.assertEqual(len(holders), 1)
        self.assertEqual(len(world.link(2).holders), 1)
        self.assertEqual(world.link(0).holders, set())
        self.assertEqual(world.link(0).listeners, [])
        link.take().store()
        self.assertEqual(self.successResultOf(sent).partition, PartitionName(1, 0))

    def test_moved(self) -> None:
        """A broker at a new address is connected to anew."""
        world = World.ready({0: 1})
        self.successResultOf(world.producer.publish("t"))
        world.discovery.set("t", {0: 1}, b0="meta://new:8123")
        moved = world.brokers.links["meta://new:8123"]
        moved.connect()
        world.producer.send(message())
        self.assertEqual(len(moved.puts), 1)
        self.assertEqual(world.link(0).holders, set())

    def test_more_partitions(self) -> None:
        """New partitions get their share, and those that are gone get none."""
        world = World.ready({0: 1})
        for _ in range(2):
            world.producer.send(message())
        world.discovery.set("t", {0: 3})
        for _ in range(3):
            world.producer.send(message())
        world.discovery.set("t", {0: 1})
        world.producer.send(message())
        numbers = [put.partition for put in world.link(0).puts]
        self.assertEqual(numbers[:2], [0, 0])
        self.assertEqual(sorted(numbers[2:5]), [0, 1, 2])
        self.assertEqual(numbers[5:], [0])

    def test_unreachable_is_no_poison(self) -> None:
        """A broker that is registered and cannot be reached hinders no message, nor
        does an address that is none."""
        world = World()
        world.discovery.set("t", {0: 4, 1: 1, 2: 1}, b2="bad address")
        world.link(1).connect()
        world.link(1).answer = lambda put: put.store()
        for _ in range(20):
            self.successResultOf(world.producer.send(message()))
        world.link(0).connect()
        world.link(0).answer = lambda put: put.store()
        for _ in range(10):
            self.successResultOf(world.producer.send(message()))
        self.assertEqual(len(world.link(0).all_puts), 8)

    def test_an_address_that_is_none(self) -> None:
        """It is told as the reason when there is no other broker."""
        world = World(timeout_s=1)
        world.discovery.set("t", {2: 1}, b2="bad address")
        sent = world.producer.send(message())
        world.clock.advance(1)
        error = self.failureResultOf(sent, NotConnected).value
        self.assertIn("is no address", str(error))

    def test_lost(self) -> None:
        """A lost connection ends what was under way as unknown; what follows goes
        elsewhere."""
        world = World.ready({0: 1, 1: 1})
        under_way = world.producer.send(message())
        world.link(1).lose(ConnectionLost("reset"))
        error = self.failureResultOf(under_way, ConnectionLost).value
        self.assertTrue(error.outcome_unknown)
        world.producer.send(message())
        self.assertEqual(len(world.link(0).puts), 1)


class DefaultTopicTest(SynchronousTestCase):
    """The default topic lends its brokers (spec client 5.3)."""

    def setUp(self) -> None:
        self.world = World.ready({0: 2})
        self.successResultOf(self.world.producer.default_topic("t"))

    def test_lends(self) -> None:
        """An unpublished topic goes there under its own name."""
        self.world.producer.send(Message("other", b"x"))
        self.assertEqual(self.world.link(0).take().prefix, b"put other 1 ")

    def test_the_selector_sees_the_default(self) -> None:
        """The selector is called with the default topic's name."""
        seen: list[str] = []

        def selector(topic: str, partitions: object, one: Message) -> None:
            seen.append(f"{topic} {one.topic}")

        world = World.ready({0: 2}, selector)
        world.producer.default_topic("t")
        sent = world.producer.send(Message("other", b"x"))
        self.failureResultOf(sent, NoPartition)
        self.assertEqual(seen, ["t other"])

    def test_once(self) -> None:
        """It can be set to the same topic again, but to no other."""
        self.successResultOf(self.world.producer.default_topic("t"))
        with self.assertRaises(ValueError):
            self.world.producer.default_topic("other")

    def test_bad_name(self) -> None:
        """A name that is none does not become the default, nor does any at the end."""
        world = World.ready({0: 2})
        refused = world.producer.default_topic("bad name")
        self.failureResultOf(refused, InvalidMessage)
        self.successResultOf(world.producer.default_topic("t"))
        self.successResultOf(world.producer.stop())
        self.failureResultOf(world.producer.default_topic("t"), ClientStopped)

    def test_published_later(self) -> None:
        """A topic that is published after all has its own brokers alone."""
        producer = self.world.producer
        producer.send(Message("other", b"x"))
        self.world.link(0).take().store()
        ready = producer.publish("other")
        producer.send(Message("other", b"y"))
        self.assertNoResult(ready)
        self.assertEqual(self.world.link(0).puts, [])
        self.world.discovery.set("other", {1: 1})
        self.world.link(1).connect()
        self.successResultOf(ready)
        self.assertEqual(self.world.link(1).take().payload, b"y")


class SharingTest(SynchronousTestCase):
    """Producers of one client share discovery and connections."""

    def test_the_last_one_forgets(self) -> None:
        """A topic is followed until the last producer that does has stopped."""
        world = World.ready({0: 1})
        other = Producer(ProducerSettings(), world.context)
        self.successResultOf(world.producer.publish("t"))
        self.successResultOf(other.publish("t"))
        self.assertEqual(len(world.link(0).holders), 2)
        self.successResultOf(other.stop())
        self.assertEqual(world.discovery.forgotten, [])
        self.assertEqual(len(world.link(0).holders), 1)
        self.successResultOf(world.producer.stop())
        self.assertEqual(world.discovery.forgotten, ["t"])
        self.assertEqual(world.link(0).holders, set())
        self.assertEqual(world.discovery.listeners, [])

    def test_selector_failure_spares_others(self) -> None:
        """One message whose selector fails leaves those that wait with it alone."""
        answers = iter([PartitionName(9, 9), PartitionName(0, 0)])
        world = World(lambda *_: next(answers))
        bad, good = world.producer.send(message()), world.producer.send(message())
        world.discovery.set("t", {0: 1})
        world.link(0).connect()
        self.failureResultOf(bad, SelectorFailed)
        world.link(0).take().store()
        self.successResultOf(good)
