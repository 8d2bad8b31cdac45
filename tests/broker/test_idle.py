"""Connections that are silent for too long."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.idle import IdleConnections
from tests.support.broker_parts import BrokerParts, get, poll, put


class IdleTests(SynchronousTestCase):
    """`IdleConnections` with a limit of 100 s, unless a test says otherwise."""

    def start(self, timeout_s: int = 100) -> None:
        """Begin, with one peer."""
        self.parts = self.broker(timeout_s)
        parts = self.parts
        self.idle = IdleConnections(parts.clock, parts.factory, parts.numbers)
        self.idle.startService()
        self.peer = parts.connect()

    def broker(self, timeout_s: int) -> BrokerParts:
        """A broker with that limit."""
        environ = {"METATWIST_METATWIST_idleTimeout": str(timeout_s)}
        return BrokerParts(self, environ=environ)

    def advance(self, duration_s: int) -> None:
        """Let time pass second by second."""
        self.parts.clock.pump([1] * duration_s)

    def assert_open(self, is_open: bool) -> None:
        """Whether the peer is still connected."""
        self.assertEqual(self.peer.transport.disconnected, not is_open)
        self.assertEqual(self.parts.numbers.idle_closed, 0 if is_open else 1)

    def test_silent_connection(self) -> None:
        """A silent connection is closed after the limit, and within a fifth more."""
        self.start()
        self.advance(100)
        self.assert_open(True)
        self.advance(21)
        self.assert_open(False)

    def test_requests_keep_it_open(self) -> None:
        """Every byte from the peer begins the time anew."""
        self.start()
        for _ in range(5):
            self.advance(90)
            self.peer.send(b"ver")
            self.assert_open(True)
            self.advance(90)
            self.peer.send(b"sion\r\n")
        self.assert_open(True)

    def test_answers_keep_it_open(self) -> None:
        """So does every answer, a late one too."""
        self.start()
        self.peer.send(put(b"x"))
        self.advance(90)
        self.parts.sync()
        self.advance(90)
        self.assert_open(True)
        self.assertIn(b"value ", self.peer.ask(get(0)))

    def test_waiting_poll_keeps_it_open(self) -> None:
        """Who waits for data is not silent, and is again once it has the answer."""
        self.start(10)
        self.peer.send(poll(0, wait_ms=25_000))
        self.advance(24)
        self.assert_open(True)
        self.advance(2 + 13)
        self.assertIn(b"result 404 ", self.peer.taken())
        self.assertTrue(self.peer.transport.disconnected)

    def test_poll_of_who_does_not_read(self) -> None:
        """A poll that only waits for its peer to read keeps nothing open."""
        self.start(10)
        self.peer.send(poll(0, wait_ms=1000))
        self.peer.protocol.pauseProducing()
        self.advance(2 + 13)
        self.assertTrue(self.peer.transport.disconnected)

    def test_zero_is_never(self) -> None:
        """With a limit of 0 no connection is closed."""
        self.start(0)
        self.advance(1000)
        self.assert_open(True)

    def test_reloaded_limit(self) -> None:
        """A limit that was reloaded holds from the next look on."""
        self.start(0)
        self.parts.topics.apply(self.broker(10).settings)
        self.advance(60 + 10)
        self.assert_open(False)

    def test_stopped(self) -> None:
        """A stopped service leaves no timer behind."""
        self.start()
        self.idle.stopService()
        self.assertEqual(self.parts.clock.getDelayedCalls(), [])
