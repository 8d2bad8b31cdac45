"""The lane: readiness of many descriptors behind one, and the end of each round."""

from __future__ import annotations

import contextlib
import socket
from itertools import count
from typing import Any

from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker import lane as lane_module
from metatwist.broker.lane import Lane
from metatwist.broker.transport import BrokerTransport
from tests.support.broker_parts import BrokerParts, get, opaques, put
from tests.support.loopback import WatchingReactor, loopback_pair, wait_readable


class RecordingTurn:
    """Counts ends, and notes whether the round knew that a lane runs it."""

    def __init__(self) -> None:
        self.in_lane = False
        self.ends: list[bool] = []

    def end(self) -> None:
        """See Turn."""
        self.ends.append(self.in_lane)


class Descriptor:
    """One watched socket; `on_read` and `on_write` say how a call ends."""

    on_read: Any = None
    on_write: Any = None

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.calls: list[str] = []

    def fileno(self) -> int:
        """For the lane."""
        return self.end.fileno()

    def _call(self, name: str, outcome: Any) -> Any:
        self.calls.append(name)
        if isinstance(outcome, type):
            raise outcome("as told")
        return outcome

    def doRead(self) -> Any:
        """Called when there is something to read."""
        return self._call("read", self.on_read)

    def doWrite(self) -> Any:
        """Called when there is room to write."""
        return self._call("write", self.on_write)

    def readConnectionLost(self, reason: Failure) -> None:
        """The peer has ended its side."""
        self.calls.append("half closed")

    def connectionLost(self, reason: Failure) -> None:
        """The connection has ended."""
        self.calls.append("lost")
        self.end.close()


class Conversation(Descriptor):
    """A peer that sends its next request when it has its answer."""

    def __init__(
        self, end: socket.socket, peer: socket.socket, lane: Lane, requests: int
    ) -> None:
        super().__init__(end)
        self._peer = peer
        self._lane = lane
        self._left = requests

    def doRead(self) -> None:
        """Take a request; the next one is sent at once, as long as there are any."""
        self.end.recv(10)
        self.calls.append("read")
        self._left -= 1
        if self._left:
            self._peer.sendall(b"x")
        else:
            self._lane.removeReader(self)


class LaneCase(SynchronousTestCase):
    """A lane with a turn that only counts."""

    def setUp(self) -> None:
        """Nothing is watched yet."""
        self.reactor = WatchingReactor()
        self.turn: Any = RecordingTurn()
        self.lane = Lane(self.reactor, self.turn, look_s=0)
        self.addCleanup(self.lane.close)

    def descriptor(self) -> tuple[socket.socket, Descriptor]:
        """A peer and the descriptor of our end."""
        peer, ours = loopback_pair(self)
        return peer, Descriptor(ours)


class WatchingTests(LaneCase):
    """Which descriptors are served."""

    def test_reactor_watches_the_lane_alone(self) -> None:
        """The reactor watches the lane, which is ready when one of its own is."""
        peer, descriptor = self.descriptor()
        self.lane.addReader(descriptor)
        self.assertEqual(self.reactor.readers, {self.lane})
        peer.sendall(b"x")
        wait_readable(self.lane)  # type: ignore[arg-type]

    def test_only_what_is_ready(self) -> None:
        """A round serves what is ready and nothing else, and ends the turn once."""
        peer, ready = self.descriptor()
        _, silent = self.descriptor()
        self.lane.addReader(ready)
        self.lane.addReader(silent)
        peer.sendall(b"x")
        wait_readable(ready.end)
        self.lane.doRead()
        self.assertEqual((ready.calls, silent.calls), (["read"], []))
        self.assertEqual(self.turn.ends, [True])
        self.assertFalse(self.turn.in_lane)

    def test_reading_and_writing(self) -> None:
        """Both are watched apart, and adding or removing twice is harmless."""
        peer, descriptor = self.descriptor()
        for _ in range(2):
            self.lane.addReader(descriptor)
            self.lane.addWriter(descriptor)
        peer.sendall(b"x")
        wait_readable(descriptor.end)
        self.lane.doRead()
        for _ in range(2):
            self.lane.removeReader(descriptor)
        self.lane.doRead()
        for _ in range(2):
            self.lane.removeWriter(descriptor)
        self.lane.doRead()
        self.assertEqual(descriptor.calls, ["read", "write", "write"])

    def test_a_lone_peer_is_looked_for(self) -> None:
        """What a lone peer sends at once is served without the reactor's help."""
        lane = Lane(self.reactor, self.turn, look_s=0.001)
        self.addCleanup(lane.close)
        peer, ours = loopback_pair(self)
        descriptor = Conversation(ours, peer, lane, requests=4)
        lane.addReader(descriptor)
        peer.sendall(b"x")
        wait_readable(ours)
        self.patch(lane_module, "perf_counter", count(0, 1e-6).__next__)
        lane.doRead()
        self.assertEqual(descriptor.calls, ["read"] * 4)
        self.assertEqual(self.turn.ends, [True] * 4)

    def test_a_lone_peer_does_not_keep_the_reactor(self) -> None:
        """One that never stops sending waits for a turn of the reactor every now and
        then, so that all else goes on."""
        lane = Lane(self.reactor, self.turn, look_s=0.01)
        self.addCleanup(lane.close)
        peer, ours = loopback_pair(self)
        descriptor = Conversation(ours, peer, lane, requests=100_000)
        lane.addReader(descriptor)
        peer.sendall(b"x")
        wait_readable(ours)
        self.patch(lane_module, "perf_counter", count(0, 0.0005).__next__)
        lane.doRead()
        self.assertLess(len(descriptor.calls), 10)
        lane.doRead()
        (coming_back,) = self.reactor.getDelayedCalls()
        before = len(descriptor.calls)
        self.reactor.advance(0)
        self.assertFalse(coming_back.active())
        self.assertGreater(len(descriptor.calls), before)

    def test_closed_by_what_it_serves(self) -> None:
        """A lane that is closed while it serves ends quietly, and says it is gone."""
        lane = Lane(self.reactor, self.turn, look_s=60)
        peer, descriptor = self.descriptor()
        lane.addReader(descriptor)
        self.patch(descriptor, "doRead", lane.close)
        peer.sendall(b"x")
        wait_readable(descriptor.end)
        lane.doRead()
        self.assertEqual(lane.fileno(), -1)

    def test_the_rest_is_the_reactors(self) -> None:
        """Timers, for instance, are the reactor's own."""
        self.assertEqual(self.lane.callLater, self.reactor.callLater)

    def test_descriptor_number_that_is_used_again(self) -> None:
        """Removing one that has gone leaves the one that has its number now."""
        peer, ours = loopback_pair(self)
        gone, now = Descriptor(ours), Descriptor(ours)
        self.lane.addReader(gone)
        self.lane.removeReader(gone)
        self.lane.addReader(now)
        self.lane.removeReader(gone)
        peer.sendall(b"x")
        wait_readable(ours)
        self.lane.doRead()
        self.assertEqual((gone.calls, now.calls), ([], ["read"]))


