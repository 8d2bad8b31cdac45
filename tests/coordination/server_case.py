"""The embedded server without a socket: a realm under a test's clock and disk, and
peers that speak its protocol."""

from __future__ import annotations

import struct
from collections.abc import Callable

from attrs import frozen
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from metatwist.coordination.embedded import codec, requests
from metatwist.coordination.embedded.acl import OPEN
from metatwist.coordination.embedded.codec import RecordReader
from metatwist.coordination.embedded.connection import ClientConnection, TreeServer
from metatwist.coordination.embedded.realm import Realm
from metatwist.coordination.embedded.store import StoredNode

NO_PASSWORD = bytes(16)
TIMEOUT_MS = 10_000
EVENT_XID = -1
EPHEMERAL, SEQUENCE = 1, 2


class HeldJournal:
    """Takes changes, and calls them durable when a test says so; at once if `quick`."""

    def __init__(self, quick: bool = True) -> None:
        self.quick = quick
        self.changes: list[tuple[str, StoredNode | None]] = []
        self._durable = 0
        self._calls: list[Callable[[int], object]] = []

    @property
    def recorded(self) -> int:
        return len(self.changes)

    @property
    def durable(self) -> int:
        return self.recorded if self.quick else self._durable

    def record(self, path: str, node: StoredNode | None) -> None:
        self.changes.append((path, node))

    def on_durable(self, call: Callable[[int], object]) -> None:
        self._calls.append(call)

    def hold(self) -> None:
        """From now on nothing is durable before `sync`."""
        self._durable, self.quick = self.recorded, False

    def sync(self, ticket: int | None = None) -> None:
        """Make changes durable, all unless told otherwise."""
        self._durable = self.recorded if ticket is None else ticket
        for call in self._calls:
            call(self._durable)


@implementer(ITCPTransport)
class Wire(StringTransport):
    """Keeps what is written; past `room_bytes` of it unread the producer is paused, as
    Twisted's own transports do."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__(peerAddress=IPv4Address("TCP", host, 5000), lenient=True)
        self.room_bytes: int | None = None
        self.no_delay = False

    def setTcpNoDelay(self, enabled: bool) -> None:
        self.no_delay = enabled

    def write(self, data: bytes) -> None:
        super().write(data)
        full = self.room_bytes is not None and len(self.value()) > self.room_bytes
        if full and self.producer is not None:
            self.producer.pauseProducing()

    @property
    def reading(self) -> bool:
        """Whether the server takes more bytes."""
        return self.producerState == "producing"


@frozen
class Reply:
    """A reply or an event, with what stands behind its header."""

    xid: int
    zxid: int
    error: int
    body: bytes

    @property
    def record(self) -> RecordReader:
        return RecordReader(self.body)


@frozen
class Granted:
    """What the server answered to the first frame."""

    timeout_ms: int
    session_id: int
    password: bytes
    size_bytes: int


class Peer:
    """One client."""

    def __init__(self, connection: ClientConnection, wire: Wire) -> None:
        self.connection = connection
        self.wire = wire
        self.granted = Granted(0, 0, b"", 0)
        self._xid = 0

    def send(self, *frames: bytes) -> None:
        """Let the frames arrive at once."""
        self.connection.dataReceived(b"".join(frames))

    def taken(self) -> bytes:
        """All bytes that have come since the last call."""
        data = self.wire.value()
        self.wire.clear()
        return data

    def frames(self) -> list[bytes]:
        """All frames that have come since the last call."""
        data, found = self.taken(), []
        while data:
            (length,) = struct.unpack_from(">i", data)
            found.append(data[4 : 4 + length])
            assert len(found[-1]) == length, "half a frame"
            data = data[4 + length :]
        return found

    def replies(self) -> list[Reply]:
        """All replies and events since the last call."""
        return [
            Reply(*struct.unpack_from(">iqi", one), one[16:]) for one in self.frames()
        ]

    def outline(self) -> list[object]:
        """Of all that has come: an xid, an (xid, error), or an event's (kind, path)."""
        return [_outline(one) for one in self.replies()]

    def request(self, opcode: int, body: bytes = b"", xid: int | None = None) -> bytes:
        """A request as a frame, with the next xid unless told otherwise."""
        if xid is None:
            self._xid += 1
            xid = self._xid
        return codec.buffer(struct.pack(">ii", xid, opcode) + body)

    def ask(self, opcode: int, body: bytes = b"") -> Reply:
        """The reply to one request; nothing else may come."""
        self.send(self.request(opcode, body))
        (reply,) = self.replies()
        assert reply.xid == self._xid
        return reply

    def create(self, path: str, data: bytes | None = b"", flags: int = 0) -> Reply:
        return self.ask(requests.CREATE, create(path, data, flags))

    def watch(self, opcode: int, path: str) -> Reply:
        """Read, with a watch."""
        return self.ask(opcode, read(path, watch=True))

    def drop(self) -> None:
        """Close the connection at the client's side."""
        self.connection.connectionLost(Failure(ConnectionError()))

    @property
    def is_closed(self) -> bool:
        return self.wire.disconnecting


