"""What a parser answers for a value that it cannot read.

A tree is written by many programs over many years: one bad node must not hide the
others from whoever scans them, so it is a value and no exception.
"""

from __future__ import annotations

from attrs import frozen

MOST_CHARACTERS = 200


@frozen
class Unreadable:
    """The text of a node, cut to 200 characters, and why it means nothing.

    Bytes that are no UTF-8 read as `\\xNN`.
    """

    text: str
    reason: str

    @classmethod
    def of(cls, data: bytes, reason: str) -> Unreadable:
        """The answer for the data of a node."""
        start = data[: 4 * MOST_CHARACTERS].decode("utf-8", "backslashreplace")
        return cls(start[:MOST_CHARACTERS], reason)


def text_of(data: bytes) -> str | Unreadable | None:
    """The text of a node, None when it is blank: absent and blank mean the same (spec
    layout 2)."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return Unreadable.of(data, "is not UTF-8")
    return text if text.strip() else None
