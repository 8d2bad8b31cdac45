"""ZooKeeper's records on the wire, big-endian (spec layout 7.2): bytes to values and
back. Knows no socket and no tree."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from attrs import frozen

from metatwist.coordination.embedded.acl import Entry
from metatwist.coordination.embedded.tree import Node
from metatwist.coordination.errors import Marshalling
from metatwist.coordination.interface import EventKind

MAX_FRAME_BYTES = 0xFFFFF
"""The longest request, as ZooKeeper's own `jute.maxbuffer`."""

PASSWORD_BYTES = 16
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_REPLY = struct.Struct(">iqi")
_FRAMED_REPLY = struct.Struct(">iiqi")
_STAT = struct.Struct(">qqqqiiiqiiq")
_CONNECT = struct.Struct(">iqiq")
_CONNECTED = struct.Struct(">iiq")
_EVENT_STATE_CONNECTED = 3
_EVENT_XID = -1


class RecordReader:
    """Takes values from the front of one frame; raises Marshalling past its end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def _take(self, layout: struct.Struct) -> int:
        at = self._at
        self._at = at + layout.size
        try:
            value: int = layout.unpack_from(self._data, at)[0]
        except struct.error:
            raise Marshalling("the frame is too short") from None
        return value

    def number(self) -> int:
        """32 bits with a sign."""
        return self._take(_INT)

    def long_number(self) -> int:
        """64 bits with a sign."""
        return self._take(_LONG)

    def flag(self) -> bool:
        """One byte."""
        at = self._at
        self._at = at + 1
        if self._at > len(self._data):
            raise Marshalling("the frame is too short")
        return self._data[at] != 0

    def buffer(self) -> bytes | None:
        """Counted bytes; None for the length -1."""
        length = self._take(_INT)
        if length == -1:
            return None
        at = self._at
        self._at = at + length
        if length < 0 or self._at > len(self._data):
            raise Marshalling("a length leads out of the frame")
        return self._data[at : at + length]

    def string(self) -> str | None:
        """Counted UTF-8."""
        data = self.buffer()
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError:
            raise Marshalling("a string is not UTF-8") from None

    def path(self) -> str:
        """A string; an absent one reads as empty, which is no path."""
        return self.string() or ""

    def strings(self) -> list[str]:
        """A counted list of strings."""
        return [self.path() for _ in range(self.number())]

    def acl(self) -> list[Entry]:
        """A counted list of (permissions, scheme, id)."""
        return [(self.number(), self.path(), self.path()) for _ in range(self.number())]

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._data)


def buffer(data: bytes | None) -> bytes:
    """Counted bytes."""
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


def string(text: str) -> bytes:
    """Counted UTF-8."""
    return buffer(text.encode("utf-8"))


def strings(texts: Iterable[str]) -> bytes:
    """A counted list of strings."""
    encoded = [string(text) for text in texts]
    return _INT.pack(len(encoded)) + b"".join(encoded)


def acl(entries: Iterable[Entry]) -> bytes:
    """A counted list of (permissions, scheme, id)."""
    encoded = [
        _INT.pack(permissions) + string(scheme) + string(name)
        for permissions, scheme, name in entries
    ]
    return _INT.pack(len(encoded)) + b"".join(encoded)


def stat(node: Node) -> bytes:
    """The 68 bytes of a stat."""
    return _STAT.pack(
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        node.cversion,
        node.aversion,
        node.owner.id if node.owner is not None else 0,
        len(node.data) if node.data else 0,
        len(node.children),
        node.pzxid,
    )


def reply(xid: int, zxid: int, error: int, body: bytes = b"") -> bytes:
    """A whole frame; a body belongs to a reply without error only."""
    return _FRAMED_REPLY.pack(16 + len(body), xid, zxid, error) + body


def event(kind: EventKind, path: str) -> bytes:
    """The frame of a watch that has fired."""
    body = _INT.pack(kind) + _INT.pack(_EVENT_STATE_CONNECTED) + string(path)
    return reply(_EVENT_XID, -1, 0, body)


def result_header(operation: int, done: bool, error: int) -> bytes:
    """What stands before each result of a multi."""
    return _INT.pack(operation) + bytes((done,)) + _INT.pack(error)


def number(value: int) -> bytes:
    """32 bits."""
    return _INT.pack(value)


@frozen
class ConnectRequest:
    """The first frame of a connection; `timeout_ms` is what the client wishes.

    `has_read_only` is false for clients before 3.4, which know nothing of it.
    """

    timeout_ms: int
    session_id: int
    password: bytes
    has_read_only: bool

    @classmethod
    def read(cls, frame: bytes) -> ConnectRequest:
        """Raises Marshalling."""
        reader = RecordReader(frame)
        reader.number()
        reader.long_number()
        timeout_ms, session_id = reader.number(), reader.long_number()
        password = reader.buffer() or b""
        return cls(timeout_ms, session_id, password, not reader.exhausted)

    def answer(self, timeout_ms: int, session_id: int, password: bytes) -> bytes:
        """A whole frame; all zeros say that the session is over (spec 7.3, 7)."""
        body = _CONNECTED.pack(0, timeout_ms, session_id) + buffer(password)
        if self.has_read_only:
            body += b"\x00"
        return buffer(body)

    def refusal(self) -> bytes:
        """The answer for a session that is over or unknown."""
        return self.answer(0, 0, bytes(PASSWORD_BYTES))
