"""When replies leave: not before the disk, in order, and never more than is read."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet import main, tcp

from metatwist.coordination.embedded import connection as connections
from metatwist.coordination.embedded import requests
from metatwist.coordination.interface import EventKind
from tests.coordination.server_case import (
    EPHEMERAL,
    Peer,
    ServerCase,
    create,
    greeting,
    read,
    set_data,
)
from tests.support.loopback import WatchingReactor, loopback_pair, wait_readable

BIG = bytes(100_000)
PING_XID = -2


class DurabilityTests(ServerCase):
    """Replies and the disk."""

    def setUp(self) -> None:
        super().setUp()
        self.peer, self.other = self.connect(), self.connect()
        self.peer.create("/a", b"1")
        self.journal.hold()

    def request_set(self, path: str = "/a") -> None:
        """Ask for a change without waiting for the reply."""
        self.peer.send(self.peer.request(requests.SET_DATA, set_data(path, b"2")))

    def test_write_waits(self) -> None:
        """A write is answered once it is on disk, and not before."""
        self.request_set()
        self.assertEqual(self.peer.outline(), [])
        self.journal.sync(self.journal.recorded - 1)
        self.assertEqual(self.peer.outline(), [])
        self.journal.sync()
        self.assertEqual(self.peer.outline(), [2])

    def test_read_waits_for_what_it_shows(self) -> None:
        """A read by anybody waits for the changes that it may show."""
        self.request_set()
        self.other.send(self.other.request(requests.GET_DATA, read("/a")))
        self.assertEqual(self.other.outline(), [])
        self.journal.sync()
        (reply,) = self.other.replies()
        self.assertEqual(reply.record.buffer(), b"2")

    def test_read_does_not_wait_without_need(self) -> None:
        """With all changes on disk a read is answered at once."""
        self.assertEqual(self.peer.ask(requests.GET_DATA, read("/a")).error, 0)

    def test_ephemerals_wait_for_their_parent(self) -> None:
        """An ephemeral is answered when the parent's counters are on disk."""
        self.peer.send(self.peer.request(requests.CREATE, create("/e", b"", EPHEMERAL)))
        self.assertEqual(self.peer.outline(), [])
        self.journal.sync()
        self.assertEqual(self.peer.outline(), [2])

    def test_in_order(self) -> None:
        """Replies leave in request order, as far as the disk has come, each once."""
        tickets = []
        for _ in range(3):
            self.request_set()
            tickets.append(self.journal.recorded)
            self.peer.send(self.peer.request(requests.EXISTS, read("/a")))
        for ticket, xids in zip(tickets, ([2, 3], [4, 5], [6, 7]), strict=True):
            self.journal.sync(ticket)
            self.assertEqual(self.peer.outline(), xids)
        self.journal.sync()
        self.assertEqual(self.peer.outline(), [])
        self.assertEqual(self.server.waiting, set())

    def test_nothing_overtakes(self) -> None:
        """What needs no disk any more still comes behind what waited before it."""
        self.request_set()
        self.journal.quick = True
        self.peer.send(self.peer.request(requests.EXISTS, read("/a")))
        self.assertEqual(self.peer.outline(), [])
        self.journal.sync()
        self.assertEqual(self.peer.outline(), [2, 3])

    def test_pings_pass(self) -> None:
        """Pings are answered whatever the disk does."""
        self.request_set()
        self.peer.send(self.peer.request(requests.PING, xid=PING_XID))
        self.assertEqual(self.peer.outline(), [PING_XID])
        self.journal.sync()
        self.assertEqual(self.peer.outline(), [2])

    def test_events_wait(self) -> None:
        """An event waits for its change, and comes before any reply that shows it."""
        self.other.watch(requests.GET_DATA, "/a")
        self.request_set()
        self.other.send(self.other.request(requests.GET_DATA, read("/a")))
        self.assertEqual(self.other.outline(), [])
        self.journal.sync()
        self.assertEqual(self.other.outline(), [(EventKind.CHANGED, "/a"), 2])

    def test_events_behind_earlier_replies(self) -> None:
        """An event comes behind the replies that had been made before its change."""
        self.request_set()
        self.other.send(self.other.request(requests.GET_DATA, read("/a", watch=True)))
        self.request_set()
        self.journal.sync()
        self.assertEqual(self.other.outline(), [1, (EventKind.CHANGED, "/a")])

    def test_new_sessions_wait(self) -> None:
        """A handshake is answered behind the disk too: it shows the zxid of nothing
        that could be lost."""
        self.request_set()
        late = self.bare()
        late.send(greeting())
        self.assertEqual(late.frames(), [])
        self.journal.sync()
        self.assertEqual(len(late.frames()), 1)

    def test_close_waits(self) -> None:
        """The reply to closeSession, and the end of the connection, wait for the
        disk."""
        self.request_set()
        self.peer.send(self.peer.request(requests.CLOSE))
        self.assertFalse(self.peer.is_closed)
        self.journal.sync()
        self.assertEqual(self.peer.outline(), [2, 3])
        self.assertTrue(self.peer.is_closed)
        self.assertFalse(self.peer.wire.disconnected)

    def test_refusals_wait(self) -> None:
        """A refused session hears so behind the disk, and is closed then."""
        self.request_set()
        late = self.bare()
        late.send(greeting((5, b"x")))
        self.assertFalse(late.is_closed)
        self.journal.sync()
        self.assertEqual(len(late.frames()), 1)
        self.assertTrue(late.is_closed)

    def test_gone_while_waiting(self) -> None:
        """Replies of a connection that is gone are dropped; the change is made."""
        self.request_set()
        self.peer.drop()
        self.assertEqual(self.server.waiting, set())
        self.journal.sync()
        self.assertEqual(self.peer.frames(), [])
        self.assertEqual(self.realm.tree.nodes["/a"].data, b"2")

    def test_held(self) -> None:
        """A connection with too much waiting for the disk is not read until that has
        left; nothing is lost, and others are served."""
        self.patch(connections, "MAX_WAITING_BYTES", 100)
        self.request_set()
        for _ in range(6):
            self.request_set()
        self.assertFalse(self.peer.wire.reading)
        self.assertTrue(self.other.wire.reading)
        version = self.realm.tree.nodes["/a"].version
        self.assertLess(version, 7)
        self.journal.sync()
        self.journal.sync()
        while self.server.waiting:
            self.journal.sync()
        self.assertTrue(self.peer.wire.reading)
        self.assertEqual(self.peer.outline(), [2, 3, 4, 5, 6, 7, 8])
        self.assertEqual(self.realm.tree.nodes["/a"].version, 7)

    def test_held_lives_on(self) -> None:
        """The session of a connection that is not read does not grow older: what it
        says is not heard. Others do."""
        self.patch(connections, "MAX_WAITING_BYTES", 10)
        self.request_set()
        for _ in range(5):
            self.clock.advance(5)
            self.server.tick()
        self.assertFalse(self.peer.wire.disconnected)
        self.assertTrue(self.other.wire.disconnected)
        self.journal.sync()
        self.assertEqual(self.peer.outline(), [2])
        self.clock.advance(9)
        self.assertEqual(self.server.tick(), [])
        self.clock.advance(1)
        self.assertEqual(len(self.server.tick()), 1)

    def test_all_finished(self) -> None:
        """`finish_all` ends a connection once what was answered has left; nothing more
        is taken from it."""
        self.request_set()
        self.server.finish_all()
        self.assertEqual((self.peer.is_closed, self.other.is_closed), (False, True))
        for one in (self.peer, self.other):
            one.send(one.request(requests.CREATE, create("/late")))
        self.journal.sync()
        self.assertEqual(self.peer.outline(), [2])
        self.assertTrue(self.peer.is_closed)
        self.assertFalse(self.peer.wire.disconnected)
        self.assertNotIn("/late", self.realm.tree.nodes)


