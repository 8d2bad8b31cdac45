"""Where a topic can be sent to, as the tree changes."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError
from twisted.logger import LogLevel, globalLogPublisher
from zope.interface.verify import verifyObject

from metatwist.client.discovery.looking import PATIENCE_S, PERIOD_S
from metatwist.client.errors import (
    ClientError,
    ClientStopped,
    InvalidMessage,
    NotConnected,
)
from metatwist.client.interfaces import IDiscovery, PublishRoutes
from metatwist.coordination.errors import ConnectionLost, NotAuthorized
from tests.client.discovery.tree_case import TreeCase


class RoutesTests(TreeCase):
    """What routes are made of."""

    def test_interface(self) -> None:
        """It is an IDiscovery."""
        self.assertTrue(verifyObject(IDiscovery, self.discovery))

    def test_order(self) -> None:
        """Partitions are in the order of numbers, with 12 on 2 brokers (W9)."""
        for broker_id in (10, 2):
            self.master(broker_id)
            self.offer("t", f"{broker_id}-m", 6 if broker_id == 10 else 12)
        routes = self.publish()
        expected = [f"2-{n}" for n in range(12)] + [f"10-{n}" for n in range(6)]
        self.assertEqual([str(one) for one in routes.partitions], expected)
        self.assertEqual(routes.addresses, {2: "meta://b2:8123", 10: "meta://b10:8123"})

    def test_unknown_topic(self) -> None:
        """An unknown topic gets an empty persistent directory, and nothing more."""
        self.assertEqual(self.publish(), PublishRoutes("t"))
        path = "/meta/brokers/topics-pub/t"
        data, stat = self.successResultOf(self.tree.get(path))
        self.assertEqual((data, stat.ephemeral_owner), (b"", 0))
        self.clock.pump([PERIOD_S] * 5)
        self.assertEqual(self.counting.calls["create"], 1)
        children = self.successResultOf(self.tree.get_children("/meta/brokers"))
        self.assertEqual(children, ["topics-pub"])

    def test_unfit_topic(self) -> None:
        """A topic that no node can have is refused at once, and not followed."""
        self.failureResultOf(self.discovery.publish("a/b"), InvalidMessage)
        self.failureResultOf(self.discovery.partitions("a/b"), InvalidMessage)
        self.assertIsNone(self.discovery.routes("a/b"))
        self.assertEqual(self.counting.total, 0)

    def test_only_masters(self) -> None:
        """Slaves, strange names, brokers without an address and those without
        partitions are left out."""
        self.master(0)
        for node in ("0-m", "0-s1", "1-m", "x-m", "0-m-m"):
            self.offer("t", node, 2)
        self.master(3)
        self.offer("t", "3-m", 0)
        self.master(4, " ")
        self.offer("t", "4-m", 2)
        routes = self.publish()
        self.assertEqual([str(one) for one in routes.partitions], ["0-0", "0-1"])
        self.assertEqual(routes.addresses, {0: "meta://b0:8123"})
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_unreadable(self) -> None:
        """Garbage hides nobody else, and healing it is noticed."""
        self.master(0)
        self.offer("t", "0-m", 1)
        self.master(1, "http://b1")
        self.offer("t", "1-m", 1)
        self.master(2)
        self.put("topics-pub/t/2-m", '{"numParts":1,"more":2}')
        self.assertEqual(len(self.publish().partitions), 1)
        self.master(1)
        self.offer("t", "2-m", 1)
        self.soon()
        self.assertEqual(self.names(), ["0-0", "1-0", "2-0"])

    def test_warned_once(self) -> None:
        """Of a bad entry one warning is logged however often it is read, and another
        when it is bad in another way."""
        warnings: list[str] = []

        def observe(event: dict[str, Any]) -> None:
            if event["log_level"] is LogLevel.warn:
                warnings.append(event["path"])

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.master(1, "http://b1")
        self.offer("t", "1-m", 1)
        self.publish()
        self.clock.pump([1.0] * 100)
        path = "/meta/brokers/ids/1/master"
        self.assertEqual(warnings, [path])
        self.master(1, "meta://b1:0")
        self.soon()
        self.assertEqual(warnings, [path, path])


class ChangeTests(TreeCase):
    """What happens when brokers come, go and move."""

    def setUp(self) -> None:
        super().setUp()
        self.master(0)
        self.offer("t", "0-m", 1)
        self.publish()
        self.assertEqual(len(self.told), 1)

    def test_new_broker(self) -> None:
        """A new broker is told of, its topic node being there before its address or
        after."""
        self.offer("t", "1-m", 1)
        self.soon()
        self.assertEqual(self.names(), ["0-0"])
        self.master(1)
        self.soon()
        self.master(2)
        self.offer("t", "2-m", 1)
        self.soon()
        self.assertEqual(self.names(), ["0-0", "1-0", "2-0"])
        self.assertEqual(self.told[-1], self.discovery.routes("t"))
        self.assertEqual(len(self.told), 3)

    def test_removed(self) -> None:
        """A broker that withdraws leaves; the directory stays watched."""
        self.drop("topics-pub/t/0-m")
        self.soon()
        self.assertEqual(self.told[-1], PublishRoutes("t"))
        self.offer("t", "0-m", 3)
        self.soon()
        self.assertEqual(self.names(), ["0-0", "0-1", "0-2"])

    def test_address_gone(self) -> None:
        """A broker without an address is gone, though its topic nodes are there."""
        self.drop("ids/0/master")
        self.soon()
        self.assertEqual(self.names(), [])
        self.master(0)
        self.soon()
        self.assertEqual(self.names(), ["0-0"])

    def test_changed_count(self) -> None:
        """More partitions are told of."""
        self.offer("t", "0-m", 2)
        self.soon()
        self.assertEqual(self.names(), ["0-0", "0-1"])

    def test_moved(self) -> None:
        """A broker that moves changes its address only (W9)."""
        self.master(0, "meta://elsewhere:9000")
        self.soon()
        self.assertEqual(self.told[-1].addresses, {0: "meta://elsewhere:9000"})

    def test_told_of_changes_only(self) -> None:
        """The same values written anew are not told of."""
        for _ in range(5):
            self.master(0)
            self.offer("t", "0-m", 1)
            self.soon()
        self.assertEqual(len(self.told), 1)

    def test_burst(self) -> None:
        """Fifty changes at once are one look."""
        before = self.counting.total
        for count in range(2, 52):
            self.offer("t", "0-m", count)
            self.clock.advance(0)
        self.soon()
        self.assertEqual(len(self.names()), 51)
        self.assertEqual(self.counting.total - before, 1)

    def test_idle_hour(self) -> None:
        """An idle hour costs three reads per half minute, and leaves as many watches
        as before."""
        watches = len(self.own.watching)
        before = self.counting.total
        self.clock.pump([1.0] * 3600)
        self.assertLessEqual(self.counting.total - before, 3 * 121)
        self.assertEqual(len(self.own.watching), watches)
        self.assertEqual(len(self.told), 1)

    def test_shared(self) -> None:
        """The address of a broker is read once for many topics (W10)."""
        before = self.counting.calls["get_and_watch"]
        for number in range(10):
            self.offer(f"u{number}", "0-m", 1)
            self.publish(f"u{number}")
        self.assertEqual(self.counting.calls["get_and_watch"] - before, 10)

    def test_lost_watch(self) -> None:
        """A change whose watch is lost is found by the slow look."""
        for watch in list(self.own.watching):
            watch.forget()
        self.offer("t", "0-m", 2)
        self.clock.advance(1)
        self.assertEqual(self.names(), ["0-0"])
        self.clock.pump([1.0] * int(PERIOD_S + 1))
        self.assertEqual(self.names(), ["0-0", "0-1"])

    def test_refresh(self) -> None:
        """`refresh` looks again within half a second, once for many calls."""
        for watch in list(self.own.watching):
            watch.forget()
        self.offer("t", "0-m", 2)
        before = self.counting.total
        for _ in range(100):
            self.discovery.refresh("t")
            self.clock.advance(0.005)
        self.soon()
        self.assertEqual(self.names(), ["0-0", "0-1"])
        self.assertEqual(self.counting.total - before, 3)

    def test_change_during_look(self) -> None:
        """A change that comes while it looks causes another look."""
        self.counting.held = held = []
        self.offer("t", "1-m", 1)
        self.master(1)
        self.soon()
        self.assertEqual(len(held), 1)
        self.offer("t", "2-m", 1)
        self.master(2)
        self.counting.held = None
        held.pop().callback(None)
        self.offer("t", "3-m", 1)
        self.master(3)
        self.soon()
        self.assertEqual(self.names(), ["0-0", "1-0", "2-0", "3-0"])

    def test_change_of_new_node(self) -> None:
        """So does a change of a node that no look before has seen."""
        self.counting.held = held = []
        self.offer("t", "1-m", 1)
        self.soon()
        held.pop().callback(None)
        address, count = held
        address.callback(None)
        held[2].callback(None)
        self.master(1)
        self.clock.advance(0)
        self.counting.held = None
        count.callback(None)
        self.assertEqual(self.names(), ["0-0"])
        self.soon()
        self.assertEqual(self.names(), ["0-0", "1-0"])

    def test_forget(self) -> None:
        """A forgotten topic is not looked at; asking again begins anew."""
        self.discovery.forget("t")
        self.assertIsNone(self.discovery.routes("t"))
        before = self.counting.total
        self.offer("t", "0-m", 2)
        self.clock.pump([1.0] * 100)
        self.assertEqual(self.counting.total, before)
        self.assertEqual(len(self.publish().partitions), 2)

    def test_listener_that_forgets(self) -> None:
        """A listener may forget the topic it is told of, or stop it all."""
        self.discovery.on_routes(lambda routes: self.discovery.forget(routes.topic))
        self.discovery.on_routes(lambda _: self.discovery.stopService())
        self.offer("t", "0-m", 2)
        self.soon()
        self.assertEqual(len(self.told), 2)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_no_longer_told(self) -> None:
        """What `on_routes` returns ends the telling."""
        told: list[PublishRoutes] = []
        stop = self.discovery.on_routes(told.append)
        stop()
        stop()
        self.offer("t", "0-m", 2)
        self.soon()
        self.assertEqual((len(told), len(self.told)), (0, 2))


class OutageTests(TreeCase):
    """The coordinator away, expired, or refusing."""

    def test_unreachable(self) -> None:
        """`publish` fails with the reason after its patience; the topic is followed,
        and the routes are told of once they can be read."""
        self.counting.error = ConnectionLost()
        waiting = self.discovery.publish("t")
        self.clock.pump([0.5] * int(2 * PATIENCE_S - 1))
        self.assertNoResult(waiting)
        self.clock.advance(0.5)
        error = self.failureResultOf(waiting, NotConnected).value
        self.assertIn("no connection to the coordinator", str(error))
        self.assertEqual(error.topic, "t")
        self.assertEqual(self.told, [])
        self.counting.error = None
        self.clock.pump([1.0] * 31)
        self.assertEqual(self.told, [PublishRoutes("t")])

    def test_connected_later(self) -> None:
        """A wait that began without a connection ends soon after there is one."""
        self.own.suspend()
        waiting = self.discovery.publish("t")
        self.clock.pump([1.0] * 3)
        self.own.open(self.tree.realm)
        self.soon()
        self.assertEqual(self.successResultOf(waiting), PublishRoutes("t"))

    def test_hopeless(self) -> None:
        """A refusal is told at once, though it goes on trying."""
        self.counting.error = NotAuthorized()
        failure = self.failureResultOf(self.discovery.publish("t"), ClientError)
        self.assertFalse(failure.value.retriable)
        self.counting.error = None
        self.clock.advance(1)
        self.assertEqual(self.discovery.routes("t"), PublishRoutes("t"))

    def test_backoff(self) -> None:
        """Looks that fail come further and further apart."""
        self.counting.error = ConnectionLost()
        self.discovery.publish("t").addErrback(lambda _: None)
        self.clock.pump([0.5] * 240)
        self.assertLessEqual(self.counting.total, 10)

    def test_routes_outlive(self) -> None:
        """What was known stays in use while the coordinator is away."""
        self.master(0)
        self.offer("t", "0-m", 1)
        before = self.publish()
        readers = self.successResultOf(self.discovery.readers(0))
        self.own.suspend()
        self.clock.pump([1.0] * 120)
        self.assertEqual(self.publish(), before)
        self.assertEqual(self.successResultOf(self.discovery.readers(0)), readers)
        self.assertEqual(len(self.told), 1)
        asked = (self.discovery.partitions("t"), self.discovery.topics())
        self.clock.advance(PATIENCE_S)
        for one in asked:
            self.failureResultOf(one, NotConnected)

    def test_expiry(self) -> None:
        """After an expired session everything is watched anew."""
        self.master(0)
        self.offer("t", "0-m", 1)
        self.publish()
        watches = len(self.own.watching)
        self.own.open(self.tree.realm)
        self.soon()
        self.assertEqual(len(self.told), 1)
        self.assertEqual(len(self.own.watching), watches)
        self.master(0, "meta://elsewhere:9000")
        self.soon()
        self.assertEqual(self.told[-1].addresses, {0: "meta://elsewhere:9000"})

    def test_cancel(self) -> None:
        """A cancelled wait ends alone."""
        self.counting.error = ConnectionLost()
        first, second = self.discovery.publish("t"), self.discovery.publish("t")
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.counting.error = None
        self.clock.advance(1)
        self.assertEqual(self.successResultOf(second), PublishRoutes("t"))

    def test_stop(self) -> None:
        """A stop ends all waits, reads, watches and timers; later calls are refused."""
        self.master(0)
        self.offer("t", "0-m", 1)
        self.publish()
        self.counting.held = held = []
        waiting = [
            self.discovery.publish("u"),
            self.discovery.readers(5),
            self.discovery.partitions("u"),
            self.discovery.topics(),
        ]
        forgotten = self.discovery.publish("v")
        self.discovery.forget("v")
        self.failureResultOf(forgotten, ClientStopped)
        self.discovery.stopService()
        for one in waiting:
            self.failureResultOf(one, ClientStopped)
        for gate in held:
            if not gate.called:
                gate.callback(None)
        self.failureResultOf(self.discovery.publish("t"), ClientStopped)
        self.failureResultOf(self.discovery.readers(0), ClientStopped)
        self.assertEqual(len(self.own.watching), 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])