class LossTests(LaneCase):
    """How descriptors end."""

    def test_defect_in_connection_lost(self) -> None:
        """A defect at the end of one connection leaves the others served."""
        peer, descriptor = self.descriptor()
        descriptor.on_read = CONNECTION_LOST
        self.patch(descriptor, "connectionLost", lambda reason: 1 // 0)
        other_peer, other = self.descriptor()
        for one in (descriptor, other):
            self.lane.addReader(one)
        for sender in (peer, other_peer):
            sender.sendall(b"x")
        wait_readable(other.end)
        self.lane.doRead()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(other.calls, ["read"])

    def test_defect_at_the_end_of_a_turn(self) -> None:
        """A defect in what ends a turn is logged; the lane goes on."""
        peer, descriptor = self.descriptor()
        self.lane.addReader(descriptor)
        self.patch(self.turn, "end", lambda: 1 // 0)
        peer.sendall(b"x")
        wait_readable(descriptor.end)
        self.lane.doRead()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertFalse(self.turn.in_lane)

    def serve(self, on_read: Any = None, on_write: Any = None) -> list[str]:
        """The calls of a descriptor that is ready for both, over two rounds."""
        peer, descriptor = self.descriptor()
        descriptor.on_read, descriptor.on_write = on_read, on_write
        self.lane.addReader(descriptor)
        if on_write is not None:
            self.lane.addWriter(descriptor)
        peer.sendall(b"x")
        wait_readable(descriptor.end)
        self.lane.doRead()
        if descriptor.end.fileno() >= 0:
            self.lane.doRead()
        return descriptor.calls

    def test_half_closed(self) -> None:
        """A peer that ends its side is not read again, and not cut off either."""
        self.assertEqual(self.serve(CONNECTION_DONE), ["read", "half closed"])

    def test_lost_on_read(self) -> None:
        """A read that fails ends the connection."""
        self.assertEqual(self.serve(CONNECTION_LOST), ["read", "lost"])

    def test_lost_on_write(self) -> None:
        """A write that fails ends the connection."""
        calls = self.serve(on_write=CONNECTION_LOST)
        self.assertEqual(calls, ["read", "write", "lost"])

    def test_done_on_write(self) -> None:
        """A write that ends the connection, all being sent, is no half close, even
        when there was something to read in the same round."""
        calls = self.serve(on_write=CONNECTION_DONE)
        self.assertEqual(calls, ["read", "write", "lost"])

    def test_bug_in_one_connection(self) -> None:
        """An exception ends that connection, is logged, and others are served."""
        peer, other = self.descriptor()
        self.lane.addReader(other)
        self.assertEqual(self.serve(RuntimeError), ["read", "lost"])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        peer.sendall(b"x")
        wait_readable(other.end)
        self.lane.doRead()
        self.assertEqual(other.calls, ["read"])

    def test_reset_by_the_peer(self) -> None:
        """A reset is found even by who only writes."""
        peer, descriptor = self.descriptor()
        descriptor.on_write = CONNECTION_LOST
        self.lane.addWriter(descriptor)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
        wait_readable(descriptor.end)
        self.lane.doRead()
        self.assertEqual(descriptor.calls, ["write", "lost"])


class BrokerInLaneTests(SynchronousTestCase):
    """Connections of a broker on real sockets in one lane."""

    def setUp(self) -> None:
        """A broker whose connections are watched by a lane."""
        self.parts = BrokerParts(self)
        self.reactor = WatchingReactor()
        self.lane = Lane(self.reactor, self.parts.turns)
        self.addCleanup(self.lane.close)

    def connect(self, buffer_bytes: int | None = None) -> socket.socket:
        """A peer of the broker."""
        peer, ours = loopback_pair(self, buffer_bytes)
        protocol: Any = self.parts.factory.buildProtocol(None)
        address = peer.getsockname()
        transport = BrokerTransport(ours, protocol, address, None, 0, self.lane)
        protocol.makeConnection(transport)
        return peer

    def rounds(self, count: int = 3) -> None:
        """Some rounds of the lane, and what the disk owes."""
        for _ in range(count):
            self.lane.doRead()
            while self.parts.syncer.waiting:
                self.parts.syncer.finish()
                self.parts.turns.end()

    def ask(self, peer: socket.socket, *requests: bytes) -> bytes:
        """What answers, as far as one read gives it."""
        peer.sendall(b"".join(requests))
        wait_readable(self.lane)  # type: ignore[arg-type]
        self.rounds()
        wait_readable(peer)
        return peer.recv(1 << 20)

    def test_put_and_get(self) -> None:
        """A message goes in and comes out, by way of a file."""
        data = self.ask(self.connect(), put(b"hello"), get(0, 2))
        self.assertEqual(opaques(data), [1, 2])
        self.assertTrue(data.endswith(b"hello"))

    def test_slow_reader_pauses_only_itself(self) -> None:
        """Who does not read its answers is not read from; others go on."""
        slow, quick = self.connect(8192), self.connect()
        self.parts.connect().ask(put(b"x" * 900_000))
        large = get(0, 7, size=1_000_000)
        slow.sendall(large * 4)
        wait_readable(self.lane)  # type: ignore[arg-type]
        self.rounds()
        slow.sendall(put(b"late", 8))
        self.rounds()
        self.assertEqual(self.parts.numbers.messages_in, 1)
        self.assertEqual(opaques(self.ask(quick, put(b"y", 9))), [9])
        received = b""
        while not received.endswith(b" 0 900041"):
            self.rounds(1)
            wait_readable(slow)
            received += slow.recv(1 << 16)
        self.assertEqual(opaques(received), [7, 7, 7, 7, 8])

    def test_quit_with_answers_on_their_way(self) -> None:
        """`quit` from a slow reader closes once it has read all its answers."""
        slow = self.connect(8192)
        self.parts.connect().ask(put(b"x" * 900_000))
        slow.sendall(get(0, 7, size=1_000_000) + b"quit\r\n")
        received = b""
        while len(received) < len(b"value 900020 7\r\n") + 900_020:
            self.rounds(1)
            wait_readable(slow)
            received += slow.recv(1 << 16)
        self.rounds()
        wait_readable(slow)
        self.assertEqual(slow.recv(10), b"")
        self.assertEqual(opaques(received), [7])

    def test_quit_in_the_round_of_the_last_bytes(self) -> None:
        """A connection ends in whatever round its `quit` and its last room to write
        meet; the sizes are such that one of them hits that round."""
        self.parts.connect().ask(put(b"x" * 900_000))
        peers = []
        for size in range(8_000, 64_000, 4_000):
            peer = self.connect(8192)
            peer.sendall(get(0, size=size))
            self.rounds()
            peer.recv(1 << 16)
            peer.sendall(b"quit\r\n")
            peer.setblocking(False)
            peers.append(peer)
        for _ in range(40):
            self.rounds(1)
            for peer in peers:
                with contextlib.suppress(BlockingIOError):
                    peer.recv(1 << 16)
        self.assertEqual(self.parts.numbers.connections, 1)

    def test_half_closed_peer_gets_its_answers(self) -> None:
        """A peer that ends its side first reads all answers, then the end."""
        peer = self.connect()
        peer.sendall(put(b"hello") + get(0, 2))
        peer.shutdown(socket.SHUT_WR)
        wait_readable(self.lane)  # type: ignore[arg-type]
        self.rounds()
        received = b""
        while data := peer.recv(1000):
            received += data
        self.assertEqual(opaques(received), [1, 2])
        self.assertEqual(self.parts.numbers.connections, 0)

    def test_file_is_given_back_when_the_peer_goes(self) -> None:
        """A peer that goes away while a file is sent to it leaves no file held."""
        slow = self.connect(8192)
        self.parts.connect().ask(put(b"x" * 900_000))
        log = self.parts.catalog.logs["test", 0]
        file = log.open(log.segments[0])
        slow.sendall(get(0, 7, size=1_000_000))
        self.rounds()
        self.assertEqual(file.holders, 2)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        slow.close()
        self.rounds()
        self.assertEqual(file.holders, 1)
        file.release()
