"""Sending: bytes, batches, bounded memory, cancelling."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import (
    BufferFull,
    Forbidden,
    InvalidMessage,
)
from metatwist.client.message import Message, SendResult
from metatwist.client.producing.room import ENVELOPE_BYTES
from metatwist.coordination.names import PartitionName
from tests.client.producing.fakes import World, message


class BytesTest(SynchronousTestCase):
    """What travels (spec client 5.4, spec wire-protocol 2.2)."""

    def test_attributes(self) -> None:
        """Without, with and with an empty attribute: flag and payload."""
        cases = (
            (None, 0, b"hello"),
            ("héy", 1, b"\0\0\0\x04h\xc3\xa9yhello"),
            ("", 1, b"\0\0\0\0hello"),
        )
        for attribute, flag, payload in cases:
            world = World.ready({0: 1})
            world.producer.send(message(b"hello", attribute=attribute))
            put = world.link(0).take()
            self.assertEqual(
                (put.prefix, put.flag, put.payload), (b"put t 0 ", flag, payload)
            )

    def test_empty_body(self) -> None:
        """A message may have no body at all."""
        world = World.ready({0: 1})
        world.producer.send(message(b""))
        self.assertEqual(world.link(0).take().payload, b"")

    def test_invalid(self) -> None:
        """What is no message is refused before anything is sent."""
        world = World.ready({0: 1}, most_message_bytes=10)
        bad = (
            message("text"),  # type: ignore[arg-type]
            message(None),  # type: ignore[arg-type]
            message(b"x", attribute=b"bytes"),
            message(b"x", attribute="\ud800"),
            message(b"x" * 11),
            message(b"x" * 6, attribute="x"),
            message(b"x", key="\ud800"),
            message(b"x", key=2**70),
            message(b"x", key=object()),
        )
        for one in bad:
            error = self.failureResultOf(world.producer.send(one), InvalidMessage)
            self.assertEqual(error.value.topic, "t")
        self.assertEqual(world.link(0).all_puts, [])
        world.producer.send(message(b"x" * 10))
        self.assertEqual(len(world.link(0).all_puts), 1)


class BatchTest(SynchronousTestCase):
    """`send_many`."""

    def test_order(self) -> None:
        """Outcomes are in the order of the messages, whatever the order of answers."""
        world = World.ready({0: 1}, retries=0)
        every = [message(b"0"), message(5), message(b"2"), message(b"3")]  # type: ignore[arg-type]
        sent = world.producer.send_many(every)
        first, third, fourth = world.link(0).puts
        fourth.store(300)
        third.refuse(403)
        self.assertNoResult(sent)
        first.store(100)
        outcomes = self.successResultOf(sent)
        place = PartitionName(0, 0)
        self.assertEqual(outcomes[0], SendResult(7, place, 100))
        self.assertIsInstance(outcomes[1], InvalidMessage)
        self.assertIsInstance(outcomes[2], Forbidden)
        self.assertEqual(outcomes[3], SendResult(7, place, 300))

    def test_none(self) -> None:
        """No messages are done at once."""
        self.assertEqual(self.successResultOf(World().producer.send_many([])), [])

    def test_all_invalid(self) -> None:
        """A batch of which nothing can be sent ends at once."""
        sent = World().producer.send_many([Message("", b"")] * 3)
        self.assertEqual(len(self.successResultOf(sent)), 3)

    def test_answered_at_once(self) -> None:
        """Answers may come while the batch is being sent."""
        world = World.ready({0: 1})
        world.link(0).answer = lambda put: put.store()
        sent = world.producer.send_many(message() for _ in range(5))
        self.assertEqual(len(self.successResultOf(sent)), 5)

    def test_cancelled(self) -> None:
        """What is under way goes on unwatched, what waits is not sent."""
        size = ENVELOPE_BYTES + 5
        world = World.ready({0: 1}, most_buffered_bytes=2 * size)
        sent = world.producer.send_many([message()] * 5)
        self.assertEqual(len(world.link(0).puts), 2)
        sent.cancel()
        self.failureResultOf(sent, CancelledError)
        world.link(0).take().store()
        world.link(0).take().refuse(403)
        self.assertEqual(len(world.link(0).all_puts), 2)
        self.assertEqual(world.producer.counters.cancelled, 3)
        self.assertEqual(world.producer.buffered_bytes, 0)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_cancelled_before_there_was_room(self) -> None:
        """One that waits for room is not sent when another of the cancelled batch
        gives its room back."""
        world = World.ready({0: 1}, most_buffered_bytes=1)
        sent = world.producer.send_many([Message("homeless", b""), message()])
        sent.cancel()
        self.failureResultOf(sent, CancelledError)
        self.assertEqual(world.link(0).all_puts, [])


class RoomTest(SynchronousTestCase):
    """Bounded memory."""

    def setUp(self) -> None:
        self.size = ENVELOPE_BYTES + 5
        self.world = World.ready({0: 1}, most_buffered_bytes=2 * self.size)
        self.link = self.world.link(0)
        self.producer = self.world.producer

    def test_waits_in_order(self) -> None:
        """Past the mark messages wait, first come first served."""
        sent = [self.producer.send(message(b"%05d" % one)) for one in range(4)]
        self.assertEqual(len(self.link.puts), 2)
        self.assertEqual(self.producer.buffered_bytes, 2 * self.size)
        self.link.take().store()
        self.assertEqual(self.link.puts[1].payload, b"00002")
        while self.link.puts:
            self.link.take().store()
        for one in sent:
            self.successResultOf(one)
        self.assertEqual(self.producer.buffered_bytes, 0)

    def test_no_overtaking(self) -> None:
        """A small message does not pass a large one that waits."""
        self.producer.send(message())
        self.producer.send(message(b"x" * (self.size + 1)))
        self.producer.send(message(b""))
        self.assertEqual(len(self.link.puts), 1)
        self.link.take().store()
        self.assertEqual([len(put.payload) for put in self.link.puts], [self.size + 1])

    def test_larger_than_all(self) -> None:
        """One larger than the whole room goes when it is alone."""
        large = message(b"x" * 3 * self.size)
        self.producer.send(large)
        self.assertEqual(len(self.link.puts), 1)
        self.producer.send(large)
        self.assertEqual(len(self.link.puts), 1)
        self.link.take().store()
        self.assertEqual(len(self.link.puts), 1)

    def test_many_wait(self) -> None:
        """Thousands may wait, and answers at once do not exhaust the stack."""
        first = self.producer.send(message(b"x" * 2 * self.size))
        sent = [self.producer.send(message()) for _ in range(3000)]
        held = self.link.take()
        self.link.answer = lambda put: put.store()
        held.store()
        self.successResultOf(first)
        for one in sent:
            self.successResultOf(one)

    def test_try_send(self) -> None:
        """`try_send` refuses at once and takes nothing."""
        for _ in range(2):
            self.producer.try_send(message())
        with self.assertRaises(BufferFull):
            self.producer.try_send(message())
        self.link.take().store()
        sent = self.producer.try_send(message())
        self.assertEqual(len(self.link.puts), 2)
        self.link.puts[1].store()
        self.successResultOf(sent)

    def test_no_room_in_time(self) -> None:
        """Waiting for room counts in the message's time."""
        for _ in range(2):
            self.producer.send(message())
        late = self.producer.send(message(), timeout_s=1)
        self.world.clock.advance(1)
        self.failureResultOf(late, BufferFull)
        self.link.take().store()
        self.assertEqual(len(self.link.all_puts), 2)


