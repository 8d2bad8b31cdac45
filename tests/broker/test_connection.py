"""One connection: answers in request order, what overtakes, pressure, and its end."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.broker import protocol as protocol_module
from tests.support.broker_parts import BrokerParts, get, has_fired, opaques, put

SMALL_BOUNDS = {
    "METATWIST_METATWIST_maxMessageBytes": "1000",
    "METATWIST_METATWIST_maxPendingBytes": "2000",
}
OFFSET = b"offset test g 0 0 %d\r\n"


class ConnectionCase(SynchronousTestCase):
    """A broker and one peer."""

    environ: dict[str, str] = {}

    def setUp(self) -> None:
        """Connect."""
        self.parts = BrokerParts(self, environ=self.environ)
        self.peer = self.parts.connect()


class OrderTests(ConnectionCase):
    """Answers of one connection."""

    def test_interfaces(self) -> None:
        """A connection can be half closed, and paused by its transport."""
        verifyObject(IHalfCloseableProtocol, self.peer.protocol)
        verifyObject(IPushProducer, self.peer.protocol)

    def test_put_waits_for_the_disk(self) -> None:
        """A put is answered when its fsync has ended, and not before."""
        self.peer.send(put(b"x"))
        self.parts.turn()
        self.assertEqual(self.peer.taken(), b"")
        self.parts.sync()
        self.assertEqual(opaques(self.peer.taken()), [1])

    def test_all_wait_for_the_put_before_them(self) -> None:
        """Gets, offsets and refusals behind a put are answered behind it."""
        self.peer.send(
            put(b"x", 1),
            get(0, 2),
            OFFSET % 3,
            put(b"x", 4, topic="nope"),
            b"transaction TX:s:1 s BEGIN 5\r\n",
            b"sync test 0 1 0 1 -1 6\r\nx",
        )
        self.parts.turn()
        self.assertEqual(self.peer.taken(), b"")
        self.parts.sync()
        self.assertEqual(opaques(self.peer.taken()), [1, 2, 3, 4, 5, 6])

    def test_get_sees_the_put_before_it(self) -> None:
        """A get that was sent behind a put finds it."""
        data = self.peer.ask(put(b"hello", 1), get(0, 2))
        self.assertTrue(data.endswith(b"hello"))

    def test_slower_partition_first(self) -> None:
        """An answer waits for one before it whose partition syncs later."""
        self.peer.send(put(b"x", 1, partition=0))
        self.parts.turn()
        self.peer.send(put(b"x", 2, partition=1))
        self.parts.turn()
        first, second = self.parts.syncer.waiting
        self.parts.syncer.waiting[:] = [second, first]
        self.parts.sync()
        self.assertEqual(self.peer.taken(), b"")
        self.parts.sync()
        self.assertEqual(opaques(self.peer.taken()), [1, 2])

    def test_version_and_stats_overtake(self) -> None:
        """Heartbeats and stats are answered while a put waits for the disk."""
        self.peer.send(put(b"x", 1), b"version 2\r\nstats help 3\r\n")
        self.assertEqual(opaques(self.peer.taken()), [2, 3])
        self.parts.settle()
        self.assertEqual(opaques(self.peer.taken()), [1])

    def test_other_connections_do_not_wait(self) -> None:
        """A put that waits delays nobody else's get."""
        self.peer.ask(put(b"hello"))
        self.peer.send(put(b"x"))
        self.parts.turn()
        self.assertEqual(opaques(self.parts.connect().ask(get(0, 7))), [7])

    def test_stray_replies_are_ignored(self) -> None:
        """A `result` or `value` from a peer has no answer."""
        data = self.peer.ask(b"value 1 1\r\na", b"result 200 0 2\r\n", get(0, 3))
        self.assertEqual(opaques(data), [3])

    def test_end_has_no_answer(self) -> None:
        """`END` is never answered."""
        data = self.peer.ask(b"transaction TX:s:1 s END 1\r\n", get(0, 2))
        self.assertEqual(opaques(data), [2])


