"""The link to a broker: connected while held, again after a loss, never for ever."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.client.brokers import Brokers
from metatwist.client.errors import Attempt, ConnectionLost, NotConnected
from metatwist.client.interfaces import IBrokerLink, IBrokers
from metatwist.client.link import BrokerLink, LinkContext, read_extensions
from metatwist.client.settings import ConnectionSettings
from metatwist.wire.commands import ResultReply, StatsCommand, VersionCommand


class Attempts:
    """An endpoint whose attempts a test accepts or refuses."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, Deferred[Any]]] = []
        self.transports: list[StringTransport] = []
        self.protocols: list[Any] = []

    def connect(self, factory: Any) -> Deferred[Any]:
        attempt: Deferred[Any] = Deferred()
        self.waiting.append((factory, attempt))
        return attempt

    def accept(self) -> StringTransport:
        factory, attempt = self.waiting.pop(0)
        protocol = factory.buildProtocol(None)
        transport = StringTransport()
        protocol.makeConnection(transport)
        self.transports.append(transport)
        self.protocols.append(protocol)
        attempt.callback(protocol)
        return transport

    def refuse(self, error: Exception) -> None:
        self.waiting.pop(0)[1].errback(error)

    def lose(self) -> None:
        self.protocols.pop().connectionLost(Failure(ConnectionDone("gone")))


class LinkCase(SynchronousTestCase):
    """A link over scripted attempts."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.endpoint = Attempts()
        settings = ConnectionSettings(
            reconnect_pause_s=1, most_reconnect_pause_s=4, heartbeat_idle_s=1000
        )
        context = LinkContext(self.clock, settings, lambda: 1.0)
        self.link = BrokerLink("meta://b:1", self.endpoint, context)

    def answer(self, reply: bytes) -> None:
        self.endpoint.protocols[-1].dataReceived(reply)


class Holding(LinkCase):
    """When there is a connection."""

    def test_interfaces(self) -> None:
        """Link and links are what their interfaces say."""
        verifyObject(IBrokerLink, self.link)
        brokers = Brokers(
            lambda _: self.endpoint, LinkContext(self.clock, ConnectionSettings())
        )
        verifyObject(IBrokers, brokers)
        self.assertIs(brokers.link("a"), brokers.link("a"))

    def test_nobody_holds(self) -> None:
        """Nothing is connected before somebody holds the link."""
        self.assertEqual(self.endpoint.waiting, [])
        self.link.hold(self)
        self.assertEqual(len(self.endpoint.waiting), 1)
        self.link.hold("another")
        self.assertEqual(len(self.endpoint.waiting), 1)

    def test_last_release(self) -> None:
        """The last one who lets go closes the connection."""
        self.link.hold(1)
        self.link.hold(2)
        transport = self.endpoint.accept()
        self.link.release(1)
        self.assertFalse(transport.disconnecting)
        self.link.release(2)
        self.assertTrue(transport.disconnecting)

    def test_closes_behind_what_is_sent(self) -> None:
        """What was asked in the same turn leaves before the connection closes, and the
        transport has no producer to wait for."""
        self.link.hold(1)
        transport = self.endpoint.accept()
        self.link.request(VersionCommand())
        self.link.release(1)
        self.assertEqual(transport.value(), VersionCommand(0).encode())
        self.assertIsNone(transport.producer)

    def test_release_while_connecting(self) -> None:
        """Letting go during an attempt ends it, and nothing is left."""
        self.link.hold(1)
        self.link.release(1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_hold_again(self) -> None:
        """Who holds it again while it closes gets a new connection."""
        self.link.hold(1)
        self.endpoint.accept()
        self.link.release(1)
        self.link.hold(1)
        self.endpoint.lose()
        self.assertEqual(len(self.endpoint.waiting), 1)

    def test_close_is_bounded(self) -> None:
        """A peer that doesn't take the close is cut after two seconds."""
        self.link.hold(1)
        transport = self.endpoint.accept()
        closed = self.link.close()
        aborted: list[int] = []
        transport.abortConnection = lambda: aborted.append(1)  # type: ignore[method-assign]
        self.clock.advance(2.1)
        self.assertEqual(aborted, [1])
        self.endpoint.lose()
        self.successResultOf(closed)

    def test_reconnects_for_ever(self) -> None:
        """Attempts go on, further and further apart, up to the limit."""
        self.link.hold(1)
        pauses = []
        for _ in range(8):
            self.endpoint.refuse(ConnectionRefusedError("no"))
            (call,) = self.clock.getDelayedCalls()
            pauses.append(call.getTime() - self.clock.seconds())
            self.clock.advance(pauses[-1])
        self.assertEqual(pauses, [1, 2, 4, 4, 4, 4, 4, 4])

    def test_listeners(self) -> None:
        """Who listens hears of each connection and each loss."""
        heard: list[bool] = []
        stop = self.link.on_connection(heard.append)
        self.link.hold(1)
        self.endpoint.accept()
        self.endpoint.lose()
        self.clock.advance(4)
        stop()
        self.endpoint.accept()
        self.assertEqual(heard, [True, False])

    def test_a_listener_raises(self) -> None:
        """One that raises is logged; the others hear, and the connection is kept."""
        heard: list[bool] = []
        self.link.on_connection(lambda _: 1 / 0)
        self.link.on_connection(heard.append)
        self.link.hold(1)
        self.endpoint.accept()
        self.endpoint.lose()
        self.assertEqual(heard, [True, False])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_a_defect_leaves_no_connection(self) -> None:
        """A connection that could not be taken into use is cut."""

        class Abrupt(BaseException):
            """No `Exception`."""

        def raises(connected: bool) -> None:
            if connected:
                raise Abrupt

        self.link.on_connection(raises)
        self.link.hold(1)
        transport = self.endpoint.accept()
        self.assertTrue(transport.disconnecting)
        self.assertFalse(self.link.connected)
        self.flushLoggedErrors(Abrupt)

    def test_a_listener_closes(self) -> None:
        """Nobody is told of a connection that was closed before it was their turn."""
        heard: list[bool] = []
        self.link.on_connection(lambda up: up and self.link.close())
        self.link.on_connection(heard.append)
        self.link.hold(1)
        self.endpoint.accept()
        self.assertEqual(heard, [False])

    def test_a_listener_stops_another(self) -> None:
        """One that does not listen any more is not called."""
        heard: list[bool] = []
        self.link.on_connection(lambda _: stop())
        stop = self.link.on_connection(heard.append)
        self.link.hold(1)
        self.endpoint.accept()
        self.assertEqual(heard, [])


