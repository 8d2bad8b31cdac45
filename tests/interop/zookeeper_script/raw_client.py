"""A ZooKeeper client of a few lines: one socket, frames sent and received."""

from __future__ import annotations

import contextlib
import socket
import struct
from types import TracebackType

from attrs import frozen
from typing_extensions import Self

from . import records
from .records import RecordReader, Reply

WAIT_S = 20.0
NO_PASSWORD = bytes(16)
TIMEOUT_MS = 10_000


@frozen
class Session:
    """What a server granted; `timeout_ms` is 0 where it refused."""

    id: int
    password: bytes
    timeout_ms: int
    reply_bytes: int


class Closed(Exception):
    """The server closed the connection."""


@frozen
class ConnectRequest:
    """The first frame; `read_only` None leaves the flag out, as old clients do."""

    timeout_ms: int = TIMEOUT_MS
    session_id: int = 0
    password: bytes | None = NO_PASSWORD
    last_zxid: int = 0
    read_only: bool | None = False
    protocol: int = 0

    def packed(self) -> bytes:
        """Its bytes, without the length before them."""
        head = struct.pack(
            ">iqiq", self.protocol, self.last_zxid, self.timeout_ms, self.session_id
        )
        flag = b"" if self.read_only is None else struct.pack(">?", self.read_only)
        return head + records.buffer(self.password) + flag


class RawClient:
    """One connection. All that arrives while waiting for a reply stays in `arrived`,
    in order, as it shows in transcripts."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._next_xid = 1
        self._received = b""
        self.arrived: list[str] = []
        self.last_zxid = 0
        self.session = Session(0, NO_PASSWORD, 0, 0)

    def connect(self, request: ConnectRequest | None = None) -> Session:
        """Open or resume a session; raises Closed."""
        self.send_frame((request or ConnectRequest()).packed())
        frame = self.receive_frame()
        fields = RecordReader(frame)
        _, timeout_ms, session_id = fields.take("iiq")
        password = fields.buffer() or b""
        self.session = Session(session_id, password, timeout_ms, len(frame))
        return self.session

    def send_bytes(self, data: bytes) -> None:
        """Send as it is; a connection that is gone is noticed when receiving."""
        with contextlib.suppress(OSError):
            self._socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        """Send with its length before it."""
        self.send_bytes(struct.pack(">i", len(payload)) + payload)

    def send(self, code: int, body: bytes = b"", xid: int | None = None) -> int:
        """Send a request and answer its xid."""
        if xid is None:
            xid = self._next_xid
            self._next_xid += 1
        self.send_frame(struct.pack(">ii", xid, code) + body)
        return xid

    def receive_frame(self) -> bytes:
        """The next frame; raises Closed."""
        (length,) = struct.unpack(">i", self._receive(4))
        return self._receive(length)

    def _receive(self, count: int) -> bytes:
        while len(self._received) < count:
            try:
                part = self._socket.recv(1 << 16)
            except ConnectionError:
                part = b""
            if not part:
                raise Closed
            self._received += part
        taken, self._received = self._received[:count], self._received[count:]
        return taken

    def receive(self) -> Reply:
        """The next reply or event; raises Closed."""
        frame = self.receive_frame()
        xid, zxid, error = struct.unpack_from(">iqi", frame)
        reply = Reply(xid, zxid, error, frame[16:])
        if reply.xid >= 0:
            self.last_zxid = max(self.last_zxid, reply.zxid)
        self.arrived.append(str(reply))
        return reply

    def reply_to(self, xid: int) -> Reply:
        """The reply to that request, past events before it; raises Closed."""
        while True:
            reply = self.receive()
            if reply.xid == xid:
                return reply
            if reply.xid != records.EVENT_XID:
                raise AssertionError(f"reply {reply.xid} instead of {xid}")

    def call(self, code: int, body: bytes = b"", xid: int | None = None) -> Reply:
        """Send a request and wait for its reply; raises Closed."""
        return self.reply_to(self.send(code, body, xid))

    def answer(self, code: int, body: bytes = b"", xid: int | None = None) -> str:
        """As `call`, as it shows in transcripts; `closed` for a closed connection."""
        try:
            return str(self.call(code, body, xid))
        except Closed:
            return "closed"

    def ping(self) -> None:
        """Tell the server that the session lives, and wait for the answer."""
        self.call(records.PING, xid=records.PING_XID)

    def take_arrived(self) -> list[str]:
        """All that arrived since this was last called."""
        taken, self.arrived = self.arrived, []
        return taken

    def events(self) -> list[str]:
        """The events among all that has come by now: a read is asked first, so that
        whatever the server sent before is in."""
        self.call(records.EXISTS, records.read("/"))
        return [one for one in self.take_arrived() if one.startswith("event")]

    def wait_for_event(self) -> None:
        """Return once an event is among `arrived`."""
        while not any(one.startswith("event") for one in self.arrived):
            self.receive()

    def end(self) -> str:
        """Wait for the server to close, and answer `closed` or what it said before."""
        said = []
        try:
            while True:
                said.append(str(self.receive()))
        except Closed:
            return " ".join([*said, "closed"])

    def drop(self) -> None:
        """Close the connection and leave the session."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.drop()