class EndTests(ConnectionCase):
    """How a connection ends."""

    def test_quit_finishes_what_was_accepted(self) -> None:
        """`quit` behind a put reads no more, and closes once the put is answered."""
        self.peer.send(put(b"x"), b"quit\r\n")
        self.parts.turn()
        self.assertFalse(self.peer.is_read)
        self.assertFalse(self.peer.transport.disconnecting)
        self.parts.sync()
        self.assertEqual(opaques(self.peer.taken()), [1])
        self.assertTrue(self.peer.transport.disconnecting)

    def test_violation_finishes_what_was_accepted(self) -> None:
        """So does a request that breaks the grammar, which is counted."""
        self.peer.send(put(b"x"), b"nonsense\r\n", put(b"y", 2))
        self.parts.settle()
        self.assertEqual(opaques(self.peer.taken()), [1])
        self.assertTrue(self.peer.transport.disconnecting)
        self.assertEqual(self.parts.numbers.protocol_errors, 1)

    def test_half_close(self) -> None:
        """A peer that only ends its sending side still gets its answers."""
        self.peer.send(put(b"x"))
        self.peer.protocol.readConnectionLost()
        self.assertEqual(opaques(self.peer.ask()), [1])
        self.assertTrue(self.peer.transport.disconnecting)

    def test_nothing_is_read_after_the_end_began(self) -> None:
        """Bytes that arrive behind `quit` are ignored."""
        self.peer.send(b"quit\r\n")
        self.peer.send(put(b"x"))
        self.assertEqual(self.peer.ask(), b"")
        self.assertEqual(self.parts.numbers.messages_in, 0)

    def test_finish(self) -> None:
        """`finish` fires when the connection has ended, answers first."""
        self.peer.send(put(b"x"))
        ended = self.peer.protocol.finish()
        self.parts.settle()
        self.assertEqual(opaques(self.peer.taken()), [1])
        self.assertFalse(has_fired(ended))
        self.peer.lost()
        self.successResultOf(ended)

    def test_finish_twice(self) -> None:
        """Finishing a second time, after `quit` for instance, does no harm."""
        self.peer.send(b"quit\r\n")
        ended = self.peer.protocol.finish()
        self.peer.lost()
        self.successResultOf(ended)

    def test_lost_connection(self) -> None:
        """A put whose peer has gone is stored all the same."""
        self.peer.send(put(b"hello"))
        self.peer.lost()
        self.parts.settle()
        self.assertIn(b"hello", self.parts.connect().ask(get(0)))

    def test_connections_are_counted(self) -> None:
        """Open connections and all there ever were are counted."""
        other = self.parts.connect()
        self.assertEqual(self.parts.numbers.connections, 2)
        other.lost()
        self.assertEqual(self.parts.numbers.connections, 1)
        self.assertEqual(self.parts.numbers.connections_total, 2)