class Asking(LinkCase):
    """Requests on a link."""

    def test_unconnected(self) -> None:
        """A request without connection fails at once, saying what was tried."""
        self.link.hold(1)
        tried = (Attempt("10.0.0.1:1", "refused"), Attempt("10.0.0.2:1", "timed out"))
        self.endpoint.refuse(NotConnected("no", tried))
        error = self.failureResultOf(
            self.link.request(VersionCommand()), NotConnected
        ).value
        self.assertEqual(error.attempts, tried)
        self.assertFalse(error.outcome_unknown)
        self.assertIn("10.0.0.2:1: timed out", str(error))

    def test_when_connected(self) -> None:
        """Those who wait for the connection are told, or fail when the time is up."""
        self.link.hold(1)
        early, late = self.link.when_connected(1), self.link.when_connected(5)
        self.endpoint.refuse(ConnectionRefusedError("no"))
        self.clock.advance(1)
        self.failureResultOf(early, NotConnected)
        self.endpoint.accept()
        self.successResultOf(late)
        self.successResultOf(self.link.when_connected(1))

    def test_wait_cancelled(self) -> None:
        """A wait that is cancelled leaves no timer and is not fired again."""
        waiting = self.link.when_connected(5)
        waiting.cancel()
        self.failureResultOf(waiting)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_closed_while_waiting(self) -> None:
        """Closing the link ends all waits."""
        self.link.hold(1)
        waiting = self.link.when_connected(5)
        self.link.close()
        self.failureResultOf(waiting, NotConnected)

    def test_one_wait_cancels_another(self) -> None:
        """A callback of one wait may cancel another, when connected and when closed."""
        for connects in (True, False):
            self.setUp()
            heard: list[bool] = []
            self.link.on_connection(heard.append)
            self.link.hold(1)
            first, second = (self.link.when_connected(5) for _ in range(2))
            first.addBoth(lambda _, other=second: other.cancel())
            if connects:
                self.endpoint.accept()
            else:
                self.link.close()
            self.successResultOf(first)
            self.failureResultOf(second, CancelledError)
            self.assertEqual(heard, [True] if connects else [])

    def test_a_wait_closes(self) -> None:
        """A callback of one wait may close the link: the others fail, and nobody is
        told of a connection."""
        heard: list[bool] = []
        self.link.on_connection(heard.append)
        self.link.hold(1)
        first, second = (self.link.when_connected(5) for _ in range(2))
        first.addCallback(lambda _: self.link.close() and None)
        transport = self.endpoint.accept()
        self.successResultOf(first)
        self.failureResultOf(second, NotConnected)
        self.assertNotIn(True, heard)
        self.assertTrue(transport.disconnecting)

    def test_lost(self) -> None:
        """A loss fails what is outstanding, and says so to whoever asks next."""
        self.link.hold(1)
        self.endpoint.accept()
        asked = self.link.request(VersionCommand())
        self.clock.advance(0)
        self.endpoint.lose()
        self.failureResultOf(asked, ConnectionLost)
        error = self.failureResultOf(
            self.link.request(VersionCommand()), NotConnected
        ).value
        self.assertIn("gone", str(error))

    def test_extensions(self) -> None:
        """A broker's extensions are asked once a connection."""
        self.link.hold(1)
        transport = self.endpoint.accept()
        first = self.link.extensions()
        self.clock.advance(0)
        self.assertEqual(transport.value(), StatsCommand("extensions", 0).encode())
        topics = b"partitions extensions 4\r\npartitions t 4\r\n"
        body = b"STATS\r\nextensions poll partitions\r\n" + topics + b"END\r\n"
        self.answer(ResultReply(200, 0, body).encode())
        known = {"poll", "partitions"}
        self.assertEqual(self.successResultOf(first), known)
        self.assertEqual(self.successResultOf(self.link.extensions()), known)
        self.endpoint.lose()
        self.clock.advance(4)
        self.endpoint.accept()
        self.assertNoResult(self.link.extensions())

    def test_original_has_none(self) -> None:
        """What a Java broker says of a topic `extensions` names no extension."""
        body = b"STATS\r\nresultCode 1\r\npartitions 1\r\nmessage_count 0\r\nEND\r\n"
        self.assertEqual(read_extensions(body), frozenset())
