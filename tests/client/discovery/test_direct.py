"""Brokers known by their addresses alone."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.client.discovery.asked_broker import PERIOD_S
from metatwist.client.discovery.direct import GRACE_S, PATIENCE_S, DirectDiscovery
from metatwist.client.errors import ClientStopped, NotConnected
from metatwist.client.interfaces import IDiscovery, PublishRoutes
from tests.client.discovery.fake_brokers import FakeBrokers, FakeLink

A, B = "meta://a:1", "meta://b:1"


class DirectCase(SynchronousTestCase):
    """Two brokers, 0 and 1, which a test may change before `start`."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.brokers = FakeBrokers()
        self.a: FakeLink = self.brokers.link(A)
        self.b: FakeLink = self.brokers.link(B)
        self.b.id = "1"
        self.discovery = DirectDiscovery(self.clock, self.brokers, ["a:1", B, "A:1"])
        self.told: list[PublishRoutes] = []
        self.discovery.on_routes(self.told.append)

    def start(self) -> None:
        """Begin to ask."""
        self.discovery.startService()

    def publish(self, topic: str = "t") -> list[str]:
        """The partitions a topic can be sent to."""
        routes = self.successResultOf(self.discovery.publish(topic))
        return [str(one) for one in routes.partitions]


class RoutesTests(DirectCase):
    """What is made of the answers."""

    def test_interface(self) -> None:
        """It is an IDiscovery; addresses are checked."""
        self.assertTrue(verifyObject(IDiscovery, self.discovery))
        for addresses in ([], ["nowhere"]):
            with self.assertRaises(ValueError):
                DirectDiscovery(self.clock, self.brokers, addresses)

    def test_known(self) -> None:
        """Partitions up to the highest with a log; brokers without any are left out."""
        self.a.logs = [("t", 2), ("t", 10), ("u", 11)]
        self.start()
        self.assertEqual(self.publish(), [f"0-{number}" for number in range(11)])
        routes = self.discovery.routes("t")
        assert routes is not None
        self.assertEqual(routes.addresses, {0: A})

    def test_unknown(self) -> None:
        """Where no broker has a log, each may choose a partition."""
        self.start()
        self.assertEqual(self.publish(), ["0--1", "1--1"])

    def test_partitions(self) -> None:
        """Consumers get the partitions with a log, in the order of numbers."""
        self.a.logs = [("t", 10), ("t", 2)]
        self.b.logs = [("t", 0)]
        self.start()
        found = self.successResultOf(self.discovery.partitions("t"))
        self.assertEqual([str(one) for one in found], ["0-2", "0-10", "1-0"])
        self.assertEqual(self.successResultOf(self.discovery.partitions("u")), ())

    def test_readers(self) -> None:
        """A broker is read at its address."""
        self.start()
        self.assertEqual(self.successResultOf(self.discovery.readers(1)), (B,))
        self.assertEqual(self.successResultOf(self.discovery.readers(7)), ())

    def test_same_ids(self) -> None:
        """The second broker of the same id gets one that no broker has of its own, as
        does one without."""
        self.b.id = "0"
        self.start()
        self.assertEqual(self.publish(), ["0--1", "1025--1"])
        self.assertEqual(self.successResultOf(self.discovery.readers(1025)), (B,))

    def test_no_id(self) -> None:
        """A broker that tells no id gets one by its position, and keeps it."""
        self.a.id = None
        self.start()
        self.assertEqual(self.publish(), ["1--1", "1024--1"])
        self.a.id = "5"
        self.clock.advance(PERIOD_S)
        self.assertEqual(self.publish(), ["1--1", "1024--1"])


class OfferedTests(DirectCase):
    """Brokers that tell what they offer."""

    def setUp(self) -> None:
        super().setUp()
        self.a.offered = ["partitions t 2", "partitions u 1", "readable u 3"]
        self.b.offered = []

    def read(self, topic: str) -> list[str]:
        """The partitions that consumers get."""
        found = self.successResultOf(self.discovery.partitions(topic))
        return [str(one) for one in found]

    def test_before_the_first_message(self) -> None:
        """All configured partitions are there, stored or not, and nothing else is
        asked."""
        self.a.logs = [("t", 0)]
        self.start()
        self.assertEqual(self.publish(), ["0-0", "0-1"])
        self.assertEqual(self.read("t"), ["0-0", "0-1"])
        self.assertEqual(self.a.asked, ["", "extensions"])

    def test_more_to_read(self) -> None:
        """Consumers may get more partitions than producers."""
        self.start()
        self.assertEqual(self.publish("u"), ["0-0"])
        self.assertEqual(self.read("u"), ["0-0", "0-1", "0-2"])

    def test_unlisted(self) -> None:
        """A topic that no broker lists may be made by any of them."""
        self.start()
        self.assertEqual(self.publish("new"), ["0--1", "1--1"])
        self.assertEqual(self.read("new"), [])

    def test_refusing(self) -> None:
        """A broker that lists a topic with 0 partitions is sent nothing, a broker that
        may make it is."""
        self.a.offered = ["partitions t 0", "readable t 3"]
        self.start()
        self.assertEqual(self.publish(), ["1--1"])
        self.assertEqual(self.read("t"), ["0-0", "0-1", "0-2"])

    def test_all_refuse(self) -> None:
        """Where every broker lists a topic with 0 partitions there are no routes."""
        self.a.offered = self.b.offered = ["partitions t 0"]
        self.start()
        self.assertEqual(self.publish(), [])

    def test_beside_the_original(self) -> None:
        """Brokers of the original count with the partitions that have a log."""
        self.b.offered, self.b.logs = None, [("t", 1)]
        self.start()
        self.assertEqual(self.publish(), ["0-0", "0-1", "1-0", "1-1"])
        self.assertEqual(self.read("t"), ["0-0", "0-1", "1-1"])

    def test_upgrade(self) -> None:
        """A broker that is replaced by one of ours is noticed."""
        self.a.offered, self.a.logs = None, [("t", 0)]
        self.start()
        self.assertEqual(self.publish(), ["0-0"])
        self.a.offered = ["partitions t 3"]
        self.clock.advance(PERIOD_S)
        self.assertEqual(self.publish(), ["0-0", "0-1", "0-2"])