class PressureTests(ConnectionCase):
    """Who must stop sending."""

    environ = SMALL_BOUNDS

    def test_too_much_for_the_disk(self) -> None:
        """Past the bound a connection is not read, until half has gone."""
        self.peer.send(put(b"x" * 900, 1), put(b"x" * 900, 2), put(b"x" * 900, 3))
        self.assertFalse(self.peer.is_read)
        self.parts.turn()
        self.assertFalse(self.peer.is_read)
        self.assertEqual(self.parts.numbers.backpressure_pauses, 1)
        self.parts.sync()
        self.assertTrue(self.peer.is_read)
        self.assertEqual(opaques(self.peer.taken()), [1, 2, 3])

    def test_bound_is_for_all_connections(self) -> None:
        """What one connection sent pauses the next that sends."""
        self.peer.send(put(b"x" * 900), put(b"x" * 900))
        other = self.parts.connect()
        other.send(put(b"x" * 900))
        self.assertFalse(other.is_read)
        self.parts.settle()
        self.assertTrue(other.is_read and self.peer.is_read)

    def test_small_puts_count_more_than_their_bytes(self) -> None:
        """Memory for many small puts is counted too."""
        self.peer.send(*(put(b"", number) for number in range(20)))
        self.parts.turn()
        self.peer.send(put(b"", 20))
        self.assertFalse(self.peer.is_read)
        self.parts.settle()
        self.assertTrue(self.peer.is_read)

    def test_failed_batch_ends_the_pressure(self) -> None:
        """A flush that fails lets the connection be read again."""
        self.peer.send(*(put(b"x" * 900, number) for number in range(3)))
        self.parts.turn()
        self.parts.sync(OSError(5, "Input/output error"))
        self.assertTrue(self.peer.is_read)

    def test_paused_connection_that_ends(self) -> None:
        """A connection that ends while it is paused is forgotten."""
        self.peer.send(*(put(b"x" * 900, number) for number in range(3)))
        self.peer.lost()
        self.peer.transport.stopProducing()  # resuming it would raise
        self.parts.settle()
        self.assertEqual(self.parts.numbers.connections, 0)

    def test_peer_that_does_not_read(self) -> None:
        """The transport pauses who does not read; both reasons must have gone."""
        self.peer.protocol.pauseProducing()
        self.assertFalse(self.peer.is_read)
        self.peer.send(*(put(b"x" * 900, number) for number in range(3)))
        self.peer.protocol.resumeProducing()
        self.assertFalse(self.peer.is_read)
        self.parts.settle()
        self.assertTrue(self.peer.is_read)

    def test_too_many_unanswered(self) -> None:
        """Past a number of unanswered reads a connection is not read."""
        self.patch(protocol_module, "MOST_UNANSWERED", 3)
        for number in (1, 2, 3):
            self.peer.send(put(b"", number))
        self.assertTrue(self.peer.is_read)
        self.peer.send(put(b"", 4))
        self.assertFalse(self.peer.is_read)
        self.parts.settle()
        self.assertTrue(self.peer.is_read)
        self.assertEqual(opaques(self.peer.taken()), [1, 2, 3, 4])

    def test_pressure_while_ending(self) -> None:
        """A connection that finishes is never read again."""
        self.peer.send(*(put(b"x" * 900, number) for number in range(3)), b"quit\r\n")
        self.parts.settle()
        self.assertFalse(self.peer.is_read)
        self.assertEqual(opaques(self.peer.taken()), [0, 1, 2])


class TooManyTests(ConnectionCase):
    """Bounds on the number of connections."""

    environ = {"METATWIST_METATWIST_maxConnections": "2"}

    def test_one_too_many(self) -> None:
        """Past the limit a connection is closed as it comes, until another has gone."""
        self.parts.connect()
        self.assertIsNone(self.parts.factory.buildProtocol(None))
        self.assertEqual(self.parts.numbers.connections_refused, 1)
        self.peer.lost()
        self.assertIsNotNone(self.parts.factory.buildProtocol(None))


class TooLargeTests(ConnectionCase):
    """Bounds on one message."""

    environ = SMALL_BOUNDS

    def test_message_over_the_limit(self) -> None:
        """A message over maxMessageBytes closes the connection at its header."""
        self.peer.send(b"put test 0 1001 0 -1 1\r\n")
        self.assertTrue(self.peer.transport.disconnecting)

    def test_reloaded_limit(self) -> None:
        """A connection that begins after a reload has the new limit."""
        environ: dict[str, Any] = {**SMALL_BOUNDS}
        environ["METATWIST_METATWIST_maxMessageBytes"] = "2000"
        other = BrokerParts(self, environ=environ)
        self.parts.topics.apply(other.settings)
        peer = self.parts.connect()
        self.assertEqual(opaques(peer.ask(put(b"x" * 1001))), [1])
