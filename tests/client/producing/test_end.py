"""Flushing and stopping a producer."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import (
    ClientStopped,
    NotConnected,
    RequestTimedOut,
)
from metatwist.client.message import Message
from tests.client.producing.fakes import World, message


class EndTest(SynchronousTestCase):
    """`flush` and `stop`."""

    def test_flush(self) -> None:
        """It fires when all that was sent before it has ended, not what came after."""
        world = World.ready({0: 1}, retries=0)
        self.successResultOf(world.producer.flush())
        failed = world.producer.send(message())
        world.producer.send(message())
        flushed, again = world.producer.flush(), world.producer.flush()
        world.producer.send(message())
        later = world.producer.flush()
        world.link(0).take().refuse(500)
        self.failureResultOf(failed)
        self.assertNoResult(flushed)
        world.link(0).take().store()
        self.successResultOf(flushed)
        self.successResultOf(again)
        self.assertNoResult(later)
        world.link(0).take().store()
        self.successResultOf(later)
        self.successResultOf(world.producer.flush())

    def test_flush_out_of_order(self) -> None:
        """A later message that ends first does not let an earlier flush fire, nor a
        later flush before it."""
        world = World.ready({0: 1})
        world.producer.send(message())
        first = world.producer.flush()
        world.producer.send(message())
        second = world.producer.flush()
        world.link(0).puts.pop().store()
        self.assertNoResult(first)
        self.assertNoResult(second)
        world.link(0).take().store()
        self.successResultOf(first)
        self.successResultOf(second)

    def test_flush_cancelled(self) -> None:
        """Cancelling it is harmless."""
        world = World.ready({0: 1})
        sent = world.producer.send(message())
        flushed = world.producer.flush()
        flushed.cancel()
        self.failureResultOf(flushed, CancelledError)
        world.link(0).take().store()
        self.successResultOf(sent)

    def test_drains(self) -> None:
        """It takes nothing more, waits for what is under way and lets go."""
        world = World.ready({0: 1})
        sent = world.producer.send(message())
        stopped = world.producer.stop(5)
        self.failureResultOf(world.producer.send(message()), ClientStopped)
        self.assertNoResult(stopped)
        world.link(0).take().store()
        self.successResultOf(sent)
        self.successResultOf(stopped)
        self.successResultOf(world.producer.stop())
        self.assertEqual(world.link(0).holders, set())
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_deadline(self) -> None:
        """At the deadline every Deferred fires: under way as unknown, the rest as
        certainly not sent, which then it never is."""
        world = World.ready({0: 1}, most_buffered_bytes=1)
        under_way = world.producer.send(message())
        batch = world.producer.send_many([message()])
        for_room = world.producer.send(message())
        stopped = world.producer.stop(2)
        world.clock.advance(2)
        self.successResultOf(stopped)
        unknown = self.failureResultOf(under_way, ClientStopped).value
        self.assertTrue(unknown.outcome_unknown)
        (outcome,) = self.successResultOf(batch)
        self.assertFalse(outcome.outcome_unknown)
        certain = self.failureResultOf(for_room, ClientStopped).value
        self.assertFalse(certain.outcome_unknown)
        world.link(0).take().store()
        self.assertEqual(len(world.link(0).all_puts), 1)
        self.assertEqual(world.producer.buffered_bytes, 0)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_deadline_in_each_wait(self) -> None:
        """Messages that wait for a broker or for their pause end as well."""
        world = World.ready({0: 1})
        paused = world.producer.send(message())
        world.link(0).take().refuse(403)
        homeless = world.producer.send(Message("other", b""))
        stopped = world.producer.stop(0)
        world.clock.advance(0)
        self.successResultOf(stopped)
        for one in (paused, homeless):
            self.failureResultOf(one, ClientStopped)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_stop_sooner(self) -> None:
        """A second stop may have less patience."""
        world = World.ready({0: 1})
        sent = world.producer.send(message())
        first, second = world.producer.stop(100), world.producer.stop(1)
        world.clock.advance(1)
        self.failureResultOf(sent, ClientStopped)
        self.successResultOf(first)
        self.successResultOf(second)

    def test_sends_from_a_callback(self) -> None:
        """A callback that sends at once is no surprise, nor is one at the end."""
        world = World.ready({0: 1})
        sent = world.producer.send(message())
        again = sent.addBoth(lambda _: world.producer.send(message()))
        stopped = world.producer.stop(1)
        world.clock.advance(1)
        self.failureResultOf(again, ClientStopped)
        self.successResultOf(stopped)

    def test_waiting_ends_in_time(self) -> None:
        """A stop while nothing is known still drains what finds a broker."""
        world = World()
        sent = world.producer.send(message())
        stopped = world.producer.stop(5)
        world.discovery.set("t", {0: 1})
        world.link(0).connect()
        world.link(0).take().store()
        self.successResultOf(sent)
        self.successResultOf(stopped)

    def test_who_waits_for_a_change_hears_of_it(self) -> None:
        """`changed` fires at the stop at the latest."""
        world = World.ready({0: 1})
        changed = world.producer.changed("t")
        self.assertNoResult(changed)
        self.successResultOf(world.producer.stop())
        self.successResultOf(changed)

    def test_counters(self) -> None:
        """Everything is counted."""
        world = World.ready({0: 1}, retries=1)
        sent = world.producer.send_many([message()] * 3)
        world.link(0).take().store()
        world.link(0).take().answered(RequestTimedOut("late"))
        world.link(0).take().answered(NotConnected("unsent"))
        world.clock.advance(0.1)
        world.link(0).take().store()
        self.successResultOf(sent)
        counters = world.producer.counters
        counted = (counters.sent, counters.stored, counters.failed, counters.retried)
        self.assertEqual(counted, (4, 2, 1, 1))