class SlowReaderTests(ServerCase):
    """Clients that do not read what they asked for."""

    def setUp(self) -> None:
        super().setUp()
        self.peer, self.other = self.connect(), self.connect()
        self.peer.create("/big", BIG)

    def ask_for_much(self, peer: Peer, count: int) -> None:
        """Ask for big data many times, in one piece."""
        peer.send(
            *(peer.request(requests.GET_DATA, read("/big")) for _ in range(count))
        )

    def test_not_answered_beyond_its_room(self) -> None:
        """Of many requests that came at once no more are answered than the transport
        has room for; the rest waits as requests, and nothing more is read."""
        self.peer.wire.room_bytes = 250_000
        self.ask_for_much(self.peer, 50)
        self.assertLess(len(self.peer.wire.value()), 500_000)
        self.assertFalse(self.peer.wire.reading)

    def test_nothing_is_lost(self) -> None:
        """As the client reads on, all is answered, in order, each once."""
        self.peer.wire.room_bytes = 250_000
        self.ask_for_much(self.peer, 20)
        self.peer.connection.dataReceived(self.peer.request(requests.EXISTS, read("/")))
        xids: list[object] = []
        for _ in range(50):
            xids += self.peer.outline()
            self.peer.connection.resumeProducing()
        self.assertEqual(xids, list(range(2, 23)))
        self.assertTrue(self.peer.wire.reading)

    def test_slows_nobody_else(self) -> None:
        """Others are answered meanwhile."""
        self.peer.wire.room_bytes = 1
        self.ask_for_much(self.peer, 5)
        self.assertFalse(self.peer.wire.reading)
        self.assertEqual(self.other.ask(requests.EXISTS, read("/big")).error, 0)
        self.assertTrue(self.other.wire.reading)

    def test_slow_and_held(self) -> None:
        """Who is slow and waits for the disk is read again when neither is so."""
        self.patch(connections, "MAX_WAITING_BYTES", 10)
        self.journal.hold()
        self.peer.send(self.peer.request(requests.SET_DATA, set_data("/big", b"")))
        self.assertFalse(self.peer.wire.reading)
        self.peer.connection.pauseProducing()
        self.peer.connection.resumeProducing()
        self.assertFalse(self.peer.wire.reading)
        self.peer.connection.pauseProducing()
        self.journal.sync()
        self.assertFalse(self.peer.wire.reading)
        self.peer.connection.resumeProducing()
        self.assertTrue(self.peer.wire.reading)
        self.assertEqual(self.peer.outline(), [2])

    def test_closed_when_it_has_read_all(self) -> None:
        """A client that closes its session, and reads slowly, gets all its replies and
        then the end: on a real transport, which does not end while it has a paused
        producer."""
        self.peer.create("/half", bytes(40_000))
        turns = WatchingReactor()
        near, ours = loopback_pair(self, 8 * 1024)
        connection = self.server.buildProtocol(None)
        transport = cast(Any, tcp.Server)(
            ours, connection, near.getsockname(), None, 0, turns
        )
        connection.makeConnection(transport)
        peer = Peer(connection, self.other.wire)
        peer.send(greeting(), peer.request(requests.GET_DATA, read("/half")))
        peer.send(
            peer.request(requests.GET_DATA, read("/half")), peer.request(requests.CLOSE)
        )
        received, outcome = 0, None
        while outcome is None and transport in turns.writers:
            outcome = transport.doWrite()
            wait_readable(near)
            received += len(near.recv(1 << 16))
        self.assertIs(outcome, main.CONNECTION_DONE)
        ours.close()
        while data := near.recv(1 << 16):
            received += len(data)
        self.assertGreater(received, 80_000)
