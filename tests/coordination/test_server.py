"""The embedded server as a client sees it: handshake, sessions, frames, words."""

from __future__ import annotations

import struct

from metatwist.coordination.embedded import codec, requests
from metatwist.coordination.embedded import connection as connections
from metatwist.coordination.embedded.codec import MAX_FRAME_BYTES
from metatwist.coordination.embedded.connection import TreeServer
from metatwist.coordination.interface import EventKind
from tests.coordination.server_case import (
    EPHEMERAL,
    NO_PASSWORD,
    TIMEOUT_MS,
    ServerCase,
    Wire,
    create,
    greeting,
    read,
    set_data,
)


class HandshakeTests(ServerCase):
    """The first frame."""

    def test_new_session(self) -> None:
        """A new session has an id, a password of 16 bytes and the timeout asked for."""
        granted = self.connect().granted
        self.assertGreater(granted.session_id, 0)
        self.assertEqual(len(granted.password), 16)
        self.assertNotEqual(granted.password, NO_PASSWORD)
        self.assertEqual((granted.timeout_ms, granted.size_bytes), (TIMEOUT_MS, 37))

    def test_old_client(self) -> None:
        """A client before 3.4 sends no read-only flag and gets none."""
        peer = self.bare()
        peer.send(greeting(flag=b""))
        (frame,) = peer.frames()
        self.assertEqual(self.read_grant(frame).size_bytes, 36)
        self.assertEqual(peer.ask(requests.EXISTS, read("/")).error, 0)

    def test_no_delay(self) -> None:
        """Small replies are not held back by the system."""
        self.assertTrue(self.bare().wire.no_delay)

    def test_resumed(self) -> None:
        """After a connection is lost the session goes on over another one, with its
        ephemerals."""
        peer = self.connect()
        peer.create("/e", flags=EPHEMERAL)
        peer.drop()
        self.clock.advance(9)
        again = self.again(peer)
        self.assertEqual(again.granted, peer.granted)
        self.clock.advance(9)
        self.server.tick()
        self.assertEqual(again.ask(requests.EXISTS, read("/e")).error, 0)

    def test_moved(self) -> None:
        """The connection that a session leaves is closed, and its end does the session
        no harm."""
        peer = self.connect()
        again = self.again(peer)
        self.assertTrue(peer.is_closed)
        peer.send(peer.request(requests.CREATE, create("/late")))
        peer.drop()
        self.assertEqual(again.ask(requests.EXISTS, read("/late")).error, -101)
        self.server.tick()
        self.assertFalse(again.is_closed)
        session = next(iter(self.realm.sessions))
        self.assertIs(session.connection, again.connection)

    def test_another_timeout(self) -> None:
        """Who resumes may ask for another timeout."""
        peer = self.connect()
        again = self.bare()
        session = peer.granted.session_id, peer.granted.password
        again.send(greeting(session, timeout_ms=4000))
        (frame,) = again.frames()
        self.assertEqual(self.read_grant(frame).timeout_ms, 4000)

    def test_refused(self) -> None:
        """An unknown session and a wrong password are answered with zeros, and the
        connection closes; the session's own goes on."""
        peer = self.connect()
        own = peer.granted
        for session in (
            (12345, own.password),
            (-1, own.password),
            (own.session_id, NO_PASSWORD),
            (own.session_id, b""),
            (own.session_id, own.password[:-1]),
        ):
            other = self.bare()
            other.send(greeting(session))
            (frame,) = other.frames()
            self.assertEqual(frame, bytes(19) + b"\x10" + bytes(17))
            self.assertTrue(other.is_closed)
        self.assertEqual(peer.ask(requests.EXISTS, read("/")).error, 0)

    def test_expired(self) -> None:
        """An expired session loses its connection and its ephemerals, others see that,
        and it cannot be resumed."""
        silent, other = self.connect(), self.connect()
        silent.create("/e", flags=EPHEMERAL)
        other.watch(requests.EXISTS, "/e")
        self.clock.advance(6)
        other.send(other.request(requests.PING, xid=-2))
        other.taken()
        self.clock.advance(6)
        (expired,) = self.server.tick()
        self.assertEqual(expired.id, silent.granted.session_id)
        self.assertTrue(silent.wire.disconnected)
        self.assertEqual(other.outline(), [(EventKind.DELETED, "/e")])
        self.assertEqual(self.again(silent).granted.session_id, 0)

    def test_too_many_connections(self) -> None:
        """One connection too many is closed, and the others are not."""
        self.server.max_connections = 2
        first, second, third = self.connect(), self.bare(), self.bare()
        self.assertTrue(third.wire.disconnected)
        third.drop()
        second.drop()
        self.assertFalse(self.bare().is_closed)
        self.assertEqual(first.ask(requests.EXISTS, read("/")).error, 0)

    def test_too_many_plain_connections(self) -> None:
        """With nothing between socket and protocol one too many gets no protocol, which
        closes it at once; it is counted either way."""
        plain = TreeServer(self.realm, 1, plain=True)
        first = plain.buildProtocol(None)
        assert first is not None
        first.makeConnection(Wire())
        self.assertIsNone(plain.buildProtocol(None))
        self.server.max_connections = 0
        self.bare()
        self.assertEqual((plain.turned_away, self.server.turned_away), (1, 1))

    def test_silent(self) -> None:
        """Who never asks for a session is turned away after a while, with half a first
        frame too; who asks in the end, or has a session, is not."""
        peer = self.connect()
        silent, half, late = self.bare(), self.bare(), self.bare()
        half.send(greeting()[:-1])
        patience = round(connections.MOST_SILENCE_S / connections.TICK_S)
        for _ in range(patience):
            self.server.tick()
        late.send(greeting())
        for one in (silent, half, late):
            self.assertFalse(one.is_closed)
        for _ in range(patience):
            self.server.tick()
        for one, is_closed in (
            (silent, True),
            (half, True),
            (late, False),
            (peer, False),
        ):
            self.assertEqual(one.wire.disconnected, is_closed)

    def test_gone_leaves_nothing(self) -> None:
        """Of a closed connection no watch and no trace is left."""
        peer = self.connect()
        peer.watch(requests.EXISTS, "/a")
        peer.watch(requests.GET_CHILDREN, "/")
        peer.drop()
        self.assertEqual(self.realm.tree.watches.count, 0)
        self.assertEqual(self.server.connections, set())

    def test_all_aborted(self) -> None:
        """`abort_all` closes every connection at once."""
        peers = [self.connect(), self.bare()]
        self.server.abort_all()
        self.assertTrue(all(peer.wire.disconnected for peer in peers))


