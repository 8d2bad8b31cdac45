"""The text forms of transaction keys (spec wire-protocol 1.6)."""

from __future__ import annotations

import re

from metatwist.errors import ProtocolViolation

NULL_KEY = "null"
_LOCAL = re.compile(r"TX:([^:]*):([-+]?[0-9]{1,64}):*", re.ASCII)
_XA = re.compile(
    r"XID:([-+]?[0-9]{1,64}):([0-9a-fA-F]*):([0-9a-fA-F]*):([^:]*)", re.ASCII
)


def check_key(text: str) -> str:
    """The canonical text of a key; ProtocolViolation when it is none.

    Hex comes back in lower case and without an odd last digit, as it is reported.
    """
    if text == NULL_KEY:
        return text
    if local := _LOCAL.fullmatch(text):
        session, number = local[1], int(local[2])
        return f"TX:{session}:{_fits(number, text)}"
    if xa := _XA.fullmatch(text):
        gtrid, bqual = (_pairs(xa[group]) for group in (2, 3))
        return f"XID:{_fits(int(xa[1]), text)}:{gtrid}:{bqual}:{xa[4]}"
    raise ProtocolViolation(f"not a transaction key: {text[:80]!r}")


def _pairs(digits: str) -> str:
    return digits[: len(digits) & ~1].lower()


def _fits(number: int, text: str) -> int:
    if not -(1 << 31) <= number < 1 << 31:
        raise ProtocolViolation(f"number out of range in {text[:80]!r}")
    return number
