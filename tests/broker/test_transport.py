"""The broker's transport on real sockets: partial sends, file ranges, and its end."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet import main
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.file_pool import FilePool, OpenFile
from metatwist.broker.storage.files import FileOps
from metatwist.broker.transport import BrokerPort, BrokerTransport, ListeningReactor
from tests.support.loopback import WatchingReactor, loopback_pair, wait_readable

SMALL_BUFFER = 8 * 1024
MORE_THAN_BUFFERS = 1_500_000


class Receiver(Protocol):
    """Keeps what it is given, and what it is told as a producer."""

    def __init__(self) -> None:
        self.received = b""
        self.told: list[str] = []
        self.lost: list[Failure] = []

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.received += data

    def connectionLost(self, reason: Failure = main.CONNECTION_DONE) -> None:
        """Note it."""
        self.lost.append(reason)

    def pauseProducing(self) -> None:
        """Note it."""
        self.told.append("pause")

    def resumeProducing(self) -> None:
        """Note it."""
        self.told.append("resume")

    def stopProducing(self) -> None:
        """Note it."""
        self.told.append("stop")


class TransportCase(SynchronousTestCase):
    """A transport, its peer's socket, and a file of known bytes."""

    def setUp(self) -> None:
        """Connect."""
        self.outcome: Any = None
        self.reactor = WatchingReactor()
        self.peer, self.ours = loopback_pair(self, SMALL_BUFFER)
        self.protocol = Receiver()
        address = self.peer.getsockname()
        self.transport: Any = BrokerTransport(
            self.ours, self.protocol, address, None, 0, self.reactor
        )
        self.protocol.makeConnection(self.transport)
        self.transport.registerProducer(self.protocol, True)

    def drain(self, size: int) -> bytes:
        """Read `size` bytes at the peer, with the reactor's turns in between."""
        data = b""
        while len(data) < size:
            if self.transport in self.reactor.writers:
                self.outcome = self.transport.doWrite()
            wait_readable(self.peer)
            data += self.peer.recv(1 << 16)
        return data

    def file(self, content: bytes) -> OpenFile:
        """An open file with this content, held once."""
        handle, name = tempfile.mkstemp()
        os.write(handle, content)
        os.close(handle)
        self.addCleanup(os.unlink, name)
        pool = FilePool(FileOps(), 4)
        self.addCleanup(pool.close)
        return pool.hold(Path(name))


