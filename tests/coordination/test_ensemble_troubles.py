"""What is told of a server that cannot be used, and that kazoo is not heard besides."""

from __future__ import annotations

import errno
import os
import threading

from kazoo.protocol.states import KeeperState
from twisted.logger import LogLevel, capturedLogs, formatEvent

from metatwist.coordination.kazoo_bridge import PATIENCE_S, start_thread
from metatwist.coordination.kazoo_troubles import GARBLED, MUTE, SHUT

from .kazoo_fakes import EnsembleCase, on_thread

CONNECTING = ("Connecting to %s(%s):%s, use_ssl: %r", "zk", "10.0.0.1", 2181, False)


class TroublesTest(EnsembleCase):
    """What kazoo has to say."""

    def setUp(self) -> None:
        """There is a client."""
        super().setUp()
        self.run_jobs()
        self.client.handler.peer = "zk:2181"

    def last_trouble(self, text: str, *args: object) -> str:
        """The end of the problem after a warning of kazoo's."""
        self.client.warn(text, *args)
        self.client.warn("Transition to CONNECTING")
        self.reactor.turn()
        return str(self.tree.problem).rpartition("zk:2181: ")[2]

    def test_troubles(self) -> None:
        """Warnings of kazoo's become the problem, in words for an operator."""
        dropped = "Connection dropped: "
        error = f"{dropped}socket connection error: %s"
        for text, args, expected in (
            (error, ("no",), "no"),
            (error, (None,), "no answer"),
            (error, (os.strerror(errno.ECONNRESET),), SHUT),
            (f"{dropped}socket connection broken", (), SHUT),
            (f"{dropped}invalid server response", (), GARBLED),
            ("Connection time-out: %s", ("read",), "no answer"),
            ("AUTH_FAILED closing: why", (), "AUTH_FAILED closing: why"),
        ):
            self.assertEqual(self.last_trouble(text, *args), expected)
        self.client.warn("Cannot resolve %s: %s", "zk2", "why")
        self.reactor.turn()
        self.assertIn("zk2: cannot be resolved: why", str(self.tree.problem))

    def test_troubles_of_a_session(self) -> None:
        """A server that has granted a session is a ZooKeeper: nobody doubts that."""
        self.client.client_state = KeeperState.CONNECTED
        self.client.handler.is_accepted = True
        for text, expected in (
            ("socket connection broken", "closed the connection"),
            ("outstanding heartbeat ping not received", "no answer to a heartbeat"),
        ):
            found = self.last_trouble(f"Connection dropped: {text}")
            self.assertEqual(found, expected)

    def test_silence(self) -> None:
        """A server that says nothing is told long before kazoo gives it up, and in
        other words when it has accepted the connection."""
        for is_accepted, expected in ((False, "no answer"), (True, MUTE)):
            on_thread(self.client.log.info, *CONNECTING)
            self.reactor.turn()
            self.client.handler.is_accepted = is_accepted
            self.reactor.advance(PATIENCE_S)
            found = str(self.tree.problem).rpartition("zk:2181: ")[2]
            self.assertEqual(found, expected)
            self.assertEqual([], self.reactor.getDelayedCalls())

    def test_no_silence(self) -> None:
        """One that is heard of in time is not called silent: neither when it refuses,
        nor when it grants a session, nor when the client ends."""
        for heard in (
            lambda: self.client.warn("Connection dropped: refused"),
            lambda: self.client.connect(5),
            lambda: self.client.suspend(),
            lambda: self.tree.stopService(),
        ):
            on_thread(self.client.log.info, *CONNECTING)
            self.reactor.turn()
            heard()
            self.reactor.turn()
            self.reactor.advance(PATIENCE_S)
            self.assertNotIn("answer", str(self.tree.problem))
        self.assertEqual([], self.reactor.getDelayedCalls())

    def test_long_and_hostile(self) -> None:
        """What kazoo quotes neither steers the terminal nor fills the log."""
        found = self.last_trouble("\x1b[2J" + "x" * 10_000)
        self.assertTrue(found.startswith("\\x1b[2Jxxx"), found[:20])
        self.assertLess(len(found), 300)

    def test_exceptions(self) -> None:
        """An exception is named."""

        def fail() -> None:
            try:
                raise KeyError("xid")
            except KeyError:
                self.client.log.exception("Unhandled exception in connection loop")

        on_thread(fail)
        self.reactor.turn()
        self.assertIn("KeyError('xid')", str(self.tree.problem))

    def test_quiet(self) -> None:
        """Its log reaches neither ours nor a handler of the process, at no level, but
        for the warnings about an outage, which come ever more seldom."""
        with capturedLogs() as events:
            for _ in range(100):
                on_thread(self.client.log.info, "Connecting to %s", "zk")
                on_thread(self.client.log.debug, "Sending request")
                self.client.warn("Connection dropped: refused")
                self.reactor.turn()
                self.reactor.advance(1)
        found = [(event["log_level"], formatEvent(event)) for event in events]
        self.assertEqual(4, len(found), found)
        for level, text in found:
            self.assertEqual(LogLevel.warn, level)
            self.assertIn("no full connection to ZooKeeper", text)
        self.assertIsNone(self.client.log.parent)

    def test_threads_are_daemons(self) -> None:
        """Threads that wait for a server do not keep the process."""
        seen: list[bool] = []
        done = threading.Event()

        def look() -> None:
            seen.append(threading.current_thread().daemon)
            done.set()

        start_thread(look)
        self.assertTrue(done.wait(60))
        self.assertEqual([True], seen)
