"""Message ids that only rise: across messages, restarts and steps of the clock."""

from __future__ import annotations

from collections.abc import Callable

from metatwist.message_times import EPOCH_MS, SEQUENCE_BITS, TIME_SHIFT

_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
_NEXT_MS = 1 << TIME_SHIFT


class MessageIds:
    """Ids of one broker; layout in `metatwist.message_times`.

    When the clock stands or steps back, or a millisecond has no number left, ids are
    taken from the milliseconds to come. `seconds` is the wall clock.
    """

    def __init__(self, broker_id: int, seconds: Callable[[], float]) -> None:
        self._worker = broker_id << SEQUENCE_BITS
        self._seconds = seconds
        self._next = self._worker
        self.follow_clock()

    def rise_above(self, message_id: int) -> None:
        """Never give an id at or below `message_id`, found in a partition."""
        if self._next <= message_id:
            first_of_next_ms = (message_id >> TIME_SHIFT) + 1 << TIME_SHIFT
            self._next = first_of_next_ms | self._worker

    def follow_clock(self) -> None:
        """Move to the present, if that is forward; once per batch is enough."""
        now_ms = int(self._seconds() * 1000)
        first = (now_ms - EPOCH_MS << TIME_SHIFT) | self._worker
        if first > self._next:
            self._next = first

    def take(self) -> int:
        """The next id."""
        message_id = self._next
        if message_id & _SEQUENCE_MASK == _SEQUENCE_MASK:
            self._next = (message_id & ~_SEQUENCE_MASK) + _NEXT_MS
        else:
            self._next = message_id + 1
        return message_id
