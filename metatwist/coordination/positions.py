"""A group's place in a log, and lag over several of them: the arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from metatwist.coordination.formats import OffsetRecord, read_offset
from metatwist.coordination.group_view import Lag, OffsetState, Position
from metatwist.coordination.interface import Data
from metatwist.coordination.unreadable import Unreadable


class LogBounds(Protocol):
    """Who knows where the logs of partitions begin and end."""

    def bounds(
        self, broker_id: int, topic: str, partition: int
    ) -> tuple[int, int] | None:
        """First offset kept and end of what consumers may read, in bytes.

        (0, 0) for a partition that never got a message; None where it is not known,
        for instance of another broker. Must not block.
        """


def position_of(data: Data | None, bounds: tuple[int, int] | None) -> Position:
    """The place that an offset node, None if there is none, marks in a log."""
    start, end = bounds or (None, None)
    record = None if data is None else read_offset(data[0])
    if data is None or record is None:
        # Nothing to read is no lag, wherever the consumer would begin.
        lag = 0 if end is not None and start == end else None
        return Position(OffsetState.ABSENT, log_start=start, log_end=end, lag_bytes=lag)
    committed_ms = data[1].mtime
    if isinstance(record, Unreadable):
        return Position(
            OffsetState.UNREADABLE,
            raw=record.text,
            committed_ms=committed_ms,
            log_start=start,
            log_end=end,
        )
    if bounds is None:
        return Position(OffsetState.UNCHECKED, record, committed_ms=committed_ms)
    return _checked(record, committed_ms, bounds)


def _checked(
    record: OffsetRecord, committed_ms: int, bounds: tuple[int, int]
) -> Position:
    start, end = bounds
    state = OffsetState.WITHIN
    lag: int | None = end - record.offset
    skipped = 0
    if record.offset > end:
        state, lag = OffsetState.ABOVE_END, None
    elif record.offset < start:
        state, lag = OffsetState.BELOW_START, end - start
        skipped = start - max(record.offset, 0)
    return Position(
        state=state,
        record=record,
        committed_ms=committed_ms,
        log_start=start,
        log_end=end,
        lag_bytes=lag,
        skipped_bytes=skipped,
    )


def lag_over(positions: Iterable[Position], complete: bool) -> Lag:
    """The sum; `complete` says that no partitions are missing from it."""
    lags = [position.lag_bytes for position in positions]
    known = [lag for lag in lags if lag is not None]
    unknown = len(lags) - len(known)
    total = sum(known) if complete and not unknown else None
    return Lag(total, sum(known), unknown)


def combined(lags: Iterable[Lag]) -> Lag:
    """The sum of sums; its total is None when there is nothing to add up."""
    every = list(lags)
    known = sum(lag.known_bytes for lag in every)
    unsure = not every or any(lag.total_bytes is None for lag in every)
    unknown = sum(lag.unknown_partitions for lag in every)
    return Lag(None if unsure else known, known, unknown)
