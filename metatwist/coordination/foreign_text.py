"""Text that others wrote, fit to be shown: it comes from znodes and from servers.

Whoever can write in the tree must not steer a terminal, break a line of the log, or
fill it.
"""

from __future__ import annotations

MOST_CHARACTERS = 100


def escaped(text: str, keep: str = "") -> str:
    """The text with what cannot be printed, but for the characters in `keep`, as
    `\\x1b`, `\\n`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in keep else ascii(one)[1:-1] for one in text
    )


def shown(text: str | bytes, most: int = MOST_CHARACTERS) -> str:
    """The text, escaped and cut to that many characters, then with `...` behind it;
    bytes that are no UTF-8 read as `\\xNN`."""
    if isinstance(text, bytes):
        # Four bytes a character at most; the rest is not even looked at.
        start = text[: 4 * (most + 1)].decode("utf-8", "backslashreplace")
    else:
        start = text[: most + 1]
    found = escaped(start)
    return found if len(found) <= most else f"{found[:most]}..."
