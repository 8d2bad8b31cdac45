"""Counters and histograms, plain integers that cost a put nothing by themselves.

Counted once per batch, read by `stats`, the admin verbs and the metrics export. Topics
are counted by name only when the broker accepts them, so hostile names cost no memory.
"""

from __future__ import annotations

from bisect import bisect_left

from attrs import Factory, define

_LATENCY_BOUNDS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
    0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class Histogram:
    """Durations in seconds by upper bound; the last bucket has none."""

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self) -> None:
        self.bounds_s = _LATENCY_BOUNDS_S
        self.counts = [0] * (len(self.bounds_s) + 1)
        self.sum_s = 0.0

    def observe(self, duration_s: float, count: int = 1) -> None:
        """Count `count` events that took `duration_s` each."""
        self.counts[bisect_left(self.bounds_s, duration_s)] += count
        self.sum_s += duration_s * count

    @property
    def count(self) -> int:
        """Events in all."""
        return sum(self.counts)

    def quantile_s(self, share: float) -> float | None:
        """The bound below which `share` of the events lie; None without events, and
        infinity past the last bound."""
        left = share * self.count
        if not left:
            return None
        for bound, count in zip(
            (*self.bounds_s, float("inf")), self.counts, strict=True
        ):
            left -= count
            if left <= 0:
                return bound
        return float("inf")


@define
class PartitionNumbers:
    """Of one partition since the start of the broker; sizes in bytes of payload for
    what came in, of records for what went out."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    gets: int = 0
    put_failed: int = 0


@define
class TopicNumbers:
    """Of one topic since the start of the broker; the names of `stats realtime`."""

    put: int = 0
    get: int = 0
    offset: int = 0
    get_miss: int = 0
    put_failed: int = 0
    message_size: int = 0
    message_size_bytes: int = 0


@define
class BrokerNumbers:
    """Of the whole broker since its start; the names of `stats` (spec 3.7)."""

    cmd_put: int = 0
    cmd_get: int = 0
    cmd_offset: int = 0
    get_miss: int = 0
    put_failed: int = 0
    get_failed: int = 0
    refused_closed: int = 0
    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    connections: int = 0
    connections_total: int = 0
    connections_refused: int = 0
    protocol_errors: int = 0
    idle_closed: int = 0
    flushes: int = 0
    flush_failed: int = 0
    flush_retries: int = 0
    syncs_under_way: int = 0
    inline_flushes: int = 0
    inline_stalls: int = 0
    write_failed: int = 0
    pending_bytes: int = 0
    waiting_polls: int = 0
    backpressure_pauses: int = 0
    put_latency: Histogram = Factory(Histogram)
    get_latency: Histogram = Factory(Histogram)
    flush_duration: Histogram = Factory(Histogram)
    topics: dict[str, TopicNumbers] = Factory(dict)
    partitions: dict[tuple[str, int], PartitionNumbers] = Factory(dict)

    def topic(self, name: str) -> TopicNumbers:
        """The numbers of an accepted topic, begun on first use."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicNumbers()
        return found

    def partition(self, topic: str, partition: int) -> PartitionNumbers:
        """The numbers of a partition, begun on first use."""
        key = topic, partition
        found = self.partitions.get(key)
        if found is None:
            found = self.partitions[key] = PartitionNumbers()
        return found
