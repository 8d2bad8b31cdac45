"""Connections in memory behave as those of TCP, as far as a protocol can tell."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError
from twisted.internet.error import (
    ConnectionAborted,
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
)
from twisted.internet.interfaces import (
    IConsumer,
    IHalfCloseableProtocol,
    IPushProducer,
    IStreamClientEndpoint,
    ITCPTransport,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from metatwist.testing.loopback import LoopbackEndpoint
from metatwist.testing.transport import MOST_UNREAD_BYTES
from metatwist.testing.turns import Turns

ADDRESS = IPv4Address("TCP", "fake", 8123)


class Ear(Protocol):
    """Keeps what it is told."""

    transport: Any

    def __init__(self) -> None:
        self.received = b""
        self.ends: list[type[BaseException] | None] = []
        self.pauses: list[str] = []

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.ends.append(reason.type)

    def pauseProducing(self) -> None:
        self.pauses.append("pause")

    def resumeProducing(self) -> None:
        self.pauses.append("resume")

    def stopProducing(self) -> None:
        self.pauses.append("stop")


@implementer(IHalfCloseableProtocol)
class HalfCloseableEar(Ear):
    """One that goes on when the other has finished."""

    def readConnectionLost(self) -> None:
        self.ends.append(None)

    def writeConnectionLost(self) -> None:
        self.pauses.append("written")


class ConnectionCase(SynchronousTestCase):
    """A client and a server, not connected yet."""

    server_type: type[Ear] = Ear

    def setUp(self) -> None:
        self.clock = Clock()
        self.turns = Turns(self.clock)
        self.client, self.server = Ear(), self.server_type()
        self.refuses = False
        self.endpoint = LoopbackEndpoint(
            self.turns,
            Factory.forProtocol(lambda: self.server),
            ADDRESS,
            lambda: self.refuses,
        )
        self.factory = Factory.forProtocol(lambda: self.client)

    def join(self) -> None:
        """Connect them."""
        connecting = self.endpoint.connect(self.factory)
        self.turns.pump()
        self.assertIs(self.successResultOf(connecting), self.client)


class ConnectingTests(ConnectionCase):
    """The endpoint."""

    def test_interfaces(self) -> None:
        """Endpoint and transport are what Twisted says they are."""
        self.join()
        verifyObject(IStreamClientEndpoint, self.endpoint)
        for interface in (ITCPTransport, IConsumer, IPushProducer):
            verifyObject(interface, self.client.transport)

    def test_not_at_once(self) -> None:
        """A connection is made in a later turn, which a clock brings as well."""
        connecting = self.endpoint.connect(self.factory)
        self.assertNoResult(connecting)
        self.clock.advance(0)
        self.assertIs(self.successResultOf(connecting), self.client)

    def test_refused(self) -> None:
        """A server that refuses looks as one that is not there."""
        self.refuses = True
        connecting = self.endpoint.connect(self.factory)
        self.turns.pump()
        self.failureResultOf(connecting, ConnectionRefusedError)

    def test_cancelled(self) -> None:
        """When it is cancelled no connection is made."""
        connecting = self.endpoint.connect(self.factory)
        connecting.cancel()
        self.failureResultOf(connecting, CancelledError)
        self.turns.pump()
        self.assertIsNone(self.server.transport)

    def test_no_protocol(self) -> None:
        """A client's factory that builds no protocol makes it fail."""
        self.factory.buildProtocol = lambda addr: None
        connecting = self.endpoint.connect(self.factory)
        self.turns.pump()
        self.failureResultOf(connecting, ConnectionAborted)

    def test_factory_fails(self) -> None:
        """What a client's factory raises arrives at who connects."""
        connecting = self.endpoint.connect(Factory.forProtocol(lambda: 1 / 0))
        self.turns.pump()
        self.failureResultOf(connecting, ZeroDivisionError)

    def test_factory_is_told(self) -> None:
        """A client's factory is started, and stopped with its connection."""
        told: list[str] = []
        self.factory.startFactory = lambda: told.append("start")
        self.factory.stopFactory = lambda: told.append("stop")
        self.join()
        self.assertEqual(told, ["start"])
        self.client.transport.loseConnection()
        self.turns.pump()
        self.assertEqual(told, ["start", "stop"])

    def test_addresses(self) -> None:
        """Each end has the other's address as its peer's."""
        self.join()
        near, far = self.client.transport, self.server.transport
        self.assertEqual(near.getPeer(), ADDRESS)
        self.assertEqual(far.getHost(), ADDRESS)
        self.assertEqual(near.getHost(), far.getPeer())

    def test_options(self) -> None:
        """Options of TCP are kept."""
        self.join()
        transport = self.client.transport
        self.assertFalse(transport.getTcpNoDelay() or transport.getTcpKeepAlive())
        transport.setTcpNoDelay(True)
        transport.setTcpKeepAlive(True)
        self.assertTrue(transport.getTcpNoDelay() and transport.getTcpKeepAlive())