class WriteTests(TransportCase):
    """Bytes on their way out."""

    def test_written_at_once(self) -> None:
        """What the socket takes is sent without a turn of the reactor."""
        self.transport.write(b"hello")
        self.transport.writeSequence([b" ", b"world"])
        self.assertEqual(self.reactor.writers, set())
        self.assertEqual(self.drain(11), b"hello world")

    def test_partial_send(self) -> None:
        """What the socket does not take is kept, and sent in order, all of it."""
        data = bytes(range(256)) * (MORE_THAN_BUFFERS // 256)
        self.transport.write(data)
        self.transport.write(b"behind")
        self.assertIn(self.transport, self.reactor.writers)
        self.assertEqual(self.drain(len(data) + 6), data + b"behind")
        self.assertIsNone(self.outcome)

    def test_producer_is_paused_until_all_has_gone(self) -> None:
        """A peer that does not read pauses the producer, once, and only for as long."""
        self.transport.write(bytes(MORE_THAN_BUFFERS))
        self.transport.write(bytes(10))
        self.assertEqual(self.protocol.told, ["pause"])
        self.drain(MORE_THAN_BUFFERS + 10)
        self.transport.doWrite()
        self.assertEqual(self.protocol.told, ["pause", "resume"])
        self.assertEqual(self.reactor.writers, set())

    def test_close_after_all_is_sent(self) -> None:
        """`loseConnection` sends first what is queued."""
        self.transport.unregisterProducer()
        self.transport.write(bytes(MORE_THAN_BUFFERS))
        self.transport.loseConnection()
        self.drain(MORE_THAN_BUFFERS)
        self.assertIs(self.outcome, main.CONNECTION_DONE)

    def test_nothing_is_sent_after_the_end(self) -> None:
        """Writes to a connection that is gone are dropped."""
        self.transport.connectionLost(Failure(main.CONNECTION_LOST))
        self.transport.write(b"x")
        self.assertEqual(len(self.protocol.lost), 1)
        self.assertEqual(self.peer.recv(10), b"")

    def test_broken_connection(self) -> None:
        """A write to a peer that has reset ends the connection in the next turn."""
        self.peer.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER, 0 s: a reset
        self.peer.close()
        wait_readable(self.ours)
        self.transport.write(b"x")
        self.transport.write(b"y")
        self.assertIs(self.transport.doWrite(), main.CONNECTION_LOST)


class ReadTests(TransportCase):
    """Bytes on their way in."""

    def test_read(self) -> None:
        """What has arrived is given to the protocol; nothing there is no error."""
        self.assertIsNone(self.transport.doRead())
        self.peer.sendall(b"hello")
        wait_readable(self.ours)
        self.assertIsNone(self.transport.doRead())
        self.assertEqual(self.protocol.received, b"hello")

    def test_end(self) -> None:
        """The peer's end is told as such."""
        self.peer.close()
        wait_readable(self.ours)
        self.assertIs(self.transport.doRead(), main.CONNECTION_DONE)


class FileTests(TransportCase):
    """Ranges of files on their way out."""

    def test_range(self) -> None:
        """A header and exactly the range are sent, and the file is given back."""
        file = self.file(b"0123456789")
        self.transport.send_file(b"head ", file, 3, 4)
        self.assertEqual(self.drain(9), b"head 3456")
        self.assertEqual(file.holders, 0)

    def test_large_ranges_in_order(self) -> None:
        """Large ranges and bytes between them arrive in order, in many turns."""
        content = os.urandom(MORE_THAN_BUFFERS)
        file, other = self.file(content), self.file(content)
        self.transport.send_file(b"first ", file, 0, len(content))
        self.transport.write(b" between ")
        self.transport.send_file(b"second ", other, 1, 1000)
        self.assertEqual((file.holders, other.holders), (1, 1))
        expected = b"first " + content + b" between second " + content[1:1001]
        self.assertEqual(self.drain(len(expected)), expected)
        self.transport.doWrite()
        self.assertEqual((file.holders, other.holders), (0, 0))

    def test_one_share_a_turn(self) -> None:
        """However much the socket takes, one turn sends no more than its share."""
        share = 512 * 1024
        sent: list[int] = []

        class Greedy:
            """A socket that takes everything."""

            def __len__(self) -> int:
                return self.left

            left = 4 * share

            def send_to(self, fd: int) -> int:
                """Take a quarter of a share."""
                size = min(self.left, share // 4)
                self.left -= size
                sent.append(size)
                return size

            def release(self) -> None:
                """Nothing is held."""

        self.transport._queue.append(Greedy())
        self.transport.doWrite()
        self.assertLessEqual(sum(sent), share + share // 4)

    def test_released_on_disconnect(self) -> None:
        """A connection that ends gives back the files it was still to send."""
        files = [self.file(bytes(MORE_THAN_BUFFERS)) for _ in range(3)]
        for file in files:
            self.transport.send_file(b"head", file, 0, MORE_THAN_BUFFERS)
        self.transport.connectionLost(Failure(main.CONNECTION_LOST))
        self.assertEqual([file.holders for file in files], [0, 0, 0])

    def test_released_when_already_gone(self) -> None:
        """A range for a connection that is gone is given back at once."""
        self.transport.connectionLost(Failure(main.CONNECTION_LOST))
        file = self.file(b"0123456789")
        self.transport.send_file(b"head", file, 0, 10)
        self.assertEqual(file.holders, 0)

    def test_file_that_was_cut(self) -> None:
        """A file shorter than its range ends the connection, never lies about bytes."""
        file = self.file(b"0123")
        self.transport.send_file(b"head", file, 0, 10)
        self.assertIs(self.transport.doWrite(), main.CONNECTION_LOST)
        self.transport.connectionLost(Failure(main.CONNECTION_LOST))
        self.assertEqual(file.holders, 0)
        self.assertEqual(self.drain(8), b"head0123")

    def test_pauses_the_producer(self) -> None:
        """A range that has not left pauses the producer like bytes do."""
        file = self.file(bytes(MORE_THAN_BUFFERS))
        self.transport.send_file(b"", file, 0, MORE_THAN_BUFFERS)
        self.assertEqual(self.protocol.told, ["pause"])


class ListeningTests(SynchronousTestCase):
    """`ListeningReactor`."""

    def test_port(self) -> None:
        """Plain TCP listens with our port, and the rest is the reactor's."""
        reactor: Any = WatchingReactor()
        listening = ListeningReactor(reactor, lane=object())
        port = listening.listenTCP(0, Factory(), interface="127.0.0.1")
        self.assertIsInstance(port, BrokerPort)
        self.assertIn(port, reactor.readers)
        self.assertEqual(listening.seconds(), reactor.seconds())
        port.connectionLost(Failure(main.CONNECTION_DONE))


class Factory:
    """As much of a factory as listening needs."""

    noisy = False

    def doStart(self) -> None:
        """Nothing to begin."""

    def doStop(self) -> None:
        """Nothing to end."""
