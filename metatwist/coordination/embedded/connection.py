"""One client of the embedded coordinator, and the factory that knows them all.

Replies leave in request order, and none before what it may show is on disk: each waits
for the last change that had been made when it was written. So do events, which thereby
come before any reply that shows their change (spec layout 7.3, 1 and 2).
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, cast

from twisted.internet.interfaces import IAddress, IPushProducer, ITCPTransport
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.coordination.embedded import codec, requests
from metatwist.coordination.embedded.codec import ConnectRequest, RecordReader
from metatwist.coordination.embedded.four_letters import WORDS, report
from metatwist.coordination.embedded.realm import Realm
from metatwist.coordination.embedded.sessions import Session
from metatwist.coordination.errors import AuthenticationFailed, Marshalling
from metatwist.coordination.interface import EventKind

MAX_CONNECTIONS = 10_000
"""Of a server that is not told otherwise."""

MOST_SILENCE_S = 10
"""How long a new connection may wait before it asks for a session."""

TICK_S = 0.5
MAX_WAITING_BYTES = 4 * 1024 * 1024
"""Replies that wait for the disk, of one connection, past which it is not read."""

_BATCH_BYTES = 64 * 1024
"""Replies to what one read brought are handed on when they are as much as that."""

_HEADER = struct.Struct(">ii")
_HEADER_BYTES = 8
_AUTH_FAILED = codec.number(AuthenticationFailed.code)
_log = Logger()


@implementer(IPushProducer)
class ClientConnection(Protocol):
    """Speaks ZooKeeper's protocol with one client."""

    def __init__(self, server: TreeServer) -> None:
        self.server = server
        self.tree = server.realm.tree
        self.session: Session | None = None
        self.received = self.sent = 0
        self.ticks_in_silence = 0
        self._journal = server.realm.journal
        self._buffer = b""
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._in_batch = False
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._waiting_bytes = 0
        self._slow = self._held = self._closing = False

    @property
    def _wire(self) -> Any:
        return cast(Any, self.transport)

    @property
    def peer(self) -> str:
        """Where it comes from, as host:port."""
        address = self._wire.getPeer()
        return f"{getattr(address, 'host', '')}:{getattr(address, 'port', 0)}"

    def connectionMade(self) -> None:
        """Turn away what is too many."""
        server = self.server
        server.connections.add(self)
        if len(server.connections) > server.max_connections:
            server.turned_away += 1
            self.abort()
            return
        if ITCPTransport.providedBy(self.transport):
            self._wire.setTcpNoDelay(True)
        self._wire.registerProducer(self, True)

    def connectionLost(self, reason: Failure | None = None) -> None:
        """The session lives on until its time is over."""
        self._closing = True
        self.server.connections.discard(self)
        self.server.waiting.discard(self)
        self.tree.watches.forget(self)
        if self.session is not None and self.session.connection is self:
            self.session.connection = None

    @property
    def held(self) -> bool:
        """Whether it is not read because its replies wait for the disk."""
        return self._held

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._wire.abortConnection()

    def finish(self) -> None:
        """Take no more requests, and close once what was answered has left."""
        self._closing = True
        if not self._waiting:
            self._lose()

    # -- in -----------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        """Answer all whole frames, as far as the replies find their way."""
        data = self._buffer + data if self._buffer else data
        self._in_batch = True
        try:
            taken = self._take_frames(data)
        except Marshalling as error:
            _log.info("{peer}: {error}", peer=self.peer, error=error)
            self.abort()
            return
        finally:
            self._in_batch = False
        self._buffer = data[taken:]
        self._send_batch()

    def _take_frames(self, data: bytes) -> int:
        at, end = 0, len(data)
        while end - at >= 4 and not (self._closing or self._slow or self._held):
            if self.session is None and data[at : at + 4] in WORDS:
                self._answer_word(data[at : at + 4])
                return end
            length = int.from_bytes(data[at : at + 4], "big", signed=True)
            if not 0 <= length <= codec.MAX_FRAME_BYTES:
                raise Marshalling(f"a frame of {length} bytes")
            if end - at - 4 < length:
                break
            at += 4 + length
            self._take(data[at - length : at])
        return end if self._closing else at

    def _take(self, frame: bytes) -> None:
        self.received += 1
        self.server.received += 1
        session = self.session
        if session is None:
            self._connect(frame)
            return
        if len(frame) < _HEADER_BYTES:
            raise Marshalling("a request without header")
        xid, opcode = _HEADER.unpack_from(frame)
        self.server.realm.sessions.touch(session)
        if opcode == requests.PING:
            self._pass_by(codec.reply(requests.PING_XID, self.tree.zxid, 0))
        elif opcode == requests.CLOSE:
            self.server.realm.sessions.end(session)
            self._say_goodbye(codec.reply(xid, self.tree.zxid, 0))
        else:
            reply = requests.answer(
                cast(requests.Origin, self), xid, opcode, RecordReader(frame, 8)
            )
            if opcode == requests.AUTH and reply.endswith(_AUTH_FAILED):
                self._say_goodbye(reply)
            else:
                self._send(reply)

    def _connect(self, frame: bytes) -> None:
        request = ConnectRequest.read(frame)
        sessions = self.server.realm.sessions
        if request.session_id == 0:
            session = sessions.begin(request.timeout_ms)
        else:
            found = sessions.resume(
                request.session_id, request.password, request.timeout_ms
            )
            if found is None:
                self._say_goodbye(request.refusal())
                return
            session = found
            if session.connection is not None:
                session.connection.abort()
        session.connection = self
        self.session = session
        host = getattr(self._wire.getPeer(), "host", None)
        if host:
            session.identities |= {("ip", host)}
        self._send(request.answer(session.timeout_ms, session.id, session.password))

    def _answer_word(self, word: bytes) -> None:
        self._wire.write(report(word, self.server).encode("utf-8"))
        self._closing = True
        self._lose()

    # -- out ----------------------------------------------------------------------

    def notify(self, kind: EventKind, path: str) -> None:
        """A watch has fired."""
        if not self._closing:
            self._send(codec.event(kind, path))

    def _send(self, frame: bytes) -> None:
        self.sent += 1
        self.server.sent += 1
        self._batch.append(frame)
        self._batch_bytes += len(frame)
        if not self._in_batch or self._batch_bytes >= _BATCH_BYTES:
            self._send_batch()

    def _send_batch(self) -> None:
        if not self._batch:
            return
        data, self._batch, self._batch_bytes = b"".join(self._batch), [], 0
        ticket = self._journal.recorded
        if not self._waiting and self._journal.durable >= ticket:
            self._wire.write(data)
            return
        self._waiting.append((ticket, data))
        self._waiting_bytes += len(data)
        self.server.waiting.add(self)
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._held = True
            self._wire.pauseProducing()

    def _pass_by(self, frame: bytes) -> None:
        """Answer a ping at once: a slow disk must not look like a dead server."""
        self.sent += 1
        self.server.sent += 1
        self._wire.write(frame)

    def release(self, durable: int) -> None:
        """Send what waited for the disk up to that ticket."""
        ready = []
        while self._waiting and self._waiting[0][0] <= durable:
            ready.append(self._waiting.popleft()[1])
        data = b"".join(ready)
        self._waiting_bytes -= len(data)
        if not self._waiting:
            self.server.waiting.discard(self)
        self._wire.write(data)
        if self._held and self._waiting_bytes <= MAX_WAITING_BYTES:
            self._held = False
            self._resume()
        if self._closing and not self._waiting:
            self._lose()

    def _say_goodbye(self, frame: bytes) -> None:
        """Close once that and all before it has left."""
        self._send(frame)
        self._closing = True
        self._in_batch = False
        self._send_batch()
        if not self._waiting:
            self._lose()

    def _lose(self) -> None:
        """Close once all has left; a paused producer would keep it open for ever."""
        self._wire.unregisterProducer()
        self._wire.loseConnection()

    # -- the client reads slowly --------------------------------------------------

    def pauseProducing(self) -> None:
        """It leaves its replies unread: take no more requests."""
        self._slow = True
        self._wire.pauseProducing()

    def resumeProducing(self) -> None:
        """It reads again."""
        self._slow = False
        self._resume()

    def stopProducing(self) -> None:
        """The transport is going down; `connectionLost` follows."""

    def _resume(self) -> None:
        if not (self._slow or self._held or self._closing):
            self._wire.resumeProducing()
            self.dataReceived(b"")


