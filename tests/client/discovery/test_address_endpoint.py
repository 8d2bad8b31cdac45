"""Connecting to an address: all that is tried, and what is told of it."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import TimeoutError as TimedOut
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.client.discovery.address_endpoint import AddressEndpoint, tls_options
from metatwist.client.discovery.connecting import STAGGER_S
from metatwist.client.errors import Attempt, NotConnected

V4 = IPv4Address("TCP", "192.0.2.1", 8123)
V6 = IPv6Address("TCP", "2001:db8::1", 8123)
TIMEOUT_S = 5.0


class Names:
    """Looks up names: `found` at once, or nothing yet when it is None."""

    def __init__(self) -> None:
        self.found: list[Any] | None = [V6, V4]
        self.asked: list[tuple[str, int]] = []
        self.receiver: Any = None
        self.cancelled = False

    def resolveHostName(
        self, receiver: Any, name: str, portNumber: int = 0, **_: Any
    ) -> Any:
        self.asked.append((name, portNumber))
        self.receiver = receiver
        receiver.resolutionBegan(self)
        if self.found is not None:
            self.answer(self.found)
        return self

    def answer(self, found: list[Any]) -> None:
        for one in found:
            self.receiver.addressResolved(one)
        self.receiver.resolutionComplete()

    def cancel(self) -> None:
        self.cancelled = True


UNFIT = {
    "tcp:x": "'port' is missing",
    "tls:h": "'port' is missing",
    "tls:h:p": "invalid literal",
    "tls:h:1:other=1": "unrecognized keyword",
    "tls:h:1:certificate=/nowhere": "No such file",
    f"tls:h:1:certificate={__file__}:privateKey={__file__}": "no start line",
}


class UnfitTest(SynchronousTestCase):
    """Endpoint strings that cannot be used."""

    def test_at_once(self) -> None:
        """Whatever is wrong with them is a ValueError that says what, at once."""
        for text, words in UNFIT.items():
            with self.assertRaises(ValueError, msg=text) as caught:
                AddressEndpoint(MemoryReactorClock(), text, TIMEOUT_S)
            self.assertIn(repr(text), str(caught.exception))
            self.assertIn(words, str(caught.exception), text)


class EndpointCase(SynchronousTestCase):
    """A reactor that connects when the test says so."""

    def setUp(self) -> None:
        self.reactor: Any = MemoryReactorClock()
        self.names = self.reactor.nameResolver = Names()

    def connect(self, address: str = "meta://Host:8123") -> Deferred[Any]:
        """Begin to connect."""
        endpoint = AddressEndpoint(self.reactor, address, TIMEOUT_S)
        return endpoint.connect(Factory.forProtocol(Protocol))

    def tried(self) -> list[str]:
        """The hosts that were tried, in order."""
        return [one[0] for one in self.reactor.tcpClients]

    def fail_try(self, number: int, error: Exception) -> None:
        """Let a try fail."""
        factory = self.reactor.tcpClients[number][2]
        connector = self.reactor.connectors[number]
        factory.clientConnectionFailed(connector, Failure(error))

    def succeed_try(self, number: int) -> Any:
        """Let a try connect."""
        factory = self.reactor.tcpClients[number][2]
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(StringTransport())
        return protocol

    def assert_nothing_left(self) -> None:
        """No timer, and every try ended."""
        self.assertEqual(self.reactor.getDelayedCalls(), [])


class HostTests(EndpointCase):
    """Hosts with several addresses."""

    def test_interface(self) -> None:
        """It is an endpoint, whose text is the key of the connection."""
        endpoint = AddressEndpoint(self.reactor, "Host:8123", TIMEOUT_S)
        self.assertTrue(verifyObject(IStreamClientEndpoint, endpoint))
        self.assertEqual(str(endpoint), "meta://host:8123")

    def test_first_refuses(self) -> None:
        """The second address is tried at once when the first refuses."""
        connecting = self.connect()
        self.assertEqual(self.names.asked, [("host", 8123)])
        self.assertEqual(self.tried(), ["2001:db8::1"])
        self.fail_try(0, Refused())
        self.assertEqual(self.tried(), ["2001:db8::1", "192.0.2.1"])
        self.succeed_try(1)
        self.assertIsInstance(self.successResultOf(connecting), Protocol)
        self.assert_nothing_left()

    def test_first_hangs(self) -> None:
        """The second is tried beside a first that does not answer, which is then given
        up."""
        connecting = self.connect()
        self.reactor.advance(STAGGER_S)
        self.assertEqual(len(self.tried()), 2)
        self.succeed_try(1)
        self.successResultOf(connecting)
        self.assertTrue(self.reactor.connectors[0].stoppedConnecting)
        self.assert_nothing_left()

    def test_all_fail(self) -> None:
        """The failure names each address with its reason, in the order of failing."""
        connecting = self.connect()
        self.reactor.advance(STAGGER_S)
        self.fail_try(1, Refused("111"))
        self.assertNoResult(connecting)
        self.fail_try(0, TimedOut())
        error = self.failureResultOf(connecting, NotConnected).value
        self.assertEqual(
            [one.address for one in error.attempts],
            ["192.0.2.1:8123", "[2001:db8::1]:8123"],
        )
        self.assertIn("refused", error.attempts[0].reason)
        self.assertEqual(error.attempts[1].reason, "no answer in 5 s")
        self.assertEqual(error.broker, "meta://host:8123")
        self.assert_nothing_left()

    def test_no_address(self) -> None:
        """A name without an address is told of."""
        self.names.found = []
        error = self.failureResultOf(self.connect(), NotConnected).value
        self.assertEqual(error.attempts, (Attempt("host", "the name has no address"),))
        self.assert_nothing_left()

    def test_slow_names(self) -> None:
        """A look-up is bounded in time; a late answer connects nothing."""
        self.names.found = None
        connecting = self.connect()
        self.reactor.advance(TIMEOUT_S)
        error = self.failureResultOf(connecting, NotConnected).value
        self.assertIn("not found in 5 s", error.attempts[0].reason)
        self.assertTrue(self.names.cancelled)
        self.names.answer([V4])
        self.assertEqual(self.tried(), [])
        self.assert_nothing_left()

    def test_numeric(self) -> None:
        """A numeric address is not looked up."""
        for address, host in (("127.0.0.1:1", "127.0.0.1"), ("[::1]:1", "::1")):
            connecting = self.connect(address)
            self.assertEqual(self.tried()[-1], host)
            self.fail_try(-1, Refused())
            self.failureResultOf(connecting, NotConnected)
        self.assertEqual(self.names.asked, [])

    def test_cancel(self) -> None:
        """Cancelling ends the look-up, or all tries, and leaves nothing."""
        connecting = self.connect()
        self.reactor.advance(STAGGER_S)
        connecting.cancel()
        self.failureResultOf(connecting, CancelledError)
        self.assertTrue(all(one.stoppedConnecting for one in self.reactor.connectors))
        self.assert_nothing_left()
        self.names.found = None
        connecting = self.connect()
        connecting.cancel()
        self.failureResultOf(connecting, CancelledError)
        self.names.answer([V4])
        self.assertEqual(len(self.tried()), 2)
        self.assert_nothing_left()

    def test_same_address_twice(self) -> None:
        """An address that is found twice is tried once."""
        self.names.found = [V4, V4]
        connecting = self.connect()
        self.fail_try(0, Refused())
        error = self.failureResultOf(connecting, NotConnected).value
        self.assertEqual(len(error.attempts), 1)

    def test_tls(self) -> None:
        """With TLS the connection begins with a handshake that names the host."""
        endpoint = AddressEndpoint(
            self.reactor, "meta://host:8123", TIMEOUT_S, tls_options()
        )
        connecting = endpoint.connect(Factory.forProtocol(Protocol))
        protocol = self.succeed_try(0)
        self.assertIsInstance(self.successResultOf(connecting), Protocol)
        hello = protocol._wrappedProtocol.transport.value()
        self.assertEqual(hello[:2], b"\x16\x03")
        self.assertIn(b"host", hello)


class WrittenTests(EndpointCase):
    """Endpoint strings."""

    def test_unix(self) -> None:
        """The failure names the string with the reason."""
        connecting = self.connect("unix:/run/none")
        (client,) = self.reactor.unixClients
        client[1].clientConnectionFailed(None, Failure(Refused()))
        error = self.failureResultOf(connecting, NotConnected).value
        self.assertEqual(error.attempts[0].address, "unix:/run/none")
        self.assert_nothing_left()

    def test_timeout(self) -> None:
        """One that does not answer is given up in time."""
        connecting = self.connect("unix:/run/none")
        self.reactor.advance(TIMEOUT_S)
        error = self.failureResultOf(connecting, NotConnected).value
        attempt = Attempt("unix:/run/none", "no answer in 5 s")
        self.assertEqual(error.attempts, (attempt,))
        self.assert_nothing_left()

    def test_cancel(self) -> None:
        """Cancelling leaves nothing."""
        connecting = self.connect("unix:/run/none")
        connecting.cancel()
        failure = self.failureResultOf(connecting)
        self.assertFalse(failure.check(NotConnected))
        self.assert_nothing_left()

    def test_bad_arguments(self) -> None:
        """Arguments that make no endpoint are a ValueError when it is made."""
        for text in ("tcp:h:x", "tcp:host=h:prot=1", "tls:h:1:trustRoots=/no"):
            with self.assertRaises(ValueError, msg=text):
                AddressEndpoint(self.reactor, text, TIMEOUT_S)