class CloseTests(ServerCase):
    """The end of a session by its client."""

    def test_ephemerals_go_first(self) -> None:
        """The ephemerals are gone, and all are told, before the reply to closeSession;
        then the connection closes."""
        peer, other = self.connect(), self.connect()
        peer.create("/e", flags=EPHEMERAL)
        for one in (peer, other):
            one.watch(requests.EXISTS, "/e")
        xid = 77
        peer.send(peer.request(requests.CLOSE, xid=xid))
        self.assertEqual(peer.outline(), [(EventKind.DELETED, "/e"), xid])
        self.assertEqual(other.outline(), [(EventKind.DELETED, "/e")])
        self.assertEqual(other.ask(requests.EXISTS, read("/e")).error, -101)
        self.assertTrue(peer.is_closed)
        self.assertEqual(self.again(peer).granted.session_id, 0)

    def test_nothing_behind_it(self) -> None:
        """What comes behind closeSession is not done."""
        peer, other = self.connect(), self.connect()
        peer.send(
            peer.request(requests.CLOSE), peer.request(requests.CREATE, create("/late"))
        )
        self.assertEqual(peer.outline(), [1])
        peer.send(peer.request(requests.CREATE, create("/later")))
        self.assertEqual(peer.outline(), [])
        for path in ("/late", "/later"):
            self.assertEqual(other.ask(requests.EXISTS, read(path)).error, -101)

    def test_no_events_behind_it(self) -> None:
        """A client that has closed its session hears no more events."""
        peer, other = self.connect(), self.connect()
        peer.watch(requests.EXISTS, "/a")
        peer.send(peer.request(requests.CLOSE))
        peer.taken()
        other.create("/a")
        self.assertEqual(peer.outline(), [])


