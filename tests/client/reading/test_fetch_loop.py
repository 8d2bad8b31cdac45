"""Answers and what follows them: pauses, polls, failures, an idle hour."""

from __future__ import annotations

import gc

from metatwist.client.errors import (
    Forbidden,
    NotConnected,
    RequestTimedOut,
    ServerFailed,
)
from metatwist.client.events import FetchFailed, PartitionStopped
from metatwist.wire.commands import GetCommand, OffsetCommand, PollCommand
from tests.client.reading.fakes import (
    LogBroker,
    World,
    log_of,
    partition,
    payloads,
    result,
    value,
)
from tests.client.reading.loop_case import SETTINGS, LoopCase


class PauseTests(LoopCase):
    """When the next fetch comes."""

    def test_nothing(self) -> None:
        """Pauses after nothing grow to their bound, for 404 as for 403."""
        for code in (404, 403):
            self.begin()
            self.assertEqual(
                self.pauses(6, result(code, "no")), [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
            )

    def test_data_starts_anew(self) -> None:
        """After data the next fetch is at once, and pauses begin anew."""
        self.begin()
        replies = [result(404), result(404), value(log_of(b"a")), result(404)]
        self.assertEqual(self.pauses(5, *replies), [1.0, 2.0, 0.0, 1.0, 2.0])

    def test_failures(self) -> None:
        """Failures have pauses of their own, that grow to their own bound."""
        self.begin()
        self.assertEqual(
            self.pauses(5, result(500, "disk")), [2.0, 4.0, 8.0, 10.0, 10.0]
        )

    def test_apart(self) -> None:
        """An answer ends a row of failures; they do not add up (W22)."""
        self.begin()
        replies = [result(404), result(503), result(404), result(503), result(404)]
        self.assertEqual(self.pauses(5, *replies), [1.0, 2.0, 2.0, 2.0, 4.0])

    def test_moved(self) -> None:
        """After a 301 that leads on, the next fetch is at once (W22)."""
        self.begin()
        self.assertEqual(self.pauses(2, result(301, "50"), result(404)), [0.0, 1.0])

    def test_moved_nowhere(self) -> None:
        """After a 301 to the same offset there is a pause, and a larger fetch."""
        self.begin()
        self.assertEqual(self.pauses(3, result(301, "0")), [1.0, 2.0, 4.0])
        self.assertEqual(self.link.gets, [(0, 64), (0, 128), (0, 256), (0, 512)])

    def test_slow_nothing(self) -> None:
        """The time that the broker took counts as pause."""
        self.begin()
        self.clock.advance(0.75)
        self.assertEqual(self.pauses(1, result(404)), [0.25])


class PollTests(LoopCase):
    """Brokers that can wait."""

    def setUp(self) -> None:
        self.begin()
        self.link.can = frozenset({"poll"})
        self.link.answer(value(log_of(b"a")))

    def test_command(self) -> None:
        """They are polled, and given the time of the wait and of a fetch."""
        poll = PollCommand("orders", "group", 0, 21, 64, 20000, 0)
        self.assertEqual(self.link.commands[-1], poll)
        self.assertEqual(self.link.timeouts[-1], 23)

    def test_waited(self) -> None:
        """A poll that waited in vain is followed by another at once."""
        for _ in range(3):
            asked = len(self.link.gets)
            self.clock.advance(20)
            self.link.answer(result(404))
            while isinstance(self.link.commands[-1], OffsetCommand):
                self.link.answer(result(200, "21"))
            self.assertEqual(len(self.link.gets), asked + 1)

    def test_did_not_wait(self) -> None:
        """A poll that is answered at once without data is followed by a pause."""
        self.assertEqual(self.pauses(3, result(403, "closed")), [1.0, 2.0, 4.0])

    def test_unknown(self) -> None:
        """Where the question for extensions fails, it is a plain get."""
        self.link.can = RequestTimedOut("silent")
        self.link.answer(value(log_of(b"b")))
        self.assertIsInstance(self.link.commands[-1], GetCommand)


class FailureTests(LoopCase):
    """Brokers that do not answer."""

    def test_told(self) -> None:
        """Each failure is told with its place in the row, and where."""
        self.begin(9)
        self.pauses(3, result(500, "disk"))
        told = self.world.told(FetchFailed)
        self.assertEqual([event.failures for event in told], [1, 2, 3])
        error = told[0].error
        self.assertIsInstance(error, ServerFailed)
        self.assertEqual((error.offset, error.partition), (9, partition().partition))

    def test_closed_is_told_less_often(self) -> None:
        """A closed partition is told of when it is found, then ever more rarely."""
        self.begin()
        self.pauses(9, result(403, "closed"))
        told = self.world.told(FetchFailed)
        self.assertEqual([event.failures for event in told], [1, 2, 4, 8])
        self.assertIsInstance(told[0].error, Forbidden)

    def test_connection_lost(self) -> None:
        """After a lost connection it is asked who serves the partition, and the fetch
        is made again there; nothing is lost."""
        self.begin(21)
        self.world.discovery.addresses[0] = ("meta://other:8123",)
        other = self.world.brokers.link("meta://other:8123")
        self.link.lose()
        self.clock.advance(2)
        self.assertEqual(other.gets, [(21, 64)])
        self.assertEqual(self.link.owners, set())
        self.assertEqual(len(other.owners), 1)

    def test_each_slave(self) -> None:
        """With several slaves a failure takes the next one."""
        self.begin()
        slaves = ("meta://a:1", "meta://b:1")
        self.world.discovery.addresses[0] = slaves
        a, b = map(self.world.brokers.link, slaves)
        self.link.lose()
        self.clock.advance(2)
        b.fail(RequestTimedOut("silent"))
        self.clock.advance(4)
        self.assertEqual((len(a.gets), len(b.gets)), (1, 1))
        self.assertEqual((len(a.owners), len(b.owners)), (1, 0))

    def test_no_discovery(self) -> None:
        """While discovery does not work, the broker that was known is read on."""
        self.begin()
        for addresses in (NotConnected("no coordinator"), ()):
            self.world.discovery.addresses[0] = addresses
            self.link.fail(RequestTimedOut("silent"))
            self.clock.advance(4)
            self.assertEqual(len(self.link.waiting), 1)

    def test_nobody(self) -> None:
        """A broker that nobody serves is waited for."""
        world = World(SETTINGS)
        world.discovery.addresses[0] = ()
        feed = world.feed()
        self.assertIsInstance(world.told(FetchFailed)[0].error, NotConnected)
        world.discovery.addresses[0] = (world.link.address,)
        world.clock.advance(2)
        world.link.answer(value(log_of(b"a")))
        self.successResultOf(feed.next())

    def test_dead_broker_stalls_its_own(self) -> None:
        """A broker that cannot be reached stalls its own partitions alone (W2)."""
        world = World(SETTINGS)
        world.link.auto = LogBroker(log_of(b"a"))
        world.discovery.addresses[1] = ("meta://dead:1",)
        dead = world.brokers.link("meta://dead:1")
        dead.connected = False
        other = type(world.feed())(partition(0, 1), 0, world.context)
        other.begin()
        feed = world.feed()
        self.successResultOf(feed.next())
        self.assertNoResult(other.next())
        for _ in range(3):
            dead.refuse()
            world.clock.advance(10)
        self.assertEqual(len(world.told(FetchFailed)), 3)
        dead.auto = LogBroker(log_of(b"b"))
        dead.connect()
        self.assertEqual(len(dead.gets), 2)

    def test_broken_by_a_defect(self) -> None:
        """An unforeseen exception is logged and told; the feed can be stopped."""
        self.begin()
        self.link.waiting.pop(0).errback(ZeroDivisionError("defect"))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        (stopped,) = self.world.told(PartitionStopped)
        self.assertIn("defect", str(stopped.error))
        self.feed.stop()


class IdleHourTests(LoopCase):
    """Long times without messages."""

    def test_bounded(self) -> None:
        """After an idle hour there is one timer, and no more objects than after the
        first minute; a message still comes."""
        self.serve(LogBroker(log_of(b"a")))
        self.drain()
        waiting = self.feed.next()
        self.clock.pump([1.0] * 60)
        before = self.objects()
        for _ in range(60):
            self.clock.pump([1.0] * 60)
            self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.assertLess(self.objects() - before, 100)
        self.assertEqual(self.world.events, [])
        self.broker.data += log_of(b"b")
        self.clock.advance(8)
        self.assertEqual(payloads(self.successResultOf(waiting).messages), [b"b"])

    def objects(self) -> int:
        self.link.commands.clear()
        self.link.timeouts.clear()
        gc.collect()
        return len(gc.get_objects())