class ChangeTests(DirectCase):
    """What happens later."""

    def test_more_partitions(self) -> None:
        """New logs are noticed within a minute, and told of once."""
        self.start()
        self.publish()
        self.assertEqual(len(self.told), 1)
        self.a.logs = [("t", 0)]
        self.clock.pump([1.0] * int(2 * PERIOD_S))
        self.assertEqual(self.publish(), ["0-0"])
        self.assertEqual(len(self.told), 2)

    def test_refresh(self) -> None:
        """`refresh` asks again within half a second, once for many calls."""
        self.start()
        self.publish()
        self.b.logs = [("t", 0)]
        for _ in range(10):
            self.discovery.refresh("t")
        self.clock.pump([0.1] * 6)
        self.assertEqual(self.publish(), ["1-0"])
        self.assertEqual(self.a.asked, ["", "extensions", "offsets"] * 2)

    def test_unreachable(self) -> None:
        """A broker that is down delays nobody, and is found when it is up."""
        self.b.mode = "down"
        self.start()
        self.assertEqual(self.publish(), ["0--1"])
        self.b.mode = "up"
        self.clock.advance(1)
        self.assertEqual(self.publish(), ["0--1", "1--1"])

    def test_silent(self) -> None:
        """A broker that says nothing delays others by a second at most."""
        self.b.mode = "silent"
        self.start()
        waiting = self.discovery.publish("t")
        readers = self.discovery.readers(0)
        self.assertNoResult(waiting)
        self.clock.advance(GRACE_S)
        self.assertEqual(len(self.successResultOf(waiting).partitions), 1)
        self.assertEqual(self.successResultOf(readers), (A,))
        self.b.mode = "up"
        self.b.silent[0].callback(None)
        self.assertEqual(self.publish(), ["0--1", "1--1"])
        self.assertEqual(len(self.told), 2)

    def test_nobody(self) -> None:
        """When all fail, what was tried is told; it goes on and heals."""
        self.a.mode = self.b.mode = "down"
        waiting = self.discovery.publish("t")
        self.start()
        error = self.failureResultOf(waiting, NotConnected).value
        self.assertEqual([one.address for one in error.attempts], [A, B])
        late = self.discovery.publish("t")
        self.a.mode = "up"
        self.clock.pump([0.5] * 6)
        self.assertEqual(len(self.successResultOf(late).partitions), 1)

    def test_patience(self) -> None:
        """Nobody waits without end for brokers that say nothing."""
        self.a.mode = self.b.mode = "silent"
        self.start()
        waiting = self.discovery.publish("t")
        self.clock.advance(PATIENCE_S)
        self.failureResultOf(waiting, NotConnected)

    def test_outage(self) -> None:
        """What a broker said stays valid while it is away."""
        self.a.logs = [("t", 0)]
        self.start()
        self.publish()
        self.a.mode = "down"
        self.clock.pump([1.0] * 300)
        self.assertEqual(self.publish(), ["0-0"])
        self.assertEqual(len(self.told), 1)

    def test_refusal(self) -> None:
        """A broker that refuses to tell counts as one that fails."""
        self.a.code = self.b.code = 503
        waiting = self.discovery.publish("t")
        self.start()
        failure = self.failureResultOf(waiting, NotConnected)
        self.assertEqual(len(failure.value.attempts), 2)

    def test_forget(self) -> None:
        """A forgotten topic is not told of."""
        self.start()
        self.publish()
        self.discovery.forget("t")
        self.assertIsNone(self.discovery.routes("t"))
        self.a.logs = [("t", 0)]
        self.clock.advance(PERIOD_S)
        self.assertEqual(len(self.told), 1)

    def test_cancel(self) -> None:
        """A cancelled wait ends alone."""
        self.b.mode = "silent"
        self.start()
        first, second = self.discovery.publish("t"), self.discovery.publish("t")
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.clock.advance(GRACE_S)
        self.successResultOf(second)

    def test_stop(self) -> None:
        """A stop ends waits and timers and lets go of the links; later calls are
        refused."""
        self.b.mode = "silent"
        self.start()
        self.assertTrue(self.a.holders and self.b.holders)
        waiting = [
            self.discovery.publish("t"),
            self.discovery.readers(0),
            self.discovery.partitions("t"),
        ]
        self.discovery.stopService()
        for one in waiting:
            self.failureResultOf(one, ClientStopped)
        self.failureResultOf(self.discovery.publish("t"), ClientStopped)
        self.assertFalse(self.a.holders or self.b.holders)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.flushLoggedErrors(), [])
