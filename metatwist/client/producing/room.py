"""Bounded memory, and what a producer counts."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

ENVELOPE_BYTES = 704
"""What a message costs beside its payload, so that very many small ones are bounded as
well: 64 MiB hold at most 95,325, fewer than a connection may have unanswered."""


class Counters:
    """Of one producer since it was made; plain numbers, to be read at any time.

    Attributes:
        sent: puts handed to a connection, retries too.
        stored: messages that a broker said it has stored.
        failed: messages that ended with an error.
        retried: puts after the first of a message.
        cancelled: messages whose sender stopped waiting before they were sent.
        dropped: one-way messages that failed.
    """

    __slots__ = ("cancelled", "dropped", "failed", "retried", "sent", "stored")

    def __init__(self) -> None:
        self.sent = 0
        self.stored = 0
        self.failed = 0
        self.retried = 0
        self.cancelled = 0
        self.dropped = 0


class Guest(Protocol):
    """Whoever waits for room."""

    @property
    def size_bytes(self) -> int:
        """How much it needs."""

    def enter(self) -> None:
        """The room is now taken on its behalf."""


class Room:
    """`used` of `most` bytes. Who does not fit waits, first come first served; the one
    that is alone always fits."""

    __slots__ = ("_letting_in", "most", "used", "waiting")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self.waiting: OrderedDict[Guest, None] = OrderedDict()
        self._letting_in = False

    def fits(self, size_bytes: int) -> bool:
        """Whether that much can be taken at once."""
        if self.waiting:
            return False
        return not self.used or self.used + size_bytes <= self.most

    def let_in(self) -> None:
        """Whoever fits now; to be called when `used` has become less."""
        if self.waiting and not self._letting_in:
            self._letting_in = True
            try:
                self._let_in()
            finally:
                self._letting_in = False

    def _let_in(self) -> None:
        waiting = self.waiting
        while waiting:
            guest = next(iter(waiting))
            if self.used and self.used + guest.size_bytes > self.most:
                return
            del waiting[guest]
            self.used += guest.size_bytes
            guest.enter()
