"""Very many durations in little memory: counts in buckets 1.6 % wide."""

from __future__ import annotations

_BITS = 7


class Latencies:
    """Percentiles are the upper ends of their buckets; the maximum is exact. Durations
    are in seconds, kept in whole microseconds."""

    def __init__(self) -> None:
        self.count = 0
        self.longest_s = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, duration_s: float, messages: int = 1) -> None:
        """As many took that long."""
        self.count += messages
        if duration_s > self.longest_s:
            self.longest_s = duration_s
        microseconds = int(duration_s * 1e6)
        shift = max(0, microseconds.bit_length() - _BITS)
        bucket = (shift << _BITS) + (microseconds >> shift)
        buckets = self._buckets
        buckets[bucket] = buckets.get(bucket, 0) + messages

    def percentile_s(self, percent: float) -> float | None:
        """That part of all took at most so long; None when there are none."""
        rank, seen = self.count * percent / 100, 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                return min(_end_s(bucket), self.longest_s)
        return None


def _end_s(bucket: int) -> float:
    shift, step = bucket >> _BITS, bucket & ((1 << _BITS) - 1)
    return ((step + 1) << shift) / 1e6
