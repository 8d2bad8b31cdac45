"""Message ids and the wall clock: the 64-bit layout shared by all of the package.

`id = (ms since EPOCH_MS) << 22 | broker id << 12 | sequence` (spec wire-protocol 2.4).
"""

from __future__ import annotations

EPOCH_MS = 1303895660503
SEQUENCE_BITS = 12
WORKER_BITS = 10
TIME_SHIFT = SEQUENCE_BITS + WORKER_BITS


def time_ms_of(message_id: int) -> int:
    """Milliseconds since 1970 in an id; before `EPOCH_MS` for ids of a Java broker,
    which counts from the start of its host."""
    return (message_id >> TIME_SHIFT) + EPOCH_MS


def last_id_of(time_ms: int) -> int:
    """The highest id that any broker gives in a millisecond since 1970."""
    return (time_ms - EPOCH_MS + 1 << TIME_SHIFT) - 1


def is_wall_clock(message_id: int) -> bool:
    """True for ids that carry wall-clock time; those of a Java broker are negative."""
    return message_id > 0
