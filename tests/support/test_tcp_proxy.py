"""The proxy that tests cut."""

from __future__ import annotations

import socket

from twisted.trial.unittest import SynchronousTestCase

from .tcp_proxy import TcpProxy

WAIT_S = 10.0
SILENCE_S = 0.1


class TcpProxyTest(SynchronousTestCase):
    """One connection through the proxy to `self.listener`."""

    def setUp(self) -> None:
        """Make the listener and the proxy in front of it."""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT_S)
        self.addCleanup(self.listener.close)
        self.proxy = TcpProxy(self.listener.getsockname()[1])
        self.addCleanup(self.proxy.close)

    def connect(self) -> socket.socket:
        """A client's end at the proxy."""
        client = socket.create_connection(("127.0.0.1", self.proxy.port), WAIT_S)
        self.addCleanup(client.close)
        return client

    def accept(self) -> socket.socket:
        """The server's end of the next connection."""
        server, _ = self.listener.accept()
        server.settimeout(WAIT_S)
        self.addCleanup(server.close)
        return server

    def assert_silent(self, end: socket.socket) -> None:
        """Nothing arrives, not even the end."""
        end.settimeout(SILENCE_S)
        self.assertRaises(TimeoutError, end.recv, 1)
        end.settimeout(WAIT_S)

    def test_forwards(self) -> None:
        """Bytes pass both ways, and so does the end of a connection."""
        client, server = self.connect(), self.accept()
        client.sendall(b"question")
        self.assertEqual(server.recv(100), b"question")
        server.sendall(b"answer")
        self.assertEqual(client.recv(100), b"answer")
        server.close()
        self.assertEqual(client.recv(100), b"")
        self.assertEqual(self.proxy.accepted, 1)

    def test_cut_closes_and_refuses(self) -> None:
        """A cut ends both halves and refuses more, until the link is healed."""
        client, server = self.connect(), self.accept()
        client.sendall(b"x")
        self.assertEqual(server.recv(1), b"x")
        self.proxy.cut()
        self.assertEqual((client.recv(1), server.recv(1)), (b"", b""))
        self.assertRaises(ConnectionRefusedError, self.connect)
        self.proxy.heal()
        client, server = self.connect(), self.accept()
        client.sendall(b"again")
        self.assertEqual(server.recv(100), b"again")

    def test_black_hole_holds_back(self) -> None:
        """In a black hole nothing passes on old connections and new ones; what was held
        back arrives once the link is healed."""
        client, server = self.connect(), self.accept()
        client.sendall(b"x")
        self.assertEqual(server.recv(1), b"x")
        self.proxy.cut(black_hole=True)
        client.sendall(b"old")
        late = self.connect()
        late.sendall(b"new")
        self.assert_silent(server)
        self.proxy.heal()
        self.assertEqual(server.recv(100), b"old")
        self.assertEqual(self.accept().recv(100), b"new")
