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
from metatwist.wire.commands import Message, ResultReply, ValueReply

_HEADER = re.compile(rb"(?:result (\d{1,9})|value) (\d{1,9}) (-?\d{1,10})\r\n")
_STORED = re.compile(rb"(-?\d{1,19}) (\d{1,9}) (-?\d{1,19})")
_MOST_HEADER_BYTES = 4096


class PutStored(NamedTuple):
    """`result 200` whose body is `<message id> <partition> <offset>`."""

    opaque: int
    message_id: int
    partition: int
    offset: int


class ReplyReader:
    """Bytes to answers; owns no transport.

    `feed` raises ProtocolViolation for what no broker says, after which the reader is
    of no use.
    """

    def __init__(self, most_body_bytes: int) -> None:
        self._most_body_bytes = most_body_bytes
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._needed_bytes = 0

    def feed(self, data: bytes) -> list[PutStored | Message]:
        """The answers completed by `data`."""
        if self._kept:
            self._kept.append(data)
            self._kept_bytes += len(data)
            if self._kept_bytes < self._needed_bytes:
                return []
            data = b"".join(self._kept)
            self._kept.clear()
        answers: list[PutStored | Message] = []
        position = self._read_all(data, answers)
        if position < len(data):
            rest = data[position:] if position else data
            self._kept.append(rest)
            self._kept_bytes = len(rest)
        return answers

    def _read_all(self, data: bytes, answers: list[PutStored | Message]) -> int:
        position, size, append = 0, len(data), answers.append
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
            if end > size:
                self._need(end - position, end - start)
                return position
            if code is None:
                append(ValueReply(int(opaque), data[start:end]))
            elif code == b"200" and (stored := match_stored(data, start, end)):
                message_id, partition, offset = stored.groups()
                append(
                    PutStored(int(opaque), int(message_id), int(partition), int(offset))
                )
            else:
                append(ResultReply(int(code), int(opaque), data[start:end]))
            position = end
        return position

    def _need(self, total_bytes: int, body_bytes: int) -> None:
        if body_bytes > self._most_body_bytes:
            raise ProtocolViolation(f"answer of {body_bytes} bytes")
        self._needed_bytes = total_bytes

    def _read_other(
        self, data: bytes, position: int, answers: list[PutStored | Message]
    ) -> int:
        """One message of any kind or form; `position` while it is incomplete."""
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
        answers.append(grammar.parse(word, tokens, data[start:end]))
        return end