class CancelTest(SynchronousTestCase):
    """Cancelling `send` at each stage."""

    def cancel(self, world: World, sent: object) -> None:
        sent.cancel()  # type: ignore[attr-defined]
        self.failureResultOf(sent, CancelledError)  # type: ignore[arg-type]

    def test_waiting_for_room(self) -> None:
        """It is not sent, and gives no room back that it never had."""
        world = World.ready({0: 1}, most_buffered_bytes=1)
        world.producer.send(message())
        waiting = world.producer.send(message())
        self.cancel(world, waiting)
        world.link(0).take().store()
        self.assertEqual(len(world.link(0).all_puts), 1)
        self.assertEqual(world.producer.buffered_bytes, 0)

    def test_waiting_for_a_broker(self) -> None:
        """It is not sent."""
        world = World()
        self.cancel(world, world.producer.send(message()))
        world.discovery.set("t", {0: 1})
        world.link(0).connect()
        self.assertEqual(world.link(0).all_puts, [])
        self.assertEqual(world.producer.buffered_bytes, 0)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_under_way(self) -> None:
        """The wait ends; its room is free when the answer has come."""
        world = World.ready({0: 1})
        self.cancel(world, world.producer.send(message()))
        self.assertGreater(world.producer.buffered_bytes, 0)
        world.link(0).take().store()
        self.assertEqual(world.producer.buffered_bytes, 0)

    def test_refused_after(self) -> None:
        """One that is refused after that is not put again."""
        world = World.ready({0: 2})
        self.cancel(world, world.producer.send(message()))
        world.link(0).take().refuse(403)
        world.clock.advance(5)
        self.assertEqual(len(world.link(0).all_puts), 1)

    def test_in_a_pause(self) -> None:
        """One that waits to be put again is not."""
        world = World.ready({0: 1})
        sent = world.producer.send(message())
        world.link(0).take().refuse(403)
        self.cancel(world, sent)
        world.clock.advance(5)
        self.assertEqual(len(world.link(0).all_puts), 1)
        self.assertEqual(world.producer.buffered_bytes, 0)


class OneWayTest(SynchronousTestCase):
    """`send_one_way` of the plain producer."""

    def test_stored(self) -> None:
        """It is sent as any other, and counted."""
        world = World.ready({0: 2})
        world.producer.send_one_way(message())
        world.link(0).take().refuse(403)
        world.link(0).take().store()
        self.assertEqual(world.producer.counters.stored, 1)
        self.assertEqual(world.producer.counters.dropped, 0)

    def test_never_raises(self) -> None:
        """Refused, invalid, without room, after the stop: dropped and counted."""
        world = World.ready({0: 1}, retries=0, most_buffered_bytes=1)
        world.producer.send_one_way(message())
        world.producer.send_one_way(message())
        world.link(0).take().refuse(500)
        world.producer.send_one_way(Message("a b", b""))
        self.successResultOf(world.producer.stop())
        world.producer.send_one_way(message())
        self.assertEqual(world.producer.counters.dropped, 4)

    def test_no_messages_at_all(self) -> None:
        """Not even something that is no body disturbs the caller."""
        world = World.ready({0: 1})
        for body in (None, 5, "text"):
            world.producer.send_one_way(message(body))  # type: ignore[arg-type]
        self.assertEqual(world.producer.counters.dropped, 3)
