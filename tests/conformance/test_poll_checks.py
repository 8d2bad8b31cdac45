"""Polls, our extension, on a real broker beside clients that know nothing of them."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.conformance.conformance_case import ANSWER_S, ConformanceCase, Peer

HELLO = b"put test 0 5 0 907060870 2\r\nhello"
HOUR_MS = 3_600_000
POLLS = 500
_CLIENT = """\
import socket, sys, time
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.sendall(sys.argv[2].encode() * int(sys.argv[3]))
time.sleep(600)
"""


def opaque_of(reply: bytes) -> int:
    """The opaque of a reply."""
    return int(reply.partition(b"\r\n")[0].split(b" ")[-1])


class PollChecks(ConformanceCase):
    """One broker for all; each check has a topic of its own."""

    def poll(self, offset: int, opaque: int = 1, wait_ms: int = HOUR_MS) -> bytes:
        """A poll of the check's topic."""
        request = b"poll test g 0 %d 1000 %d %d\r\n" % (offset, wait_ms, opaque)
        return self.own(request)

    def waiting(self) -> int:
        """Polls that wait, as an operator sees it."""
        status = self.broker.admin("status")
        assert isinstance(status, dict)
        found: int = status["numbers"]["waiting_polls"]
        return found

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until it holds; fail when it never does."""
        until_s = time.monotonic() + ANSWER_S
        while not condition():
            self.assertLess(time.monotonic(), until_s, "it never came to be")
            time.sleep(0.01)

    def waits(self, peer: Peer, request: bytes) -> None:
        """Send a poll and see it wait."""
        before = self.waiting()
        peer.send(request)
        self.until(lambda: self.waiting() == before + 1)

    def test_201_wakes_on_a_put(self) -> None:
        """A poll is answered by somebody else's put, in a chain without a gap."""
        peer, offset = self.peer(), 0
        for _ in range(20):
            self.waits(peer, self.poll(offset))
            self.put(b"hello")
            reply = peer.reply()
            self.assertTrue(reply.startswith(b"value 25 1\r\n"), reply)
            offset += 25

    def test_202_direct_mode(self) -> None:
        """So it is where nothing waits for an fsync, from the first message on."""
        peer = self.peer()
        self.waits(peer, b"poll lazy g 0 0 1000 %d 1\r\n" % HOUR_MS)
        self.ask(b"put lazy 0 5 0 907060870 1\r\nhello")
        self.assertTrue(peer.reply().endswith(b"hello"))

    def test_203_order(self) -> None:
        """What is asked behind a waiting poll keeps its order among itself."""
        peer = self.peer()
        self.waits(peer, self.poll(0, 1))
        puts = b"".join(
            self.own(b"put test 1 1 0 %d\r\nx" % opaque) for opaque in range(10, 20)
        )
        peer.send(puts + self.own(b"get test g 1 0 21 20\r\n"))
        answered = [opaque_of(peer.reply()) for _ in range(11)]
        self.assertEqual(answered, list(range(10, 21)))
        self.put(b"hello")
        self.assertEqual(opaque_of(peer.reply()), 1)

    def test_204_wait_ends(self) -> None:
        """Without data the answer is 404, after the wait."""
        peer, began_s = self.peer(), time.monotonic()
        peer.send(self.poll(0, 1, wait_ms=300))
        reply = peer.reply()
        self.assertGreater(time.monotonic() - began_s, 0.29)
        self.assertTrue(reply.startswith(b"result 404 "), reply)

    def test_205_plain_clients(self) -> None:
        """While others wait, a get at the end is answered 404 at once, as ever."""
        self.put(b"hello")
        peer = self.peer()
        self.waits(peer, self.poll(25))
        plain = self.peer()
        reply = self.ask(b"get test g 0 25 1000 5\r\n", plain)
        self.assertTrue(reply.startswith(b"result 404 37 5\r\n"))
        reply = self.ask(b"get test g 0 0 1000 6\r\n", plain)
        self.assertTrue(reply.startswith(b"value 25 6\r\n"))

    def test_206_many_readers(self) -> None:
        """Polls of many connections are all answered by one put."""
        peers = [self.peer() for _ in range(100)]
        before = self.waiting()
        for peer in peers:
            peer.send(self.poll(0, 1) + self.poll(0, 2))
        self.until(lambda: self.waiting() == before + 200)
        self.put(b"hello")
        for peer in peers:
            replies = [peer.reply(), peer.reply()]
            self.assertEqual([opaque_of(reply) for reply in replies], [1, 2])
            self.assertTrue(all(reply.endswith(b"hello") for reply in replies))
        self.until(lambda: self.waiting() == before)

    def test_207_killed_peer(self) -> None:
        """A client that is killed leaves nothing behind, and the others go on."""
        peer, before = self.peer(), self.waiting()
        argv = [sys.executable, "-c", _CLIENT, str(self.broker.port)]
        client = subprocess.Popen([*argv, self.poll(0).decode(), str(POLLS)])
        try:
            self.until(lambda: self.waiting() == before + POLLS)
            self.waits(peer, self.poll(0, 7))
        finally:
            os.kill(client.pid, signal.SIGKILL)
            client.wait()
        self.until(lambda: self.waiting() == before + 1)
        self.put(b"hello")
        self.assertEqual(opaque_of(peer.reply()), 7)

    def test_208_reset(self) -> None:
        """The same holds for a connection that is reset."""
        peer, before = self.peer(), self.waiting()
        self.waits(peer, self.poll(0))
        linger = struct.pack("ii", 1, 0)
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        peer.socket.close()
        self.until(lambda: self.waiting() == before)
        self.assertTrue(self.put(b"hello").startswith(b"result 200 "))

    def test_209_half_close(self) -> None:
        """Who stops sending is answered at once, and the connection ends."""
        peer = self.peer()
        self.waits(peer, self.poll(0, 3))
        peer.socket.shutdown(socket.SHUT_WR)
        data = peer.until_closed()
        self.assertTrue(data.startswith(b"result 404 "), data)
        self.assertEqual(opaque_of(data), 3)

    def test_210_closed_partition(self) -> None:
        """An operator who closes the partition ends the waits."""
        self.put(b"hello")
        peer = self.peer()
        self.waits(peer, self.poll(25))
        self.close_partition(0)
        self.assertTrue(peer.reply().startswith(b"result 403 "))

    def test_211_deleted_partition(self) -> None:
        """So does one who deletes it; it is waited for anew."""
        self.put(b"hello")
        peer = self.peer()
        self.waits(peer, self.poll(25))
        span = {"topic": self.topic, "first": 0, "last": 0}
        self.broker.admin("delete-partitions", **span, force=True)
        self.assertTrue(peer.reply().startswith(b"result 404 "))
        self.waits(peer, self.poll(0))
        self.put(b"again")
        self.assertTrue(peer.reply().endswith(b"again"))

    def test_212_probe(self) -> None:
        """The broker tells that it knows polls, and what it offers."""
        reply = self.ask(b"stats extensions 4\r\n")
        lines = reply.split(b"\r\n")[1:]
        self.assertEqual(lines[:2], [b"STATS", b"extensions poll partitions"])
        self.assertIn(b"partitions test 3", lines)


class StopChecks(ConformanceCase):
    """A broker that stops."""

    def test_213_orderly_stop(self) -> None:
        """An orderly stop answers what waits, before it cuts anybody off."""
        peer = self.peer()
        peer.send(b"poll test g 0 0 1000 %d 8\r\nversion 9\r\n" % HOUR_MS)
        self.assertEqual(opaque_of(peer.reply()), 9)
        self.broker.stop()
        data = peer.until_closed()
        self.assertTrue(data.startswith(b"result 404 "), data)
        self.assertEqual(opaque_of(data), 8)
        said = Path(self.broker.output_path).read_text()
        self.assertIn("all that was acknowledged is on disk", said)
