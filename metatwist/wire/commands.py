"""Requests: one value per command word, its grammar in its docstring.

Every class has `encode()`, so a client writes what a broker reads. Integers are
checked by the reader; strings may hold anything but a space and CR LF (spec
wire-protocol 1.5).
"""

from __future__ import annotations

from typing import NamedTuple

NO_CHECKSUM = -1
DEFAULT_OPAQUE = 2147483647


class PutCommand(NamedTuple):
    """put topic partition length flag [checksum] [txkey] opaque CRLF body

    `checksum` is -1 when none was sent; `transaction` is the text of the key.
    """

    topic: str
    partition: int
    flag: int
    checksum: int
    transaction: str | None
    opaque: int
    body: bytes

    def encode(self) -> bytes:
        """The 7-token form, or the 8-token form with a transaction."""
        key = f" {self.transaction}" if self.transaction is not None else ""
        head = (
            f"put {self.topic} {self.partition} {len(self.body)} {self.flag}"
            f" {self.checksum}{key} {self.opaque}\r\n"
        )
        return head.encode() + self.body


class GetCommand(NamedTuple):
    """get topic group partition offset maxSize opaque"""

    topic: str
    group: str
    partition: int
    offset: int
    max_size: int
    opaque: int

    def encode(self) -> bytes:
        """The request line."""
        return (
            f"get {self.topic} {self.group} {self.partition} {self.offset}"
            f" {self.max_size} {self.opaque}\r\n"
        ).encode()


class PollCommand(NamedTuple):
    """poll topic group partition offset maxSize waitMs opaque

    A get that may wait at the end of the partition; an extension, sent only to brokers
    that were seen to know it (docs/protocol.md).
    """

    topic: str
    group: str
    partition: int
    offset: int
    max_size: int
    wait_ms: int
    opaque: int

    @property
    def get(self) -> GetCommand:
        """What is answered once the wait is over."""
        return GetCommand(*self[:5], self.opaque)

    def encode(self) -> bytes:
        """The request line."""
        return (
            f"poll {self.topic} {self.group} {self.partition} {self.offset}"
            f" {self.max_size} {self.wait_ms} {self.opaque}\r\n"
        ).encode()


class OffsetCommand(NamedTuple):
    """offset topic group partition offset opaque"""

    topic: str
    group: str
    partition: int
    offset: int
    opaque: int

    def encode(self) -> bytes:
        """The request line."""
        return (
            f"offset {self.topic} {self.group} {self.partition} {self.offset}"
            f" {self.opaque}\r\n"
        ).encode()


class VersionCommand(NamedTuple):
    """version [opaque]"""

    opaque: int = DEFAULT_OPAQUE

    def encode(self) -> bytes:
        """The request line."""
        return f"version {self.opaque}\r\n".encode()


class StatsCommand(NamedTuple):
    """stats [item [opaque]]; an empty item asks for the general form"""

    item: str = ""
    opaque: int = DEFAULT_OPAQUE

    def encode(self) -> bytes:
        """The request line, two spaces for the empty item as Java clients write it."""
        return f"stats {self.item} {self.opaque}\r\n".encode()


class QuitCommand(NamedTuple):
    """quit"""

    def encode(self) -> bytes:
        """The request line."""
        return b"quit\r\n"


class TransactionCommand(NamedTuple):
    """transaction txkey sessionId type [timeout] [uniqueQualifier] opaque

    `timeout_s` is None when absent (spec wire-protocol 1.6).
    """

    key: str
    session_id: str
    kind: str
    timeout_s: int | None
    unique_qualifier: str | None
    opaque: int

    def encode(self) -> bytes:
        """The request line."""
        timeout = [] if self.timeout_s is None else [str(self.timeout_s)]
        unique = [] if self.unique_qualifier is None else [self.unique_qualifier]
        fields = ["transaction", self.key, self.session_id, self.kind]
        fields += [*timeout, *unique, str(self.opaque)]
        return " ".join(fields).encode() + b"\r\n"


class SyncCommand(NamedTuple):
    """sync topic partition length flag msgId [checksum] opaque CRLF body"""

    topic: str
    partition: int
    flag: int
    message_id: int
    checksum: int
    opaque: int
    body: bytes

    def encode(self) -> bytes:
        """The 8-token form."""
        head = (
            f"sync {self.topic} {self.partition} {len(self.body)} {self.flag}"
            f" {self.message_id} {self.checksum} {self.opaque}\r\n"
        )
        return head.encode() + self.body


class ResultReply(NamedTuple):
    """result code length opaque CRLF body"""

    code: int
    opaque: int
    body: bytes = b""

    def encode(self) -> bytes:
        """Header and body."""
        head = f"result {self.code} {len(self.body)} {self.opaque}\r\n".encode()
        return head + self.body


class ValueReply(NamedTuple):
    """value length opaque CRLF body; the body is a slice of a partition"""

    opaque: int
    body: bytes

    def encode(self) -> bytes:
        """Header and body."""
        return value_header(len(self.body), self.opaque) + self.body


def value_header(length: int, opaque: int) -> bytes:
    """The header of a `value` whose body of `length` bytes follows separately."""
    return b"value %d %d\r\n" % (length, opaque)


NumberedRequest = (
    PutCommand
    | GetCommand
    | PollCommand
    | OffsetCommand
    | VersionCommand
    | StatsCommand
    | TransactionCommand
    | SyncCommand
)
"""What has an opaque, and an answer."""

Request = NumberedRequest | QuitCommand
Reply = ResultReply | ValueReply
Message = Request | Reply
