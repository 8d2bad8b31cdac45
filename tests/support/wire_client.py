"""A blocking MetaQ client on one socket, with a parser of its own.

It shares no code with the broker, so that a fault of the codec cannot hide itself.
Requests are bytes (`put_request` and its kin): send many, then take their replies.
"""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

from typing_extensions import Self

HEADER = struct.Struct(">iiqi")
ASK_FOR_END = 9223372036854775807
READ_BYTES = 1 << 20
_RECEIVE_BYTES = 1 << 18


class WireError(Exception):
    """The broker sent what it must not send."""


class ConnectionEnded(Exception):
    """The broker closed the connection; `partial` are bytes of half a reply."""

    def __init__(self, partial: bytes) -> None:
        super().__init__(f"connection ended, {len(partial)} bytes of half a reply")
        self.partial = partial


class Reply(NamedTuple):
    """A `result` with its code, or a `value` (code 0)."""

    code: int
    opaque: int
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def stored(self) -> Stored:
        """What a put's 200 says; raises WireError for any other answer."""
        if self.code != 200:
            raise WireError(f"put answered {self.code}: {self.text}")
        message_id, partition, offset = map(int, self.body.split(b" "))
        return Stored(message_id, partition, offset)


class Stored(NamedTuple):
    """The acknowledgement of a put (spec wire-protocol 3.2)."""

    message_id: int
    partition: int
    offset: int


class Read(NamedTuple):
    """One record read back; `offset` is absolute in the partition."""

    offset: int
    message_id: int
    flag: int
    payload: bytes

    @property
    def end(self) -> int:
        """The offset of the record behind."""
        return self.offset + HEADER.size + len(self.payload)


def checksum(payload: bytes) -> int:
    """CRC-32 with the top bit cleared (spec wire-protocol 2.3)."""
    return zlib.crc32(payload) & 0x7FFFFFFF


def put_request(
    topic: str, partition: int, payload: bytes, opaque: int = 1, flag: int = 0
) -> bytes:
    """`put topic partition length flag checksum opaque`, and the payload."""
    size, sum_ = len(payload), checksum(payload)
    head = f"put {topic} {partition} {size} {flag} {sum_} {opaque}\r\n"
    return head.encode() + payload


def get_request(topic: str, partition: int, offset: int, max_size: int) -> bytes:
    """`get topic group partition offset maxSize opaque`."""
    return f"get {topic} reader {partition} {offset} {max_size} 1\r\n".encode()


class WireClient:
    """One connection to loopback `port`; use it in a `with` block."""

    def __init__(self, port: int, timeout_s: float = 20) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send requests; blocks while the broker does not read."""
        self.socket.sendall(data)

    def reply(self) -> Reply:
        """The next reply.

        Raises ConnectionEnded when the broker has closed, OSError when it is gone,
        WireError for bytes that are no reply.
        """
        while True:
            reply = self._take()
            if reply is not None:
                return reply
            data = self.socket.recv(_RECEIVE_BYTES)
            if not data:
                raise ConnectionEnded(bytes(self._received))
            self._received += data

    def buffered(self) -> Reply | None:
        """A reply that has arrived whole already, or None."""
        return self._take()

    def _take(self) -> Reply | None:
        end = self._received.find(b"\r\n")
        if end < 0:
            return None
        word, *numbers = self._received[:end].split(b" ")
        sizes = {b"result": 3, b"value": 2}
        if sizes.get(bytes(word)) != len(numbers):
            raise WireError(f"no reply: {bytes(self._received[:80])!r}")
        *code, length, opaque = map(int, numbers)
        begin, behind = end + 2, end + 2 + length
        if len(self._received) < behind:
            return None
        body = bytes(self._received[begin:behind])
        del self._received[:behind]
        return Reply(code[0] if code else 0, opaque, body)

    def ask(self, request: bytes) -> Reply:
        """Send one request and take one reply."""
        self.send(request)
        return self.reply()

    def put(self, topic: str, partition: int, payload: bytes, flag: int = 0) -> Stored:
        """Put one message; WireError when it is refused."""
        return self.ask(put_request(topic, partition, payload, flag=flag)).stored

    def get(
        self, topic: str, partition: int, offset: int, max_size: int = READ_BYTES
    ) -> Reply:
        """One get."""
        return self.ask(get_request(topic, partition, offset, max_size))


def whole_records(data: bytes, offset: int) -> Iterator[Read]:
    """The complete records at the front of `data`, which starts at `offset`.

    Raises WireError for a payload that does not match its checksum.
    """
    position = 0
    while len(data) - position >= HEADER.size:
        length, sum_, message_id, flag = HEADER.unpack_from(data, position)
        begin = position + HEADER.size
        if length < 0:
            raise WireError(f"length {length} at offset {offset + position}")
        if begin + length > len(data):
            return
        payload = data[begin : begin + length]
        if checksum(payload) != sum_:
            raise WireError(f"checksum of the record at offset {offset + position}")
        yield Read(offset + position, message_id, flag, payload)
        position = begin + length


def chunks(
    client: WireClient, topic: str, partition: int, offset: int = 0
) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of all that a consumer can read, from `offset` to the end.

    Every chunk holds whole records. Goes on where a 301 says; stops at the first 404.
    """
    max_size = READ_BYTES
    while True:
        reply = client.get(topic, partition, offset, max_size)
        if reply.code == 404:
            return
        if reply.code == 301:
            moved = int(reply.body)
            if moved <= offset:
                raise WireError(f"301 from {offset} back to {moved}")
            offset = moved
            continue
        if reply.code:
            raise WireError(f"get at {offset} answered {reply.code}: {reply.text}")
        size = whole_size(reply.body)
        if not size:
            max_size *= 2
            if max_size > 1 << 26:
                raise WireError(f"no whole record at {offset} in {topic}-{partition}")
            continue
        yield offset, reply.body[:size]
        offset += size
        max_size = READ_BYTES


def whole_size(data: bytes) -> int:
    """How many bytes of `data` are whole records."""
    position, size = 0, len(data)
    while size - position >= HEADER.size:
        behind = position + HEADER.size + HEADER.unpack_from(data, position)[0]
        if not position < behind <= size:
            break
        position = behind
    return position


def read_all(
    client: WireClient, topic: str, partition: int, offset: int = 0
) -> Iterator[Read]:
    """Every record that a consumer can read, in order."""
    for begin, data in chunks(client, topic, partition, offset):
        yield from whole_records(data, begin)
