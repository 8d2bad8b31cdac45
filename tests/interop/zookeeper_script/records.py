"""Bytes of requests and replies, written and read with struct alone."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from attrs import frozen
from kazoo.protocol.states import ZnodeStat

CREATE, DELETE, EXISTS, GET, SET = 1, 2, 3, 4, 5
GET_ACL, SET_ACL, CHILDREN, SYNC, PING = 6, 7, 8, 9, 11
CHILDREN2, CHECK, MULTI, CREATE2 = 12, 13, 14, 15
AUTH, SET_WATCHES, CLOSE = 100, 101, -11
EVENT_XID, PING_XID, AUTH_XID, SET_WATCHES_XID = -1, -2, -4, -8
EPHEMERAL, SEQUENCE = 1, 2
OPEN_ACL = ((31, "world", "anyone"),)
EVENTS = {1: "CREATED", 2: "DELETED", 3: "CHANGED", 4: "CHILD"}
ERRORS = {
    0: "ok",
    -2: "RuntimeInconsistency",
    -5: "MarshallingError",
    -6: "Unimplemented",
    -8: "BadArguments",
    -101: "NoNode",
    -102: "NoAuth",
    -103: "BadVersion",
    -108: "NoChildrenForEphemerals",
    -110: "NodeExists",
    -111: "NotEmpty",
    -112: "SessionExpired",
    -114: "InvalidACL",
    -115: "AuthFailed",
    -118: "SessionMoved",
}
_STAT = struct.Struct(">qqqqiiiqiiq")

Acl = Sequence[tuple[int, str, str]]


def text(value: str | bytes | None) -> bytes:
    """A string; bytes go as they are, None as length -1."""
    return buffer(value.encode() if isinstance(value, str) else value)


def buffer(value: bytes | None) -> bytes:
    """A length and bytes; None is length -1."""
    if value is None:
        return struct.pack(">i", -1)
    return struct.pack(">i", len(value)) + value


def acl(entries: Acl) -> bytes:
    """A vector of ACL entries."""
    packed = [
        struct.pack(">i", perms) + text(scheme) + text(name)
        for perms, scheme, name in entries
    ]
    return struct.pack(">i", len(entries)) + b"".join(packed)


def create(
    path: str | bytes | None,
    data: bytes | None = b"",
    flags: int = 0,
    entries: Acl = OPEN_ACL,
) -> bytes:
    """The body of a create."""
    return text(path) + buffer(data) + acl(entries) + struct.pack(">i", flags)


def set_data(path: str | bytes | None, data: bytes | None, version: int = -1) -> bytes:
    """The body of a setData."""
    return text(path) + buffer(data) + struct.pack(">i", version)


def versioned(path: str | bytes | None, version: int = -1) -> bytes:
    """The body of a delete or a check."""
    return text(path) + struct.pack(">i", version)


def read(path: str | bytes | None, watch: bool = False) -> bytes:
    """The body of exists, getData, getChildren and getChildren2."""
    return text(path) + struct.pack(">?", watch)


def set_watches(
    zxid: int, data: Sequence[str], exist: Sequence[str], child: Sequence[str]
) -> bytes:
    """The body of setWatches."""
    packed = struct.pack(">q", zxid)
    for paths in (data, exist, child):
        packed += struct.pack(">i", len(paths)) + b"".join(text(one) for one in paths)
    return packed


def multi(operations: Sequence[tuple[int, bytes]]) -> bytes:
    """The body of a multi of (opcode, body)."""
    packed = [struct.pack(">i?i", code, False, -1) + body for code, body in operations]
    return b"".join(packed) + struct.pack(">i?i", -1, True, -1)


class RecordReader:
    """Reads fields off a reply's body, in order."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self._body) - self._at

    def take(self, form: str) -> tuple[int, ...]:
        """The next fields of a struct format, big-endian."""
        values = struct.unpack_from(f">{form}", self._body, self._at)
        self._at += struct.calcsize(f">{form}")
        return values

    def buffer(self) -> bytes | None:
        """The next buffer."""
        (length,) = self.take("i")
        if length < 0:
            return None
        start = self._at
        self._at += length
        return self._body[start : self._at]

    def text(self) -> str | None:
        """The next string."""
        value = self.buffer()
        return None if value is None else value.decode()

    def stat(self) -> ZnodeStat:
        """The next stat."""
        return ZnodeStat._make(self.take(_STAT.format.lstrip(">")))

    def names(self) -> list[str | None]:
        """The next vector of strings."""
        (count,) = self.take("i")
        return [self.text() for _ in range(count)]


@frozen
class Reply:
    """One frame from the server: an event has xid -1."""

    xid: int
    zxid: int
    error: int
    body: bytes

    @property
    def fields(self) -> RecordReader:
        """Its body, from the start."""
        return RecordReader(self.body)

    def __str__(self) -> str:
        if self.xid == EVENT_XID:
            fields = self.fields
            kind, state = fields.take("ii")
            sound = state == 3 and self.zxid == -1 and self.error == 0
            mark = "" if sound else f" zxid={self.zxid} error={self.error} {state}"
            return f"event {EVENTS.get(kind, kind)} {fields.text()}{mark}"
        extra = f" +{len(self.body)}" if self.error else ""
        return ERRORS.get(self.error, str(self.error)) + extra


def event(kind: str, path: str) -> str:
    """How an event shows in a transcript."""
    return f"event {kind} {path}"