class BytesTests(ConnectionCase):
    """What is sent arrives."""

    def test_both_ways(self) -> None:
        """Bytes go both ways, in order, in a later turn."""
        self.join()
        self.client.transport.write(b"a")
        self.client.transport.writeSequence([b"b", b"c"])
        self.server.transport.write(b"d")
        self.assertEqual(self.server.received, b"")
        self.turns.pump()
        self.assertEqual((self.server.received, self.client.received), (b"abc", b"d"))

    def test_buffer_size(self) -> None:
        """An end reads as much at once as it wants to."""
        self.join()
        sizes: list[int] = []
        self.server.dataReceived = lambda data: sizes.append(len(data))
        self.server.transport.bufferSize = 3
        self.client.transport.write(b"1234567")
        self.turns.pump()
        self.assertEqual(sizes, [3, 3, 1])

    def test_paused(self) -> None:
        """An end that is paused reads nothing, not the end either, until it goes on."""
        self.join()
        self.client.transport.pauseProducing()
        self.server.transport.write(b"x")
        self.server.transport.loseConnection()
        self.turns.pump()
        self.assertEqual((self.client.received, self.client.ends), (b"", []))
        self.client.transport.resumeProducing()
        self.turns.pump()
        self.assertEqual(self.client.received, b"x")
        self.assertEqual(self.client.ends, [ConnectionDone])

    def test_producer(self) -> None:
        """A producer is paused while the other end does not read, and told of the
        end."""
        self.join()
        near, far = self.client.transport, self.server.transport
        near.registerProducer(self.client, True)
        far.pauseProducing()
        near.write(bytes(MOST_UNREAD_BYTES))
        self.assertEqual(self.client.pauses, [])
        near.write(b"x")
        near.write(b"x")
        self.assertEqual(self.client.pauses, ["pause"])
        far.resumeProducing()
        self.turns.pump()
        self.assertEqual(self.client.pauses, ["pause", "resume"])
        far.abortConnection()
        self.turns.pump()
        self.assertEqual(self.client.pauses, ["pause", "resume", "stop"])

    def test_one_producer(self) -> None:
        """A second producer is refused, and one that does not stream."""
        self.join()
        transport = self.client.transport
        self.assertRaises(ValueError, transport.registerProducer, self.client, False)
        transport.registerProducer(self.client, True)
        self.assertRaises(RuntimeError, transport.registerProducer, self.client, True)


class EndTests(ConnectionCase):
    """How a connection ends."""

    def test_lose(self) -> None:
        """What was sent before the end arrives, what is sent behind it does not."""
        self.join()
        self.client.transport.write(b"last")
        self.client.transport.loseConnection()
        self.client.transport.write(b"too late")
        self.turns.pump()
        self.assertEqual(self.server.received, b"last")
        self.assertEqual(self.client.ends, [ConnectionDone])
        self.assertEqual(self.server.ends, [ConnectionDone])

    def test_lose_with_producer(self) -> None:
        """The end waits for a producer to be done."""
        self.join()
        self.client.transport.registerProducer(self.client, True)
        self.client.transport.loseConnection()
        self.turns.pump()
        self.assertEqual(self.client.ends, [])
        self.client.transport.unregisterProducer()
        self.turns.pump()
        self.assertEqual(self.client.ends, [ConnectionDone])

    def test_abort(self) -> None:
        """An abort takes what was sent along, and is seen by both in a later turn."""
        self.join()
        self.client.transport.write(b"lost")
        self.client.transport.abortConnection()
        self.client.transport.abortConnection()
        self.assertEqual(self.client.ends, [])
        self.clock.advance(0)
        self.assertEqual(self.server.received, b"")
        self.assertEqual(self.client.ends, [ConnectionAborted])
        self.assertEqual(self.server.ends, [ConnectionLost])

    def test_write_to_the_dead(self) -> None:
        """Who has lost its connection may still write, without effect."""
        self.join()
        self.client.transport.loseConnection()
        self.turns.pump()
        self.client.transport.write(b"x")
        self.server.transport.write(b"x")
        self.turns.pump()
        self.assertEqual((self.client.received, self.server.received), (b"", b""))


class HalfCloseTests(ConnectionCase):
    """A server that goes on when the client has finished."""

    server_type = HalfCloseableEar

    def test_half_close(self) -> None:
        """It learns of the end of the input, and may answer."""
        self.join()
        self.client.transport.write(b"asked")
        self.client.transport.loseWriteConnection()
        self.turns.pump()
        self.assertEqual((self.server.received, self.server.ends), (b"asked", [None]))
        self.server.transport.write(b"answered")
        self.server.transport.loseConnection()
        self.turns.pump()
        self.assertEqual(self.client.received, b"answered")
        self.assertEqual(self.client.ends, [ConnectionDone])
        self.assertEqual(self.server.ends, [None, ConnectionDone])

    def test_both_halves(self) -> None:
        """Once both have finished the connection is over."""
        self.join()
        self.server.transport.loseWriteConnection()
        self.turns.pump()
        self.assertEqual(self.client.ends, [ConnectionDone])
        self.assertEqual(self.server.pauses, ["written"])
        self.assertEqual(self.server.ends, [ConnectionDone])


class TurnsTests(SynchronousTestCase):
    """The order of things."""

    def test_in_order(self) -> None:
        """Calls happen in the order in which they were asked for, in a later turn."""
        clock, told = Clock(), []
        turns = Turns(clock)
        turns.later(lambda: turns.later(lambda: told.append(3)))
        turns.later(lambda: told.append(1))
        turns.later(lambda: told.append(2))
        self.assertEqual(told, [])
        clock.advance(0)
        self.assertEqual(told, [1, 2, 3])

    def test_pump_leaves_nothing(self) -> None:
        """After a pump nothing is left on the clock."""
        clock = Clock()
        turns = Turns(clock)
        turns.later(lambda: turns.later(lambda: None))
        turns.pump()
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_error(self) -> None:
        """What a call raises reaches who runs the clock; the others go on."""
        clock, told = Clock(), []
        turns = Turns(clock)
        turns.later(lambda: 1 / 0)
        turns.later(lambda: told.append(1))
        self.assertRaises(ZeroDivisionError, clock.advance, 0)
        clock.advance(0)
        self.assertEqual(told, [1])

    def test_endless(self) -> None:
        """A pump that would never end fails instead."""
        turns = Turns(Clock())

        def again() -> None:
            turns.later(again)

        again()
        self.assertRaises(RuntimeError, turns.pump)