class FrameTests(ServerCase):
    """Bytes that are cut, joined or wrong."""

    def test_every_split(self) -> None:
        """However the bytes are cut, the answers are the same."""
        peer = self.bare()
        body = [
            greeting(),
            peer.request(requests.CREATE, create("/a", b"1")),
            peer.request(requests.GET_DATA, read("/a", watch=True)),
            peer.request(requests.SET_DATA, set_data("/a", b"2")),
            peer.request(requests.DELETE, codec.string("/a") + codec.number(-1)),
            peer.request(requests.CLOSE),
        ]
        wire = b"".join(body)
        expected = [1, 2, (EventKind.CHANGED, "/a"), 3, 4, 5]
        for pieces in ([wire[:at], wire[at:]] for at in range(len(wire) + 1)):
            self._assert_answers(pieces, expected)
        self._assert_answers([bytes((byte,)) for byte in wire], expected)

    def _assert_answers(self, pieces: list[bytes], expected: list[object]) -> None:
        peer = self.bare()
        for piece in pieces:
            peer.connection.dataReceived(piece)
        data = peer.taken()
        self.read_grant(data[4:41])
        peer.wire.write(data[41:])
        self.assertEqual(peer.outline(), expected)

    def test_pipelined(self) -> None:
        """Many requests at once are answered in their order, each with its xid."""
        peer = self.connect()
        count = 300
        peer.send(
            *(
                peer.request(requests.CREATE, create(f"/{number}"), xid=xid)
                for number, xid in enumerate(range(count, 0, -1))
            )
        )
        self.assertEqual(peer.outline(), list(range(count, 0, -1)))

    def test_largest_frame(self) -> None:
        """A frame may have 0xFFFFF bytes and comes back whole; of one more the length
        alone costs the connection, but not the session."""
        peer = self.connect()
        room = MAX_FRAME_BYTES - 8 - len(create("/big"))
        self.assertEqual(peer.create("/big", bytes(room)).error, 0)
        reply = peer.ask(requests.GET_DATA, read("/big"))
        self.assertEqual(reply.record.buffer(), bytes(room))
        peer.send(struct.pack(">i", MAX_FRAME_BYTES + 1))
        self.assertTrue(peer.wire.disconnected)
        self.assertEqual(peer.frames(), [])
        self.assertEqual(self.again(peer).granted, peer.granted)

    def test_garbage_first(self) -> None:
        """What is no first frame is closed without an answer, and hurts nobody."""
        peer = self.connect()
        for garbage in (
            bytes(8),
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01",
            b"\xff\xff\xff\xff",
            b"\x80\0\0\0",
            b"nope",
            codec.buffer(b"short"),
            greeting()[:28] + codec.number(99) + bytes(17),
            peer.request(requests.EXISTS, read("/")),
        ):
            other = self.bare()
            other.send(garbage)
            self.assertTrue(other.is_closed, garbage)
            self.assertEqual(other.taken(), b"")
        self.assertEqual(peer.ask(requests.EXISTS, read("/")).error, 0)
        self.assertEqual(len(self.realm.sessions), 1)

    def test_frame_without_header(self) -> None:
        """A frame too short for a request closes the connection."""
        for frame in (b"", b"1234567"):
            peer = self.connect()
            peer.send(codec.buffer(frame))
            self.assertTrue(peer.wire.disconnected)

    def test_what_came_before_garbage(self) -> None:
        """Requests before the garbage are done."""
        peer = self.connect()
        peer.send(peer.request(requests.CREATE, create("/a")), b"\xff\xff\xff\xff")
        self.assertTrue(peer.wire.disconnected)
        other = self.connect()
        self.assertEqual(other.ask(requests.EXISTS, read("/a")).error, 0)

    def test_any_frame_keeps_a_session(self) -> None:
        """The time of a session begins anew with any whole frame, refused ones too."""
        peer = self.connect()
        for frame in (
            peer.request(requests.PING, xid=-2),
            peer.request(requests.EXISTS, read("/no")),
            peer.request(9999),
        ):
            self.clock.advance(9)
            peer.send(frame)
            self.assertEqual(self.server.tick(), [])
        self.clock.advance(9)
        peer.connection.dataReceived(b"\0\0\0\x08half")
        self.clock.advance(1)
        self.assertEqual(len(self.server.tick()), 1)