class TreeServer(Factory):
    """Connections to a realm; `waiting` are those whose replies wait for the disk.

    Past `max_connections` new ones are closed; `turned_away` counts them until somebody
    sets it back. With `plain`, which is for endpoints without a layer such as TLS, they
    are closed as they come.
    """

    noisy = False

    def __init__(
        self, realm: Realm, max_connections: int = MAX_CONNECTIONS, plain: bool = False
    ) -> None:
        self.realm = realm
        self.max_connections = max_connections
        self.turned_away = 0
        self.received = self.sent = 0
        self._plain = plain
        self.connections: set[ClientConnection] = set()
        self.waiting: set[ClientConnection] = set()
        realm.journal.on_durable(self._release)

    def buildProtocol(self, addr: IAddress | None) -> ClientConnection | None:
        """One client; None closes the connection at once."""
        if self._plain and len(self.connections) >= self.max_connections:
            # In a rush the other way would hold a file of each until the next turn.
            self.turned_away += 1
            return None
        connection = ClientConnection(self)
        connection.factory = self
        return connection

    def _release(self, durable: int) -> None:
        for connection in list(self.waiting):
            connection.release(durable)

    def tick(self) -> list[Session]:
        """End the sessions whose time is over, and close their connections; turn away
        who never asks for a session. To be called each `TICK_S`."""
        sessions = self.realm.sessions
        for connection in list(self.connections):
            if connection.session is None:
                connection.ticks_in_silence += 1
                if connection.ticks_in_silence * TICK_S > MOST_SILENCE_S:
                    connection.abort()
            elif connection.held:
                # We do not listen, so its silence says nothing.
                sessions.touch(connection.session)
        over = sessions.expire()
        for session in over:
            if session.connection is not None:
                session.connection.abort()
        return over

    def finish_all(self) -> None:
        """Let every connection end."""
        for connection in list(self.connections):
            connection.finish()

    def abort_all(self) -> None:
        """Close every connection."""
        for connection in list(self.connections):
            connection.abort()
