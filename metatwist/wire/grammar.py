"""Header lines to values: every arity, integer rule and loose spot of the grammar.

Spec wire-protocol 1.2 to 1.6. Each function takes the tokens of one header, the
command word included, and the body where there is one, and raises
`ProtocolViolation` for what must close the connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from metatwist.errors import ProtocolViolation
from metatwist.wire.commands import (
    NO_CHECKSUM,
    GetCommand,
    Message,
    OffsetCommand,
    PollCommand,
    PutCommand,
    QuitCommand,
    ResultReply,
    StatsCommand,
    SyncCommand,
    TransactionCommand,
    ValueReply,
    VersionCommand,
)
from metatwist.wire.transaction_keys import check_key

_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
# Far above the longest 64-bit number even with many leading zeros.
_LONGEST_NUMBER = 64
_KINDS = frozenset(
    {"BEGIN", "PREPARE", "COMMIT_ONE_PHASE", "COMMIT_TWO_PHASE"}
    | {"ROLLBACK", "RECOVER", "FORGET", "END"}
)
# word -> index of its length token; these carry a body
BODY_LENGTH_AT = {"put": 3, "sync": 3, "value": 1, "result": 2}


def tokens_of(header: bytes) -> list[str]:
    """Split a header (without CR LF) at single spaces; drop empty tokens at the end.

    Raises ProtocolViolation for a blank line or a leading space (spec 1.2).
    """
    tokens = header.decode("utf-8", "replace").split(" ")
    while tokens and not tokens[-1]:
        tokens.pop()
    if not tokens or not tokens[0]:
        raise ProtocolViolation("empty command word")
    return tokens


def word_of(tokens: list[str]) -> str:
    """The command a header names, loose spots included (spec 1.4)."""
    word = tokens[0]
    if word[0] == "q":
        return "quit"
    if word[0] == "v":
        return "value" if word == "value" else "version"
    if word in _PARSERS:
        return word
    raise ProtocolViolation(f"unknown command {word[:40]!r}")


def i32(token: str) -> int:
    """A signed 32-bit decimal; ProtocolViolation otherwise (spec 1.3)."""
    return _integer(token, 31)


def i64(token: str) -> int:
    """A signed 64-bit decimal; ProtocolViolation otherwise (spec 1.3)."""
    return _integer(token, 63)


def _integer(token: str, bits: int) -> int:
    if len(token) > _LONGEST_NUMBER or not _INTEGER.fullmatch(token):
        raise ProtocolViolation(f"not an integer: {token[:40]!r}")
    value = int(token)
    if not -(1 << bits) <= value < 1 << bits:
        raise ProtocolViolation(f"integer out of range: {token}")
    return value


def body_length(word: str, tokens: list[str]) -> int:
    """Bytes of body that follow this header, 0 for a command without one.

    The only check made before the body has arrived (spec 1.7).
    """
    at = BODY_LENGTH_AT.get(word)
    if at is None:
        return 0
    if len(tokens) <= at:
        raise ProtocolViolation(f"{word} without a length")
    length = i32(tokens[at])
    if length < 0:
        raise ProtocolViolation(f"negative length {length}")
    return length


def parse(word: str, tokens: list[str], body: bytes) -> Message:
    """The value of one message whose body is complete."""
    return _PARSERS[word](tokens, body)


def _need(tokens: list[str], count: int) -> None:
    if len(tokens) < count:
        raise ProtocolViolation(f"{tokens[0][:20]} with {len(tokens)} tokens")


def _put(tokens: list[str], body: bytes) -> PutCommand:
    if len(tokens) not in (6, 7, 8):
        raise ProtocolViolation(f"put with {len(tokens)} tokens")
    topic, partition, flag = tokens[1], i32(tokens[2]), i32(tokens[4])
    checksum, key = NO_CHECKSUM, None
    if len(tokens) == 8:
        checksum, key = i32(tokens[5]), check_key(tokens[6])
    elif len(tokens) == 7 and tokens[5][:1] in "-0123456789" and tokens[5]:
        checksum = i32(tokens[5])
    elif len(tokens) == 7:
        key = check_key(tokens[5])
    return PutCommand(topic, partition, flag, checksum, key, i32(tokens[-1]), body)


def _sync(tokens: list[str], body: bytes) -> SyncCommand:
    if len(tokens) not in (7, 8):
        raise ProtocolViolation(f"sync with {len(tokens)} tokens")
    checksum = i32(tokens[6]) if len(tokens) == 8 else NO_CHECKSUM
    partition, flag, message_id = i32(tokens[2]), i32(tokens[4]), i64(tokens[5])
    opaque = i32(tokens[-1])
    return SyncCommand(tokens[1], partition, flag, message_id, checksum, opaque, body)


def _get(tokens: list[str], body: bytes) -> GetCommand:
    _need(tokens, 7)
    _, topic, group, partition, offset, max_size, opaque = tokens[:7]
    return GetCommand(
        topic, group, i32(partition), i64(offset), i32(max_size), i32(opaque)
    )


def _poll(tokens: list[str], body: bytes) -> PollCommand:
    _need(tokens, 8)
    _, topic, group, partition, offset, max_size, wait_ms, opaque = tokens[:8]
    return PollCommand(
        *(topic, group, i32(partition), i64(offset)),
        *(i32(max_size), i32(wait_ms), i32(opaque)),
    )


def _offset(tokens: list[str], body: bytes) -> OffsetCommand:
    _need(tokens, 6)
    _, topic, group, partition, offset, opaque = tokens[:6]
    return OffsetCommand(topic, group, i32(partition), i64(offset), i32(opaque))


def _version(tokens: list[str], body: bytes) -> VersionCommand:
    return VersionCommand(i32(tokens[1])) if len(tokens) > 1 else VersionCommand()


def _stats(tokens: list[str], body: bytes) -> StatsCommand:
    item = tokens[1] if len(tokens) > 1 else ""
    if len(tokens) > 2:
        return StatsCommand(item, i32(tokens[2]))
    return StatsCommand(item)


def _quit(tokens: list[str], body: bytes) -> QuitCommand:
    return QuitCommand()


def _transaction(tokens: list[str], body: bytes) -> TransactionCommand:
    if len(tokens) not in (5, 6, 7):
        raise ProtocolViolation(f"transaction with {len(tokens)} tokens")
    key, session_id, kind = check_key(tokens[1]), tokens[2], tokens[3]
    if kind not in _KINDS:
        raise ProtocolViolation(f"unknown transaction type {kind[:40]!r}")
    timeout_s, unique, opaque = None, None, i32(tokens[-1])
    if len(tokens) == 7:
        timeout_s, unique = i32(tokens[4]), tokens[5]
    elif len(tokens) == 6 and (_DIGITS.fullmatch(tokens[4]) or not tokens[4]):
        timeout_s = i32(tokens[4])
    elif len(tokens) == 6:
        unique = tokens[4]
    return TransactionCommand(key, session_id, kind, timeout_s, unique, opaque)


def _result(tokens: list[str], body: bytes) -> ResultReply:
    _need(tokens, 4)
    return ResultReply(i32(tokens[1]), i32(tokens[3]), body)


def _value(tokens: list[str], body: bytes) -> ValueReply:
    _need(tokens, 3)
    return ValueReply(i32(tokens[2]), body)


_PARSERS: dict[str, Callable[[list[str], bytes], Message]] = {
    "put": _put,
    "get": _get,
    "poll": _poll,
    "offset": _offset,
    "version": _version,
    "stats": _stats,
    "quit": _quit,
    "transaction": _transaction,
    "sync": _sync,
    "result": _result,
    "value": _value,
}
