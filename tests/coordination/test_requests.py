"""Each operation of the embedded server: its reply, its refusals, its watches."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metatwist.coordination.embedded import codec, requests
from metatwist.coordination.embedded.acl import OPEN, digest_identity
from metatwist.coordination.embedded.codec import RecordReader
from metatwist.coordination.interface import EventKind
from tests.coordination.server_case import (
    EPHEMERAL,
    SEQUENCE,
    Peer,
    ServerCase,
    create,
    multi,
    read,
    set_data,
    versioned,
)

EVERYONE = [(31, "world", "anyone")]
STAT_BYTES = 68
NO_NODE, MALFORMED, UNIMPLEMENTED, BAD_ARGUMENTS = -101, -5, -6, -8


class RequestCase(ServerCase):
    """A client with a session."""

    def setUp(self) -> None:
        super().setUp()
        self.peer = self.connect()

    def stat_bytes(self, path: str) -> bytes:
        """The stat of a node as it is now."""
        return codec.stat(self.realm.tree.nodes[path])


class OperationTests(RequestCase):
    """One request, one reply."""

    def test_create(self) -> None:
        """create answers the path, create2 the stat as well; sequence numbers are part
        of the path, and ephemerals belong to the session."""
        self.assertEqual(self.peer.create("/a", b"1").body, codec.string("/a"))
        reply = self.peer.ask(requests.CREATE_2, create("/b", None, EPHEMERAL))
        self.assertEqual(reply.body, codec.string("/b") + self.stat_bytes("/b"))
        owner = self.realm.tree.nodes["/b"].owner
        assert owner is not None
        self.assertEqual(owner.id, self.peer.granted.session_id)
        reply = self.peer.create("/a/s-", b"", EPHEMERAL | SEQUENCE)
        self.assertEqual(reply.record.path(), "/a/s-0000000000")

    def test_flags(self) -> None:
        """Containers and times to live are not implemented, other flags make no
        sense."""
        for flags, expected in ((4, -6), (5, -6), (6, -6), (7, -8), (8, -8), (-1, -8)):
            self.assertEqual(self.peer.create("/f", b"", flags).error, expected)
        self.assertEqual(self.peer.ask(requests.EXISTS, read("/f")).error, NO_NODE)

    def test_reading(self) -> None:
        """Data come before the stat; null data stay null, and differ from none."""
        for path, data in (("/null", None), ("/none", b""), ("/some", b"\0x")):
            self.peer.create(path, data)
            reply = self.peer.ask(requests.GET_DATA, read(path))
            self.assertEqual(reply.body, codec.buffer(data) + self.stat_bytes(path))
            reply = self.peer.ask(requests.EXISTS, read(path))
            self.assertEqual(reply.body, self.stat_bytes(path))

    def test_set(self) -> None:
        """setData answers the new stat, and refuses another version."""
        self.peer.create("/a", b"1")
        reply = self.peer.ask(requests.SET_DATA, set_data("/a", None, 0))
        self.assertEqual(reply.body, self.stat_bytes("/a"))
        self.assertEqual(len(reply.body), STAT_BYTES)
        self.assertIsNone(self.realm.tree.nodes["/a"].data)
        again = self.peer.ask(requests.SET_DATA, set_data("/a", b"2", 0))
        self.assertEqual((again.error, again.body), (-103, b""))

    def test_delete(self) -> None:
        """delete answers nothing, and refuses a node with children."""
        self.peer.create("/a")
        self.peer.create("/a/b")
        self.assertEqual(self.peer.ask(requests.DELETE, versioned("/a")).error, -111)
        for path in ("/a/b", "/a"):
            reply = self.peer.ask(requests.DELETE, versioned(path, 0))
            self.assertEqual((reply.error, reply.body), (0, b""))

    def test_children(self) -> None:
        """getChildren answers the names, getChildren2 the stat as well."""
        self.peer.create("/a")
        for name in ("x", "y"):
            self.peer.create(f"/a/{name}")
        names = codec.strings(["x", "y"])
        reply = self.peer.ask(requests.GET_CHILDREN, read("/a"))
        self.assertEqual(reply.body, names)
        reply = self.peer.ask(requests.GET_CHILDREN_2, read("/a"))
        self.assertEqual(reply.body, names + self.stat_bytes("/a"))

    def test_sync(self) -> None:
        """sync echoes the path, whether it is there or not."""
        reply = self.peer.ask(requests.SYNC, codec.string("/none"))
        self.assertEqual(reply.body, codec.string("/none"))

    def test_ping(self) -> None:
        """A ping is answered with its own xid and nothing else."""
        self.peer.send(self.peer.request(requests.PING, xid=-2))
        (reply,) = self.peer.replies()
        self.assertEqual((reply.xid, reply.error, reply.body), (-2, 0, b""))

    def test_zxids(self) -> None:
        """Replies have the last zxid; it rises with writes only."""
        zxids = [
            self.peer.create("/a").zxid,
            self.peer.ask(requests.EXISTS, read("/a")).zxid,
            self.peer.create("/a").zxid,
            self.peer.ask(requests.SET_DATA, set_data("/a", b"")).zxid,
        ]
        first = zxids[0]
        self.assertEqual(zxids, [first, first, first, first + 1])

    def test_missing(self) -> None:
        """What is not there is refused by every operation that needs it."""
        for opcode, body in (
            (requests.EXISTS, read("/no")),
            (requests.GET_DATA, read("/no", watch=True)),
            (requests.GET_CHILDREN, read("/no", watch=True)),
            (requests.GET_CHILDREN_2, read("/no")),
            (requests.SET_DATA, set_data("/no", b"")),
            (requests.DELETE, versioned("/no")),
            (requests.CREATE, create("/no/child")),
            (requests.GET_ACL, codec.string("/no")),
            (
                requests.SET_ACL,
                codec.string("/no") + codec.acl(OPEN) + codec.number(-1),
            ),
        ):
            reply = self.peer.ask(opcode, body)
            self.assertEqual((reply.error, reply.body), (NO_NODE, b""), opcode)
        self.assertEqual(self.realm.tree.watches.count, 0)

    def test_unknown(self) -> None:
        """An operation that is not known is refused, and the connection goes on."""
        for opcode in (0, 13, 18, 102, 105, 106, 9999, -1, -10):
            self.assertEqual(self.peer.ask(opcode).error, UNIMPLEMENTED)
        self.assertFalse(self.peer.is_closed)


class MalformedTests(RequestCase):
    """Requests that cannot be read."""

    def test_cut(self) -> None:
        """A record cut at any byte is refused as a whole, and the next is answered."""
        self.peer.create("/a")
        watches = codec.strings(["/a"]) * 3
        for opcode, body in (
            (requests.CREATE, create("/new")),
            (requests.EXISTS, read("/none", watch=True)),
            (requests.GET_DATA, read("/a", watch=True)),
            (requests.GET_CHILDREN, read("/a", watch=True)),
            (requests.SET_DATA, set_data("/a", b"x")),
            (requests.DELETE, versioned("/a")),
            (requests.SET_WATCHES, bytes(8) + watches),
            (requests.SYNC, codec.string("/a")),
            (requests.AUTH, bytes(4) + codec.string("digest") + codec.buffer(b"a:b")),
            (requests.MULTI, multi((1, create("/new")), (2, versioned("/a")))),
        ):
            for length in range(len(body)):
                reply = self.peer.ask(opcode, body[:length])
                self.assertEqual(reply.error, MALFORMED, (opcode, length))
        self.assertEqual(self.peer.ask(requests.EXISTS, read("/a")).error, 0)
        self.assertEqual(self.peer.ask(requests.EXISTS, read("/new")).error, NO_NODE)
        self.assertEqual(self.realm.tree.watches.count, 0)

    def test_longer(self) -> None:
        """Bytes behind a record are passed over."""
        self.assertEqual(self.peer.ask(requests.EXISTS, read("/") + b"more").error, 0)

    @given(st.sampled_from(sorted(requests.OPERATIONS)), st.binary(max_size=80))
    def test_garbage(self, opcode: int, body: bytes) -> None:
        """Any record gets exactly one reply, behind its events."""
        peer = self.connect()
        peer.send(peer.request(opcode, body))
        self.assertEqual([one.xid for one in peer.replies() if one.xid != -1], [1])


class AccessTests(RequestCase):
    """Credentials and ACLs."""

    def authenticate(
        self, peer: Peer, credentials: bytes, scheme: str = "digest"
    ) -> None:
        """Send credentials, as clients do."""
        record = bytes(4) + codec.string(scheme) + codec.buffer(credentials)
        peer.send(peer.request(requests.AUTH, record, xid=-4))

    def set_acl(self, path: str, entries: Any, aversion: int = -1) -> bytes:
        """The record of setACL."""
        return codec.string(path) + codec.acl(entries) + codec.number(aversion)

    def test_acl(self) -> None:
        """getACL answers the ACL and the stat; setACL the stat, by aversion."""
        self.peer.create("/a")
        reply = self.peer.ask(requests.GET_ACL, codec.string("/a"))
        self.assertEqual(reply.body, codec.acl(EVERYONE) + self.stat_bytes("/a"))
        record = self.set_acl("/a", [(17, "world", "anyone")], 0)
        reply = self.peer.ask(requests.SET_ACL, record)
        self.assertEqual(reply.body, self.stat_bytes("/a"))
        self.assertEqual(self.peer.ask(requests.SET_ACL, record).error, -103)
        self.assertEqual(
            self.peer.ask(requests.SET_DATA, set_data("/a", b"")).error, -102
        )

    def test_who_reads_an_acl(self) -> None:
        """Whoever may read or administer a node may read its ACL."""
        for permissions, error in ((1, 0), (16, 0), (2 | 4 | 8, -102)):
            path = f"/{permissions}"
            self.peer.create(path)
            record = self.set_acl(path, [(permissions, "world", "anyone")])
            self.peer.ask(requests.SET_ACL, record)
            reply = self.peer.ask(requests.GET_ACL, codec.string(path))
            self.assertEqual(reply.error, error)

    def test_digest(self) -> None:
        """Who has given the credentials may; others may not, until they do too."""
        self.authenticate(self.peer, b"ann:secret")
        self.assertEqual(self.peer.outline(), [-4])
        record = (
            codec.string("/mine") + codec.buffer(b"") + codec.acl([(31, "auth", "")])
        )
        self.peer.ask(requests.CREATE, record + codec.number(0))
        identity = digest_identity(b"ann:secret")
        assert identity is not None
        self.assertEqual(self.realm.tree.nodes["/mine"].acl, ((31, *identity),))
        other = self.connect()
        for credentials in (None, b"ann:wrong"):
            if credentials is not None:
                self.authenticate(other, credentials)
                other.taken()
            for opcode in (requests.GET_DATA, requests.GET_CHILDREN):
                self.assertEqual(other.ask(opcode, read("/mine")).error, -102)
        self.authenticate(other, b"ann:secret")
        other.taken()
        self.assertEqual(other.ask(requests.GET_DATA, read("/mine")).error, 0)

    def test_address(self) -> None:
        """An ACL by address lets in whoever comes from there."""
        self.peer.create("/here")
        self.peer.ask(
            requests.SET_ACL, self.set_acl("/here", [(31, "ip", "10.0.0.0/8")])
        )
        near, far = self.connect(host="10.1.2.3"), self.connect(host="11.1.2.3")
        self.assertEqual(near.ask(requests.GET_DATA, read("/here")).error, 0)
        self.assertEqual(far.ask(requests.GET_DATA, read("/here")).error, -102)

    def test_refused_credentials(self) -> None:
        """Credentials of an unknown scheme are refused and close the connection, behind
        what was asked before; the session lives."""
        for scheme, credentials in (
            ("nope", b"x"),
            ("digest", b""),
            ("world", b"anyone"),
        ):
            peer = self.connect()
            record = bytes(4) + codec.string(scheme) + codec.buffer(credentials)
            peer.send(
                peer.request(requests.EXISTS, read("/")),
                peer.request(requests.AUTH, record, xid=-4),
                peer.request(requests.CREATE, create("/late")),
            )
            self.assertEqual(peer.outline(), [1, (-4, -115)])
            self.assertTrue(peer.is_closed)
            self.assertFalse(peer.wire.disconnected)
            self.assertEqual(self.again(peer).granted, peer.granted)
        self.assertEqual(self.peer.ask(requests.EXISTS, read("/late")).error, NO_NODE)


class WatchTests(RequestCase):
    """Events, and the watches that a client brings along."""

    def test_events_before_the_reply(self) -> None:
        """Who watches what he changes himself gets the events before the reply."""
        self.peer.watch(requests.EXISTS, "/a")
        self.peer.watch(requests.GET_CHILDREN, "/")
        self.peer.send(self.peer.request(requests.CREATE, create("/a"), xid=50))
        self.assertEqual(
            self.peer.outline(),
            [(EventKind.CREATED, "/a"), (EventKind.CHILDREN, "/"), 50],
        )

    def test_events_in_order_with_replies(self) -> None:
        """Events and replies of many requests at once come in the order in which the
        tree changed."""
        self.peer.send(
            self.peer.request(requests.EXISTS, read("/a", watch=True)),
            self.peer.request(requests.CREATE, create("/a")),
            self.peer.request(requests.GET_DATA, read("/a", watch=True)),
            self.peer.request(requests.SET_DATA, set_data("/a", b"1")),
            self.peer.request(requests.GET_CHILDREN, read("/a", watch=True)),
            self.peer.request(requests.DELETE, versioned("/a")),
        )
        created, changed, deleted = (
            (EventKind.CREATED, "/a"),
            (EventKind.CHANGED, "/a"),
            (EventKind.DELETED, "/a"),
        )
        self.assertEqual(
            self.peer.outline(),
            [(1, NO_NODE), created, 2, 3, changed, 4, 5, deleted, 6],
        )

    def set_watches(self, peer: Peer, zxid: int, *paths: list[str]) -> list[object]:
        """Bring data, exist and child watches, as after `zxid`; what comes back."""
        lists = b"".join(codec.strings(one) for one in paths)
        record = zxid.to_bytes(8, "big") + lists
        peer.send(peer.request(requests.SET_WATCHES, record, xid=-8))
        return peer.outline()

    def test_set_watches_missed(self) -> None:
        """What has changed since is told at once, before the reply, and is not
        watched."""
        for path in ("/set", "/gone", "/kids", "/list", "/list-gone"):
            self.peer.create(path)
        seen = self.realm.tree.zxid
        self.peer.ask(requests.SET_DATA, set_data("/set", b"1"))
        self.peer.ask(requests.DELETE, versioned("/gone"))
        self.peer.ask(requests.DELETE, versioned("/list-gone"))
        self.peer.create("/new")
        self.peer.create("/list/kid")
        events = self.set_watches(
            self.again(self.peer), seen, ["/set", "/gone"], ["/new"],
            ["/list", "/list-gone"],
        )  # fmt: skip
        self.assertEqual(
            events,
            [
                (EventKind.CHANGED, "/set"),
                (EventKind.DELETED, "/gone"),
                (EventKind.CREATED, "/new"),
                (EventKind.CHILDREN, "/list"),
                (EventKind.DELETED, "/list-gone"),
                -8,
            ],
        )
        self.assertEqual(self.realm.tree.watches.count, 0)

    def test_set_watches_up_to_date(self) -> None:
        """Who has seen the very last change of a node has missed nothing."""
        self.peer.create("/a")
        seen = self.realm.tree.zxid
        self.assertEqual(self.set_watches(self.peer, seen, ["/a"], [], ["/a"]), [-8])
        self.assertEqual(self.realm.tree.watches.count, 2)

    def test_set_watches_quiet(self) -> None:
        """What has not changed since is watched; a child says nothing of the data, nor
        data of the children."""
        for path in ("/d", "/c"):
            self.peer.create(path)
        seen = self.realm.tree.zxid
        self.peer.create("/d/kid")
        self.peer.ask(requests.SET_DATA, set_data("/c", b"1"))
        again, other = self.again(self.peer), self.connect()
        self.assertEqual(self.set_watches(again, seen, ["/d"], ["/e"], ["/c"]), [-8])
        other.ask(requests.SET_DATA, set_data("/d", b"1"))
        other.create("/e")
        other.create("/c/kid")
        self.assertEqual(
            again.outline(),
            [
                (EventKind.CHANGED, "/d"),
                (EventKind.CREATED, "/e"),
                (EventKind.CHILDREN, "/c"),
            ],
        )


class MultiTests(RequestCase):
    """All or nothing."""

    def test_done(self) -> None:
        """Each operation has a result of its kind; all share one zxid."""
        self.peer.create("/a", b"1")
        zxid = self.realm.tree.zxid
        reply = self.peer.ask(
            requests.MULTI,
            multi(
                (requests.CREATE, create("/a/s-", b"", SEQUENCE)),
                (requests.CREATE_2, create("/b")),
                (requests.CHECK, versioned("/a", 0)),
                (requests.SET_DATA, set_data("/a", b"2")),
                (requests.DELETE, versioned("/b")),
            ),
        )
        self.assertEqual((reply.error, reply.zxid), (0, zxid + 1))
        header = codec.result_header
        self.assertEqual(
            reply.body,
            header(requests.CREATE, False, 0)
            + codec.string("/a/s-0000000000")
            + header(requests.CREATE, False, 0)
            + codec.string("/b")
            + header(requests.CHECK, False, 0)
            + header(requests.SET_DATA, False, 0)
            + self.stat_bytes("/a")
            + header(requests.DELETE, False, 0)
            + header(-1, True, -1),
        )

    def test_refused(self) -> None:
        """The reply itself has no error: 0 stands for what came before, -2 for what
        came behind. Nothing was done, and nobody is told."""
        self.peer.watch(requests.EXISTS, "/b")
        zxid = self.realm.tree.zxid
        reply = self.peer.ask(
            requests.MULTI,
            multi(
                (requests.CREATE, create("/b")),
                (requests.CHECK, versioned("/b", 7)),
                (requests.DELETE, versioned("/none")),
            ),
        )
        self.assertEqual((reply.error, reply.zxid), (0, zxid))
        reader, found = reply.record, []
        while not reader.exhausted:
            found.append((reader.number(), reader.flag(), reader.number()))
            if not found[-1][1]:
                self.assertEqual(reader.number(), found[-1][2])
        self.assertEqual(
            found,
            [(-1, False, 0), (-1, False, -103), (-1, False, -2), (-1, True, -1)],
        )
        self.assertEqual(self.peer.ask(requests.EXISTS, read("/b")).error, NO_NODE)

    def test_most_operations(self) -> None:
        """A multi holds up everybody, so it has a bound; past it nothing is done."""
        self.patch(requests, "MOST_OPERATIONS", 3)
        three = [(1, create(f"/n{number}")) for number in range(3)]
        reply = self.peer.ask(requests.MULTI, multi(*three, (1, create("/n3"))))
        self.assertEqual((reply.error, reply.body), (BAD_ARGUMENTS, b""))
        self.assertEqual(self.peer.ask(requests.EXISTS, read("/n0")).error, NO_NODE)
        self.assertEqual(self.peer.ask(requests.MULTI, multi(*three)).error, 0)

    def test_empty(self) -> None:
        """A multi of nothing succeeds."""
        reply = self.peer.ask(requests.MULTI, multi())
        self.assertEqual(reply.body, codec.result_header(-1, True, -1))

    def test_flags(self) -> None:
        """Flags of a create are checked in a multi as well."""
        reply = self.peer.ask(requests.MULTI, multi((1, create("/a", b"", 9))))
        self.assertEqual(RecordReader(reply.body, 5).number(), BAD_ARGUMENTS)

    def test_unknown(self) -> None:
        """A multi with an operation that cannot be in one is malformed."""
        for opcode in (requests.EXISTS, 19, 77, -11):
            body = multi((1, create("/a")), (opcode, read("/")))
            self.assertEqual(self.peer.ask(requests.MULTI, body).error, MALFORMED)
        self.assertEqual(self.peer.ask(requests.EXISTS, read("/a")).error, NO_NODE)