class WordTests(ServerCase):
    """Four letters instead of a frame."""

    def word(self, word: bytes) -> str:
        """What a new connection is answered; it is closed then."""
        peer = self.bare()
        peer.send(word)
        self.assertTrue(peer.is_closed)
        return peer.taken().decode("utf-8")

    def test_ruok(self) -> None:
        """`ruok` is answered with imok, however it is sent."""
        self.assertEqual(self.word(b"ruok"), "imok")
        self.assertEqual(self.word(b"ruok\n"), "imok")
        peer = self.bare()
        for byte in (b"r", b"u", b"o", b"k"):
            peer.connection.dataReceived(byte)
        self.assertEqual(peer.taken(), b"imok")
        self.assertEqual(self.word(b"isro"), "rw")

    def test_mntr(self) -> None:
        """`mntr` counts what is there."""
        peer, gone = self.connect(), self.connect()
        peer.create("/a")
        peer.create("/a/e", flags=EPHEMERAL)
        peer.watch(requests.EXISTS, "/a")
        peer.watch(requests.GET_CHILDREN, "/a")
        gone.drop()
        self.clock.advance(5)
        peer.send(peer.request(requests.PING, xid=-2))
        self.clock.advance(5)
        self.server.tick()
        rows = dict(line.split("\t") for line in self.word(b"mntr").splitlines())
        self.assertEqual(rows["zk_server_state"], "standalone")
        for name, value in (
            ("zk_num_alive_connections", 2),
            ("zk_znode_count", 6),
            ("zk_ephemerals_count", 1),
            ("zk_watch_count", 2),
            ("zk_global_sessions", 1),
            ("zk_sessions_expired", 1),
            ("zk_packets_received", 7),
            ("zk_packets_sent", 7),
            ("zk_outstanding_requests", 0),
        ):
            self.assertEqual(rows[name], str(value), name)

    def test_stat(self) -> None:
        """`stat` lists the clients, `srvr` does not; both name the mode and zxid."""
        peer = self.connect()
        peer.create("/a")
        session = f"sid={peer.granted.session_id:#x},to={TIMEOUT_MS}"
        zxid = f"Zxid: {self.realm.tree.zxid:#x}\n"
        stat, srvr = self.word(b"stat"), self.word(b"srvr")
        self.assertIn(session, stat)
        self.assertIn(session, self.word(b"cons"))
        self.assertNotIn("sid=", srvr)
        for text in (stat, srvr):
            self.assertIn(zxid, text)
            self.assertIn("Mode: standalone\n", text)
            self.assertIn("Zookeeper version: ", text)

    def test_version_for_clients(self) -> None:
        """`envi` has the version in the form that clients look for."""
        self.assertRegex(self.word(b"envi"), r"(?m)^zookeeper\.version=3\.\d+\.\d+-")

    def test_known_to_zookeeper(self) -> None:
        """A word of ZooKeeper's that has no answer here is refused as ZooKeeper refuses
        what is not on its list; others are taken for a length."""
        for word in (b"dump", b"conf", b"wchs", b"stmk"):
            said = f"{word.decode()} is not executed because it is not in the whitelist"
            self.assertEqual(self.word(word), f"{said}.\n")
        peer = self.bare()
        peer.send(b"nope")
        self.assertEqual((peer.taken(), peer.wire.disconnected), (b"", True))

    def test_not_in_a_session(self) -> None:
        """Behind a handshake the letters are a frame's length, of no frame."""
        peer = self.connect()
        peer.send(b"ruok")
        self.assertEqual(peer.taken(), b"")
        self.assertTrue(peer.wire.disconnected)
