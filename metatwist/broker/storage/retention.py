"""Which segments of a partition have outlived its limits (spec storage 13.2).

Pure decisions over values: no file, no clock. Segments leave from the front only, so
that a file whose time was touched can never open a hole in the middle (D-12), and the
segment that is written to always stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from attrs import frozen


class RemovalReason(Enum):
    """The limit that a segment has passed; the value is the word for log lines."""

    AGE = "age"
    SIZE = "size"


@frozen
class SegmentAge:
    """What retention knows of one segment.

    `start` is its absolute offset in bytes, `modified_s` its file's modification time
    in seconds since the epoch, and `sealed` says that nothing will be added to it.
    """

    start: int
    size_bytes: int
    modified_s: float
    sealed: bool


@frozen
class RetentionLimits:
    """How long and how much a partition keeps.

    A segment stays for `max_age_s` seconds after its last write. `retention_bytes`
    bounds the partition, the segment being written included; 0 is no bound.
    """

    max_age_s: int
    retention_bytes: int = 0


@frozen
class Removal:
    """One segment to remove, and the limit it has passed."""

    segment: SegmentAge
    reason: RemovalReason


def expired(segments: Sequence[SegmentAge], max_age_s: int, now_s: float) -> int:
    """Count the segments at the front that are strictly older than `max_age_s`."""
    count = 0
    for segment in _removable_front(segments):
        if now_s - segment.modified_s <= max_age_s:
            break
        count += 1
    return count


def oversized(segments: Sequence[SegmentAge], retention_bytes: int) -> int:
    """Count the segments at the front to drop so that the rest fits the bound.

    The last segment stays even when it alone is larger. 0 or less is no bound.
    """
    if retention_bytes <= 0:
        return 0
    excess_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in _removable_front(segments):
        if excess_bytes <= 0:
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count


def removable(
    segments: Sequence[SegmentAge], limits: RetentionLimits, now_s: float
) -> tuple[Removal, ...]:
    """List the segments to remove, oldest first, each with its reason.

    One that has passed both limits is named for its age.
    """
    by_age = expired(segments, limits.max_age_s, now_s)
    by_size = oversized(segments, limits.retention_bytes)
    return tuple(
        Removal(segment, RemovalReason.AGE if index < by_age else RemovalReason.SIZE)
        for index, segment in enumerate(segments[: max(by_age, by_size)])
    )


def _removable_front(segments: Sequence[SegmentAge]) -> Sequence[SegmentAge]:
    """Return the sealed run at the front, never with the last segment."""
    for index, segment in enumerate(segments[:-1]):
        if not segment.sealed:
            return segments[:index]
    return segments[:-1]
