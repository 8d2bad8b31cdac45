"""A connection: requests by opaque, each answered exactly once, whatever happens."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.connection import BrokerConnection, ConnectionContext
from metatwist.client.errors import (
    ConnectionLost,
    NotConnected,
    RequestTimedOut,
    UnexpectedReply,
)
from metatwist.client.settings import ConnectionSettings
from metatwist.wire.commands import (
    GetCommand,
    PutCommand,
    ResultReply,
    ValueReply,
    VersionCommand,
)
from metatwist.wire.reader import MessageReader
from metatwist.wire.records import checksum
from metatwist.wire.reply_reader import PutStored

PREFIX = b"put t 3 "


class ConnectionCase(SynchronousTestCase):
    """A connection on a string transport."""

    settings = ConnectionSettings(most_unanswered=5)

    def setUp(self) -> None:
        self.clock = Clock()
        self.ended: list[str] = []
        self.connection = BrokerConnection(
            ConnectionContext(
                self.clock,
                "meta://b:1",
                self.settings,
                lambda _, why: self.ended.append(why),
            )
        )
        self.transport = StringTransport()
        self.connection.makeConnection(self.transport)
        self.answers: list[Any] = []

    def sent(self) -> list[Any]:
        """The requests that have left, as the broker reads them."""
        self.clock.advance(0)
        data = self.transport.value()
        self.transport.clear()
        return list(MessageReader(4096, 1 << 20).feed(data))

    def put(self, payload: bytes = b"hi", timeout_s: float = 3) -> None:
        self.connection.put(PREFIX, 0, payload, self.answers.append, timeout_s)

    def lose(self) -> None:
        self.connection.connectionLost(Failure(ConnectionDone("gone")))


class Requests(ConnectionCase):
    """What is asked and what comes back."""

    def test_put_bytes(self) -> None:
        """A put carries its checksum and leaves as one whole command."""
        self.put(b"hello")
        self.assertEqual(
            self.sent(),
            [PutCommand("t", 3, 0, checksum(b"hello"), None, 0, b"hello")],
        )

    def test_one_write_a_turn(self) -> None:
        """All that is sent in a turn leaves in one write."""
        writes: list[bytes] = []
        self.transport.write = writes.append  # type: ignore[method-assign]
        self.put()
        self.put()
        self.connection.request(VersionCommand(), 1)
        self.assertEqual(writes, [])
        self.clock.advance(0)
        self.assertEqual(len(writes), 1)

    def test_answers_out_of_order(self) -> None:
        """Answers find their requests by opaque, in any order."""
        first = self.connection.request(GetCommand("t", "g", 0, 0, 9, 0), 3)
        second = self.connection.request(VersionCommand(), 3)
        asked = self.sent()
        late = ValueReply(asked[0].opaque, b"abc").encode()
        early = ResultReply(200, asked[1].opaque, b"1.4").encode()
        self.connection.dataReceived(early + late)
        self.assertEqual(self.successResultOf(second).body, b"1.4")
        self.assertEqual(self.successResultOf(first).body, b"abc")

    def test_stored(self) -> None:
        """A put that is stored gets id, partition and offset."""
        self.put()
        self.sent()
        self.connection.dataReceived(b"result 200 8 0\r\n-77 3 41")
        self.assertEqual(self.answers, [PutStored(0, -77, 3, 41)])

    def test_answered_twice(self) -> None:
        """A second answer and one to nothing are dropped."""
        self.put()
        self.sent()
        self.connection.dataReceived(b"result 200 5 0\r\n1 3 4" * 2)
        self.connection.dataReceived(b"result 200 5 99\r\n1 3 4")
        self.assertEqual(len(self.answers), 1)

    def test_too_many(self) -> None:
        """Past the limit of unanswered requests more fail at once, unsent."""
        for _ in range(6):
            self.put()
        self.assertIsInstance(self.answers[0], NotConnected)
        self.assertEqual(len(self.sent()), 5)
        self.failureResultOf(self.connection.request(VersionCommand(), 1), NotConnected)

    def test_opaque_wraps(self) -> None:
        """Opaques begin again at 0 and skip those that still wait."""
        self.put()
        self.connection._next_opaque = 2**31 - 1
        self.put()
        self.put()
        self.assertEqual([put.opaque for put in self.sent()], [0, 2**31 - 1, 1])

    def test_wrong_answer(self) -> None:
        """A `put stored` that answers something else fails that alone."""
        asked = self.connection.request(VersionCommand(), 3)
        self.sent()
        self.connection.dataReceived(b"result 200 5 0\r\n1 3 4")
        error = self.failureResultOf(asked, UnexpectedReply).value
        self.assertEqual(error.broker, "meta://b:1")

    def test_garbage(self) -> None:
        """What no broker says ends the connection."""
        self.put()
        self.sent()
        self.connection.dataReceived(b"HTTP/1.1 400 Bad Request\r\n")
        self.assertTrue(self.transport.disconnecting or self.transport.disconnected)

    def test_cancelled(self) -> None:
        """A cancelled request is forgotten and its answer dropped."""
        asked = self.connection.request(VersionCommand(), 3)
        self.sent()
        asked.cancel()
        self.failureResultOf(asked)
        self.connection.dataReceived(b"result 200 1 0\r\nx")
        self.assertEqual(self.connection.unanswered, 0)


class Timeouts(ConnectionCase):
    """No request waits for ever."""

    def test_expires(self) -> None:
        """A request without an answer fails in time, as an unknown outcome."""
        self.put(timeout_s=3)
        self.sent()
        self.clock.advance(2.9)
        self.assertEqual(self.answers, [])
        self.clock.advance(0.2)
        self.assertIsInstance(self.answers[0], RequestTimedOut)
        self.assertTrue(self.answers[0].outcome_unknown)

    def test_each_its_own(self) -> None:
        """A short limit behind a long one is kept."""
        self.put(timeout_s=9)
        self.sent()
        self.put(timeout_s=1)
        self.sent()
        self.clock.advance(1.1)
        self.assertEqual(len(self.answers), 1)
        self.clock.advance(8)
        self.assertEqual(len(self.answers), 2)

    def test_late(self) -> None:
        """An answer after the time is up is dropped."""
        self.put(timeout_s=1)
        self.sent()
        self.clock.advance(1.1)
        self.connection.dataReceived(b"result 200 5 0\r\n1 3 4")
        self.assertEqual(len(self.answers), 1)

    def test_no_timers_kept(self) -> None:
        """A thousand answered requests leave a timer or two behind, not a thousand."""
        for opaque in range(1000):
            self.put()
            self.sent()
            self.connection.dataReceived(b"result 200 5 %d\r\n1 3 4" % opaque)
        self.assertEqual(len(self.answers), 1000)
        self.assertLessEqual(len(self.clock.getDelayedCalls()), 2)
        self.assertEqual(self.connection._deadlines._heap, [])


class Losing(ConnectionCase):
    """A connection that breaks."""

    def test_sent_is_unknown(self) -> None:
        """What was sent fails once, outcome unknown; what was not, as unsent."""
        self.put()
        self.sent()
        self.put()
        asked = self.connection.request(VersionCommand(), 3)
        self.lose()
        self.assertIsInstance(self.answers[0], ConnectionLost)
        self.assertIsInstance(self.answers[1], NotConnected)
        self.assertFalse(self.answers[1].outcome_unknown)
        self.failureResultOf(asked, NotConnected)
        self.assertEqual(len(self.ended), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_told_may_cancel(self) -> None:
        """Who is told of the loss may cancel another request of the connection."""
        first = self.connection.request(VersionCommand(), 3)
        second = self.connection.request(VersionCommand(), 3)
        first.addErrback(lambda _: second.cancel())
        self.lose()
        self.successResultOf(first)
        self.failureResultOf(second, CancelledError)

    def test_told_before(self) -> None:
        """Who is told of the failure finds the connection ended already."""
        order: list[str] = []
        self.connection.put(PREFIX, 0, b"", lambda _: order.append(str(self.ended)), 3)
        self.lose()
        self.assertNotEqual(order, ["[]"])

    def test_nothing_left(self) -> None:
        """Nothing is written after the end, and no timer is left."""
        self.put()
        self.lose()
        self.clock.advance(100)
        self.assertEqual(self.transport.value(), b"")


class SlowPeer(ConnectionCase):
    """A broker that does not read."""

    def test_kept(self) -> None:
        """While the transport is full nothing more is written to it."""
        self.connection.pauseProducing()
        self.put()
        self.assertEqual(self.sent(), [])
        self.connection.resumeProducing()
        self.assertEqual(len(self.sent()), 1)

    def test_times_out_unsent(self) -> None:
        """Puts that wait for room time out all the same."""
        self.connection.pauseProducing()
        self.put(timeout_s=1)
        self.sent()
        self.clock.advance(1.1)
        self.assertIsInstance(self.answers[0], RequestTimedOut)


class Heartbeats(ConnectionCase):
    """A broker that is silent."""

    def test_asked(self) -> None:
        """After 10 silent seconds the version is asked."""
        self.clock.advance(9.9)
        self.assertEqual(self.sent(), [])
        self.clock.advance(0.2)
        self.assertEqual(self.sent(), [VersionCommand(0)])

    def test_asked_whatever_waits(self) -> None:
        """With as many requests unanswered as there may be, heartbeats are sent all
        the same, and the connection is given up after the time they have."""
        for _ in range(5):
            self.put(timeout_s=1000)
        self.sent()
        self.clock.advance(10)
        self.assertEqual([type(one) for one in self.sent()], [VersionCommand])
        self.clock.advance(5)
        self.clock.advance(5)
        self.assertFalse(self.transport.disconnecting or self.transport.disconnected)

    def test_not_when_busy(self) -> None:
        """A broker that answers is not asked."""
        self.put()
        self.sent()
        self.clock.advance(6)
        self.connection.dataReceived(b"result 200 5 0\r\n1 3 4")
        self.clock.advance(6)
        self.assertEqual(self.sent(), [])

    def test_given_up(self) -> None:
        """After three heartbeats without answer the connection is cut."""
        self.clock.advance(10)
        for _ in range(3):
            self.clock.advance(0)
            self.clock.advance(5)
        self.assertTrue(self.transport.disconnecting or self.transport.disconnected)
        self.lose()
        self.assertIn("heartbeats", self.ended[0])

    def test_one_answer_is_enough(self) -> None:
        """An answer in between begins the count anew."""
        self.clock.advance(10)
        self.clock.advance(0)
        self.clock.advance(5)
        asked = self.sent()
        self.connection.dataReceived(ResultReply(200, asked[-1].opaque, b"v").encode())
        self.clock.advance(10)
        for _ in range(2):
            self.clock.advance(0)
            self.clock.advance(5)
        self.assertFalse(self.transport.disconnecting or self.transport.disconnected)
