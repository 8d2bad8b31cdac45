"""How much waits for the disk, and who must stop reading because of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from metatwist.broker.commit import CommitQueue
from metatwist.broker.numbers import BrokerNumbers


class IPausable(Protocol):
    """A connection that can be told to stop reading."""

    def disk_caught_up(self) -> None:
        """Read again."""

    def memory_is_short(self) -> None:
        """Stop reading, in the middle of a large message."""

    def memory_is_there(self) -> None:
        """Go on reading."""


class DiskPressure:
    """Bounds the memory of puts that wait, over the whole broker.

    Exact at the end of each turn; within a turn, what was received counts in full.
    Nobody needs to ask while `turn_bytes` is not above `room_bytes`.
    """

    def __init__(self, limit_bytes: Callable[[], int], numbers: BrokerNumbers) -> None:
        self._limit_bytes = limit_bytes
        self._numbers = numbers
        self._paused: set[IPausable] = set()
        self._unfinished: dict[IPausable, int] = {}
        self._waiting_bytes = 0
        self.turn_bytes = 0
        self.room_bytes = 0

    def too_much_waits(self, connection: IPausable) -> bool:
        """True when the connection must pause until its `disk_caught_up`."""
        if self._waiting_bytes + self.turn_bytes <= self._limit_bytes():
            return False
        if connection not in self._paused:
            self._numbers.backpressure_pauses += 1
            self._paused.add(connection)
        return True

    def turn_ended(self, busy: Iterable[CommitQueue]) -> None:
        """Count anew over the queues that are not idle; resume when half is gone."""
        waiting_bytes, limit_bytes = 0, self._limit_bytes()
        for queue in busy:
            waiting_bytes += queue.waiting_bytes
        self.turn_bytes = 0
        self.room_bytes = limit_bytes - waiting_bytes
        self._waiting_bytes = self._numbers.pending_bytes = waiting_bytes
        if self._paused and waiting_bytes <= limit_bytes // 2:
            paused, self._paused = self._paused, set()
            for connection in paused:
                connection.disk_caught_up()

    def unfinished(self, connection: IPausable, size: int) -> None:
        """So many bytes of a large message have come; 0 when it is whole.

        Past the bound only the oldest goes on, so that some message is always finished.
        """
        if not size:
            if self._unfinished.pop(connection, 0):
                self._let_go_on()
            return
        self._unfinished[connection] = size
        over = sum(self._unfinished.values()) > self._limit_bytes()
        if over and next(iter(self._unfinished)) is not connection:
            connection.memory_is_short()

    def _let_go_on(self) -> None:
        total_bytes, limit_bytes = 0, self._limit_bytes()
        for at, (connection, size) in enumerate(list(self._unfinished.items())):
            total_bytes += size
            if not at or total_bytes <= limit_bytes // 2:
                connection.memory_is_there()

    def forget(self, connection: IPausable) -> None:
        """The connection has ended."""
        self._paused.discard(connection)
        self.unfinished(connection, 0)
