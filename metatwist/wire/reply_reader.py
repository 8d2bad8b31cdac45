"""Answers, read as fast as they come: the client's half of the codec.

A producer gets one `result 200` a message and a consumer few but large `value`s; both
are common enough to have a pattern of their own. Everything else goes the way of
`MessageReader`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from metatwist.errors import ProtocolViolation
from metatwist.wire import grammar
from metatwist.wire.commands import ResultReply, ValueReply

_HEADER = re.compile(rb"(?:result (\d{1,9})|value) (\d{1,9}) (-?\d{1,10})\r\n")
_STORED = re.compile(rb"(-?\d{1,19}) (\d{1,9}) (-?\d{1,19})")
_MOST_HEADER_BYTES = 4096


class PutStored(NamedTuple):
    """`result 200` whose body is `<message id> <partition> <offset>`."""

    opaque: int
    message_id: int
    partition: int
    offset: int


class ValueChunks:
    """`value`: a slice of a partition, in the pieces in which it came.

    It reaches from `start` in the first of `chunks` to `end` in the last one. A body is
    large, and moving it costs more than all else that is done with it: so it is not
    joined before somebody asks for it.
    """

    __slots__ = ("chunks", "end", "opaque", "start")

    def __init__(self, opaque: int, chunks: list[bytes], start: int, end: int) -> None:
        self.opaque = opaque
        self.chunks = chunks
        self.start = start
        self.end = end

    @classmethod
    def of(cls, opaque: int, body: bytes) -> ValueChunks:
        """In one piece."""
        return cls(opaque, [body], 0, len(body))

    @property
    def size_bytes(self) -> int:
        """Of the body."""
        before = sum(len(chunk) for chunk in self.chunks[:-1])
        return before + self.end - self.start

    @property
    def body(self) -> bytes:
        """In one piece, a copy."""
        *before, last = self.chunks
        joined = b"".join([*before, last[: self.end]])
        return joined[self.start :]

    def __repr__(self) -> str:
        return f"ValueChunks({self.opaque}, {self.size_bytes} bytes)"


BrokerReply = ResultReply | ValueChunks
"""An answer whose meaning depends on the request."""

BrokerAnswer = PutStored | BrokerReply


class ReplyReader:
    """Bytes to answers; owns no transport. A `value` comes as ValueChunks.

    `feed` raises ProtocolViolation for what no broker says, after which the reader is
    of no use.
    """

    def __init__(self, most_body_bytes: int) -> None:
        self._most_body_bytes = most_body_bytes
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._needed_bytes = 0
        self._value: ValueChunks | None = None
        self._missing_bytes = 0

    def feed(self, data: bytes) -> list[BrokerAnswer]:
        """The answers completed by `data`."""
        answers: list[BrokerAnswer] = []
        position = 0
        if self._value is not None:
            position = self._go_on_with(self._value, data, answers)
            if self._value is not None:
                return answers
        elif self._kept:
            self._kept.append(data)
            self._kept_bytes += len(data)
            if self._kept_bytes < self._needed_bytes:
                return answers
            data = b"".join(self._kept)
            self._kept.clear()
        position = self._read_all(data, position, answers)
        if position < len(data):
            rest = data[position:] if position else data
            self._kept.append(rest)
            self._kept_bytes = len(rest)
        return answers

    def _go_on_with(
        self, value: ValueChunks, data: bytes, answers: list[BrokerAnswer]
    ) -> int:
        """More of a body that has begun; returns where it ends in `data`."""
        value.chunks.append(data)
        missing = self._missing_bytes
        if len(data) < missing:
            self._missing_bytes = missing - len(data)
            return len(data)
        value.end = missing
        self._value = None
        answers.append(value)
        return missing

    def _read_all(self, data: bytes, position: int, answers: list[BrokerAnswer]) -> int:
        size, append, new = len(data), answers.append, tuple.__new__
        match_header, match_stored = _HEADER.match, _STORED.fullmatch
        self._needed_bytes = 0
        while position < size:
            match = match_header(data, position)
            if match is None:
                end = self._read_other(data, position, answers)
                if end == position:
                    return position
                position = end
                continue
            code, length, opaque = match.groups()
            start = match.end()
            end = start + int(length)
            if code is None:
                if end > size:
                    self._check_size(end - start)
                    self._value = ValueChunks(int(opaque), [data], start, 0)
                    self._missing_bytes = end - size
                    return size
                append(ValueChunks(int(opaque), [data], start, end))
            elif end > size:
                self._need(end - position, end - start)
                return position
            elif code == b"200" and (stored := match_stored(data, start, end)):
                message_id, partition, offset = stored.groups()
                fields = (int(opaque), int(message_id), int(partition), int(offset))
                append(new(PutStored, fields))
            else:
                append(ResultReply(int(code), int(opaque), data[start:end]))
            position = end
        return position

    def _check_size(self, body_bytes: int) -> None:
        if body_bytes > self._most_body_bytes:
            raise ProtocolViolation(f"answer of {body_bytes} bytes")

    def _need(self, total_bytes: int, body_bytes: int) -> None:
        self._check_size(body_bytes)
        self._needed_bytes = total_bytes

    def _read_other(
        self, data: bytes, position: int, answers: list[BrokerAnswer]
    ) -> int:
        """One answer of any form; `position` while it is incomplete."""
        header_end = data.find(b"\r\n", position, position + _MOST_HEADER_BYTES + 2)
        if header_end < 0:
            if len(data) - position > _MOST_HEADER_BYTES + 1:
                raise ProtocolViolation(f"header over {_MOST_HEADER_BYTES} bytes")
            return position
        tokens = grammar.tokens_of(data[position:header_end])
        word = grammar.word_of(tokens)
        length = grammar.body_length(word, tokens)
        start = header_end + 2
        end = start + length
        if end > len(data):
            self._need(end - position, length)
            return position
        answer = grammar.parse(word, tokens, data[start:end])
        if isinstance(answer, ValueReply):
            answers.append(ValueChunks.of(*answer))
        elif isinstance(answer, ResultReply):
            answers.append(answer)
        else:
            raise ProtocolViolation(f"{word} is no answer")
        return end