def _outline(reply: Reply) -> object:
    if reply.xid == EVENT_XID:
        kind, state = reply.record.number(), RecordReader(reply.body, 4).number()
        assert (state, reply.zxid, reply.error) == (3, -1, 0)
        return kind, RecordReader(reply.body, 8).path()
    return (reply.xid, reply.error) if reply.error else reply.xid


def create(path: str, data: bytes | None = b"", flags: int = 0) -> bytes:
    """A create record, open to all."""
    return (
        codec.string(path) + codec.buffer(data) + codec.acl(OPEN) + codec.number(flags)
    )


def read(path: str, watch: bool = False) -> bytes:
    """The record of exists, getData and getChildren."""
    return codec.string(path) + bytes((watch,))


def versioned(path: str, version: int = -1) -> bytes:
    """The record of delete and check."""
    return codec.string(path) + codec.number(version)


def set_data(path: str, data: bytes | None, version: int = -1) -> bytes:
    """The record of setData."""
    return codec.string(path) + codec.buffer(data) + codec.number(version)


def multi(*operations: tuple[int, bytes]) -> bytes:
    """The record of a multi."""
    parts = [codec.result_header(kind, False, -1) + body for kind, body in operations]
    return b"".join(parts) + codec.result_header(-1, True, -1)


def greeting(
    session: tuple[int, bytes] = (0, NO_PASSWORD),
    timeout_ms: int = TIMEOUT_MS,
    flag: bytes = b"\0",
) -> bytes:
    """The first frame of a client."""
    session_id, password = session
    head = struct.pack(">iqiq", 0, 0, timeout_ms, session_id)
    return codec.buffer(head + codec.buffer(password) + flag)


class ServerCase(SynchronousTestCase):
    """A server; changes are durable at once unless `journal.hold()` is called."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1000)
        self.journal = HeldJournal()
        self.realm = Realm.over(
            self.journal, self.clock.seconds, lambda: int(self.clock.seconds() * 1000)
        )
        self.server = TreeServer(self.realm)

    def bare(self, host: str = "127.0.0.1") -> Peer:
        """A connection on which nothing was sent."""
        connection, wire = self.server.buildProtocol(None), Wire(host)
        connection.makeConnection(wire)
        return Peer(connection, wire)

    def connect(
        self, session: tuple[int, bytes] = (0, NO_PASSWORD), host: str = "127.0.0.1"
    ) -> Peer:
        """A client whose first frame was answered."""
        peer = self.bare(host)
        peer.send(greeting(session))
        (frame,) = peer.frames()
        peer.granted = self.read_grant(frame)
        return peer

    @staticmethod
    def read_grant(frame: bytes) -> Granted:
        reader = RecordReader(frame)
        assert reader.number() == 0
        timeout_ms, session_id = reader.number(), reader.long_number()
        return Granted(timeout_ms, session_id, reader.buffer() or b"", len(frame))

    def again(self, peer: Peer) -> Peer:
        """Another connection that asks for the session of that one."""
        return self.connect((peer.granted.session_id, peer.granted.password))
