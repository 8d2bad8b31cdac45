"""Checks 117, 118 and 120: connections."""

from __future__ import annotations

import re
import time
from typing import ClassVar

from tests.conformance.conformance_case import ConformanceCase, Peer

IDLE_S = 20
CROWD = 200


class ConnectionChecks(ConformanceCase):
    """Silent, busy and many connections."""

    silent: ClassVar[Peer]
    since_s: ClassVar[float]

    @classmethod
    def setUpClass(cls) -> None:
        """Open the connection that stays silent; the other checks run meanwhile."""
        super().setUpClass()
        cls.silent = Peer(cls.broker.port)
        cls.since_s = time.monotonic()
        cls.addClassCleanup(cls.silent.socket.close)

    def test_118_version_among_large_puts(self) -> None:
        """`version` is answered while puts of 5 MB are in flight, and so are all."""
        peer = self.peer()
        put = b"put %s 0 102400 0 -1 %d\r\n%s"
        topic, body = self.topic.encode(), b"x" * 102_400
        peer.send(b"".join(put % (topic, opaque, body) for opaque in range(50)))
        heart = self.peer()
        self.assertTrue(self.ask(b"version 9\r\n", heart).startswith(b"result 200 "))
        replies = [peer.reply() for _ in range(50)]
        opaques = [int(reply.split(b"\r\n")[0].split()[3]) for reply in replies]
        self.assertEqual(opaques, list(range(50)))

    def test_120_many_connections(self) -> None:
        """Two hundred connections at once are all served."""
        peers = [self.peer() for _ in range(CROWD)]
        for peer in peers:
            peer.send(self.own(b"put test 0 5 0 907060870 2\r\nhello"))
        offsets = [int(peer.reply().split()[-1]) for peer in peers]
        self.assertEqual(sorted(offsets), list(range(0, 25 * CROWD, 25)))
        general = self.ask(b"stats  1\r\n")
        counted = re.search(rb"curr_connections ([0-9]+)\r\n", general)
        assert counted is not None
        self.assertGreaterEqual(int(counted[1]), CROWD)

    def test_zz_117_silent_connection(self) -> None:
        """A connection that was silent for 20 s is open and has received nothing."""
        left_s = self.since_s + IDLE_S - time.monotonic()
        self.assertTrue(self.silent.is_silent(max(left_s, 0.1)))
