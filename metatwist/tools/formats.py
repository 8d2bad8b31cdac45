"""Messages as bytes of a file or pipe, and back.

What `json` writes, `from_json` reads back identically: body, attribute, and nothing
else that a producer may choose.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from metatwist.client.message import ReceivedMessage
from metatwist.coordination.foreign_text import escaped
from metatwist.tools.ending import ToolError

FORMATS = ("text", "json", "raw", "hex", "base64")
NEWLINE = b"\n"
Render = Callable[[ReceivedMessage], bytes]

_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.?)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}
_TOLD_BY_CONSUME = {"topic", "partition", "offset", "next_offset", "id"}
_OURS = {"body", "body_base64", "attribute", "key"}


class BadInput(ToolError):
    """A piece of input is no message; the text says why."""


class Content(NamedTuple):
    """What a piece of input says of a message."""

    body: bytes
    attribute: str | None = None
    key: bytes | str | None = None


# -- out ------------------------------------------------------------------------------


def renderer(name: str, delimiter: bytes | None = None, safe: bool = False) -> Render:
    """How one message is written, with what stands behind it.

    `delimiter` is a newline by default, and nothing for `raw`. `safe` escapes what
    could steer a terminal, in `text`.
    """
    behind = delimiter_behind(name, delimiter)
    content: Render = {
        "text": _escaped_body if safe else body_of,
        "json": to_json,
        "raw": body_of,
        "hex": lambda message: body_of(message).hex().encode(),
        "base64": lambda message: base64.b64encode(body_of(message)),
    }[name]
    return lambda message: content(message) + behind


def delimiter_behind(name: str, delimiter: bytes | None) -> bytes:
    """What stands behind each message: `delimiter`, or what the format has."""
    if delimiter is None:
        return b"" if name == "raw" else NEWLINE
    return delimiter


def body_of(message: ReceivedMessage) -> bytes:
    """The body; all of the payload where its attribute is malformed."""
    try:
        return message.body
    except ValueError:
        return message.payload


def _escaped_body(message: ReceivedMessage) -> bytes:
    text = body_of(message).decode("utf-8", "backslashreplace")
    return escaped(text, keep="\n\t").encode()


def to_json(message: ReceivedMessage) -> bytes:
    """One line of JSON, in ASCII, without its newline; numbers of 64 bits are strings,
    for readers that know doubles only. A body that is no UTF-8 is in base64."""
    members: dict[str, Any] = {
        "topic": message.topic,
        "partition": str(message.partition),
        "offset": str(message.offset),
        "next_offset": str(message.next_offset),
        "id": str(message.message_id),
    }
    try:
        members["attribute"] = message.attribute
    except ValueError:
        members["malformed"] = True
    body = body_of(message)
    try:
        members["body"] = body.decode()
    except UnicodeDecodeError:
        members["body_base64"] = base64.b64encode(body).decode()
    return json.dumps(members, separators=(",", ":")).encode()


# -- in -------------------------------------------------------------------------------


def from_json(line: bytes) -> Content:
    """Read what `to_json` writes, or `{"body": ..., "attribute": ..., "key": ...}`.

    Raises BadInput for anything else: unknown members too, as they may be misspelt.
    """
    try:
        members = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise BadInput(f"is no JSON: {error}") from None
    if not isinstance(members, dict):
        raise BadInput("is no JSON object")
    unknown = members.keys() - _OURS - _TOLD_BY_CONSUME
    if unknown:
        raise BadInput(f"has the unknown member {min(unknown)!r}")
    attribute, key = _text(members, "attribute"), _text(members, "key")
    return Content(_json_body(members), attribute, key)


def _json_body(members: dict[str, Any]) -> bytes:
    given = [name for name in ("body", "body_base64") if name in members]
    if len(given) != 1:
        raise BadInput("needs one of body and body_base64")
    text = _text(members, given[0])
    if text is None:
        raise BadInput(f"{given[0]} is no text")
    if given == ["body"]:
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BadInput(f"body_base64 is no base64: {error}") from None


def _text(members: dict[str, Any], name: str) -> str | None:
    found = members.get(name)
    if found is None:
        return None
    if not isinstance(found, str):
        raise BadInput(f"{name} is no text")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{name} has half a surrogate pair, no character") from None
    return found


def with_key(piece: bytes, delimiter: bytes) -> Content:
    """The key is what stands before the first delimiter; none where there is none."""
    before, found, behind = piece.partition(delimiter)
    return Content(behind, key=before) if found else Content(piece)


def transcoded(piece: bytes, encoding: str) -> bytes:
    """Text in some encoding as UTF-8; raises BadInput."""
    try:
        return piece.decode(encoding).encode()
    except UnicodeError:  # where in the piece would make a reason of each piece
        raise BadInput(f"is no {encoding}") from None


# -- options --------------------------------------------------------------------------


def delimiter_of(text: str) -> bytes:
    r"""What an option says, with `\n`, `\r`, `\t`, `\0`, `\\` and `\xNN` (a byte).

    Raises ValueError for an empty one, and for another escape.
    """
    if not text:
        raise ValueError("the delimiter is empty")
    found, last = b"", 0
    for match in _ESCAPE.finditer(text):
        found += text[last : match.start()].encode()
        found += _escape(match[1])
        last = match.end()
    return found + text[last:].encode()


def _escape(code: str) -> bytes:
    if code.startswith("x") and len(code) == 3:
        return bytes.fromhex(code[1:])
    if code not in _ESCAPES:
        raise ValueError(f"\\{code} is no escape; there are \\n \\r \\t \\0 \\\\ \\xNN")
    return _ESCAPES[code].encode()


def check_encoding(name: str) -> None:
    """Raise ValueError for an encoding that is unknown, or that needs more than one
    byte for a newline, so that lines cannot be told by bytes."""
    try:
        if codecs.lookup(name).encode("\n")[0] == NEWLINE:
            return
    except (LookupError, TypeError):
        raise ValueError(f"{name!r} is no encoding") from None
    raise ValueError(
        f"in {name} a newline is not one byte: convert it before, by iconv"
    )
