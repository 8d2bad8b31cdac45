"""Bytes to messages: fed with whatever a connection delivers, split anywhere.

`MessageReader` owns no transport and no clock. Broker and client use the same one,
since requests and replies share one framing (spec wire-protocol 1.1). What arrives
most, a put with checksum and no transaction, has a path of its own: one anchored
expression without backtracking. All else goes through `grammar`.
"""

from __future__ import annotations

import re

from metatwist.errors import ProtocolViolation
from metatwist.wire import grammar
from metatwist.wire.commands import Message, PutCommand, QuitCommand

DEFAULT_MAX_HEADER_BYTES = 64 * 1024
DEFAULT_MAX_BODY_BYTES = 16 * 1024 * 1024
_MOST_REMEMBERED_TARGETS = 1024
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1

# Partition, length and flag are bounded so that they fit 32 bits; larger ones, legal or
# not, take the general way.
_match_put = re.compile(
    rb"put ([^ \r]{1,255} -?1?[0-9]{1,9}) (1?[0-9]{1,9}) (-?1?[0-9]{1,9})"
    rb" (-?[0-9]{1,10}) (-?[0-9]{1,10})\r\n"
).match
_LONGEST_QUICK_HEADER = 400
_match_nothing = re.compile(rb"(?!)").match
_new_tuple = tuple.__new__


class MessageReader:
    """Turns received bytes into messages, in order.

    `violation` is set once the peer broke the grammar or a limit; what was read before
    it is still returned by the same `feed`, and later bytes are ignored. The same
    holds after a `QuitCommand`. `buffered_bytes` counts what is here of a message that
    has not arrived whole.
    """

    def __init__(
        self,
        max_header_bytes: int = DEFAULT_MAX_HEADER_BYTES,
        max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
    ) -> None:
        self._max_header_bytes = max_header_bytes
        self._max_body_bytes = max_body_bytes
        self._kept: list[bytes] = []
        self.buffered_bytes = 0
        self._needed_bytes = 0  # of the message begun; 0 while its header is incomplete
        self._targets: dict[bytes, tuple[str, int]] = {}
        self._done = False
        # The quick way does not look at the header's length, so it has to be harmless.
        quick = max_header_bytes >= _LONGEST_QUICK_HEADER
        self._match_put = _match_put if quick else _match_nothing
        self.violation: ProtocolViolation | None = None

    def close(self) -> None:
        """Ignore what comes and forget what came, the connection being gone."""
        self._done = True
        self._kept.clear()
        self.buffered_bytes = 0

    def feed(self, data: bytes) -> list[Message]:
        """The messages completed by `data`; an incomplete one yields nothing yet."""
        if self._done or not data:
            return []
        if self._kept:
            if not self._worth_parsing(data):
                return []
            self._kept.append(data)
            data = b"".join(self._kept)
            self._kept.clear()
        messages: list[Message] = []
        try:
            position = self._read_all(data, messages)
        except ProtocolViolation as violation:
            self.violation = violation
            position = len(data)
            self._done = True
        rest = data[position:] if position < len(data) and not self._done else b""
        self.buffered_bytes = len(rest)
        if rest:
            self._kept.append(rest)
        return messages

    def _worth_parsing(self, data: bytes) -> bool:
        """False, keeping `data`, while it cannot complete the message begun.

        This is what keeps slow senders from making the parse quadratic.
        """
        total = self.buffered_bytes + len(data)
        if self._needed_bytes:
            worth = total >= self._needed_bytes
        else:
            split = data[:1] == b"\n" and self._kept[-1][-1:] == b"\r"
            worth = split or b"\r\n" in data or total > self._max_header_bytes + 1
        if not worth:
            self._kept.append(data)
            self.buffered_bytes = total
        return worth

    def _read_all(self, data: bytes, messages: list[Message]) -> int:
        """Append the messages in `data`; returns where the first incomplete starts."""
        position, size = 0, len(data)
        targets, append, match_put = self._targets, messages.append, self._match_put
        max_body_bytes = self._max_body_bytes
        self._needed_bytes = 0
        while position < size:
            match = match_put(data, position)
            if match is None:
                end = self._read_general(data, position, messages)
                if end == position:
                    return position
                position = end
                continue
            raw_target, length, flag, checksum, opaque = match.groups()
            start = match.end()
            end = start + int(length)
            if end - start > max_body_bytes:
                raise ProtocolViolation(f"body of {end - start} bytes")
            if end > size:
                self._needed_bytes = end - position
                return position
            sum_, opaque_ = int(checksum), int(opaque)
            if not (_INT_MIN <= opaque_ <= _INT_MAX and _INT_MIN <= sum_ <= _INT_MAX):
                raise ProtocolViolation("integer out of range")
            topic, partition = targets.get(raw_target) or self._target(raw_target)
            flag_ = 0 if flag == b"0" else int(flag)
            body = data[start:end]
            fields = (topic, partition, flag_, sum_, None, opaque_, body)
            append(_new_tuple(PutCommand, fields))
            position = end
        return position

    def _read_general(self, data: bytes, position: int, messages: list[Message]) -> int:
        """Read one message of any kind at `position`; `position` when incomplete."""
        header_end = data.find(b"\r\n", position)
        if header_end < 0 or header_end - position > self._max_header_bytes:
            self._check_header_size(data, position, header_end)
            return position
        tokens = grammar.tokens_of(data[position:header_end])
        word = grammar.word_of(tokens)
        length = grammar.body_length(word, tokens)
        if length > self._max_body_bytes:
            raise ProtocolViolation(f"body of {length} bytes")
        start = header_end + 2
        end = start + length
        if end > len(data):
            self._needed_bytes = end - position
            return position
        message = grammar.parse(word, tokens, data[start:end])
        messages.append(message)
        if isinstance(message, QuitCommand):
            self._done = True
            return len(data)
        return end

    def _check_header_size(self, data: bytes, position: int, header_end: int) -> None:
        # Without its end in sight the last byte may be the CR, which does not count.
        end = header_end if header_end >= 0 else len(data) - 1
        if end - position > self._max_header_bytes:
            raise ProtocolViolation(f"header over {self._max_header_bytes} bytes")

    def _target(self, raw: bytes) -> tuple[str, int]:
        """Decode topic and partition once; hostile names do not fill the memory."""
        topic, _, partition = raw.partition(b" ")
        target = topic.decode("utf-8", "replace"), int(partition)
        if len(self._targets) < _MOST_REMEMBERED_TARGETS:
            self._targets[raw] = target
        return target
