"""Message ids that only rise: across messages, restarts and steps of the clock."""

from __future__ import annotations

from collections.abc import Callable

from metatwist.message_times import EPOCH_MS, SEQUENCE_BITS, TIME_SHIFT

SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
_NEXT_MS = 1 << TIME_SHIFT
# In 2079, a year and some before the layout ends.
_TOO_LATE = (1 << 63) - (1 << 57)


class MessageIds:
    """Ids of one broker; layout in `metatwist.message_times`.

    `next` is the id to give next. Whoever gives ids counts it up by one, and calls
    `carry` when the sequence bits have run over to zero. When the clock stands or steps
    back, or a millisecond has no number left, ids are taken from the milliseconds to
    come. `seconds` is the wall clock.
    """

    def __init__(self, broker_id: int, seconds: Callable[[], float]) -> None:
        self._worker = broker_id << SEQUENCE_BITS
        self._seconds = seconds
        self.next = self.follow_clock(self._worker)

    def rise_above(self, message_id: int) -> bool:
        """Never give an id at or below `message_id`, found in a partition.

        False, and nothing done, for an id so late that the bits for time would run out:
        it must be damaged, since no checksum covers it.
        """
        if message_id >= _TOO_LATE:
            return False
        if self.next <= message_id:
            first_of_next_ms = (message_id >> TIME_SHIFT) + 1 << TIME_SHIFT
            self.next = first_of_next_ms | self._worker
        return True

    def follow_clock(self, next_id: int) -> int:
        """The first id of the present, if that is above `next_id`, else `next_id`.

        Once per batch is often enough.
        """
        now_ms = int(self._seconds() * 1000)
        return max(next_id, (now_ms - EPOCH_MS << TIME_SHIFT) | self._worker)

    def carry(self, run_over: int) -> int:
        """The id to give after one whose sequence was the last of its millisecond.

        `run_over` is that id plus one.
        """
        return (run_over - 1 & -_NEXT_MS) + _NEXT_MS | self._worker
