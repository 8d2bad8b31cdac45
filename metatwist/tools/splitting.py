"""Cuts a stream of bytes at a delimiter, in bounded memory."""

from __future__ import annotations


class Splitter:
    """Takes chunks, gives pieces; None stands for a piece of more than `most_bytes`.

    Only the delimiter is cut away, so that a carriage return before a newline is part
    of the piece. What stands behind the last delimiter is a piece too, unless empty.
    """

    def __init__(self, delimiter: bytes, most_bytes: int) -> None:
        self._delimiter = delimiter
        self._most_bytes = most_bytes
        self._rest = bytearray()
        self._too_long = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """The pieces that end in this chunk."""
        rest = self._rest
        searched = max(0, len(rest) - len(self._delimiter) + 1)
        rest += chunk
        if rest.find(self._delimiter, searched) < 0:
            self._bound()
            return []
        *parts, last = bytes(rest).split(self._delimiter)
        pieces: list[bytes | None] = [
            part if len(part) <= self._most_bytes else None for part in parts
        ]
        if self._too_long:
            pieces[0], self._too_long = None, False
        self._rest = bytearray(last)
        self._bound()
        return pieces

    def _bound(self) -> None:
        """Of what is too large only that is kept with which a delimiter may begin."""
        if len(self._rest) > self._most_bytes:
            self._too_long = True
        if self._too_long:
            kept = len(self._delimiter) - 1
            del self._rest[: max(0, len(self._rest) - kept)]

    def end(self) -> list[bytes | None]:
        """The last piece."""
        rest, self._rest = bytes(self._rest), bytearray()
        if self._too_long:
            self._too_long = False
            return [None]
        return [rest] if rest else []
