"""The numbers in Prometheus' text format, collected when asked for."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from metatwist.broker.coordination_metrics import CoordinationMetrics, gauge
from metatwist.broker.numbers import BrokerNumbers, Histogram
from metatwist.broker.topics import Topics

_COUNTERS = {
    "cmd_put": "put commands received",
    "cmd_get": "get commands received",
    "cmd_offset": "offset commands received, and gets answered 301",
    "get_miss": "gets that found nothing",
    "put_failed": "puts answered 500",
    "get_failed": "gets answered 500",
    "refused_closed": "puts to closed partitions",
    "connections_total": "connections accepted",
    "connections_refused": "connections over the limit",
    "protocol_errors": "connections closed for breaking the protocol",
    "idle_closed": "connections closed for silence",
    "flushes": "fsyncs of partitions",
    "flush_failed": "fsyncs that failed",
    "flush_retries": "fsyncs put off for want of a descriptor",
    "inline_flushes": "fsyncs on the reactor's thread",
    "inline_stalls": "slow ones among these",
    "write_failed": "batches that could not be written",
    "backpressure_pauses": "times a connection was held back for the disk",
}
_PARTITION_COUNTERS = {
    "messages_in": "messages stored",
    "bytes_in": "payload bytes stored",
    "bytes_out": "bytes of records sent to consumers",
    "gets": "gets answered with records",
    "put_failed": "puts answered 500",
}
_LABELS = ("topic", "partition")


class BrokerCollector:
    """What a Prometheus registry asks; reads the broker's own numbers."""

    def __init__(
        self,
        numbers: BrokerNumbers,
        topics: Topics,
        coordination: CoordinationMetrics | None = None,
    ) -> None:
        self._numbers = numbers
        self._topics = topics
        self._coordination = coordination or CoordinationMetrics()

    def text(self) -> str:
        """All metrics in the text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry).decode()

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        numbers = self._numbers
        for name, text in _COUNTERS.items():
            metric = CounterMetricFamily(f"metatwist_{name}", text)
            metric.add_metric([], getattr(numbers, name))
            yield metric
        yield gauge("connections", "open connections", numbers.connections)
        yield gauge("pending_bytes", "memory of puts that wait", numbers.pending_bytes)
        yield gauge("waiting_polls", "polls that wait for data", numbers.waiting_polls)
        yield _histogram("put_latency", "from arrival to answer", numbers.put_latency)
        yield _histogram("get_latency", "time to answer a get", numbers.get_latency)
        yield _histogram("flush_duration", "one fsync", numbers.flush_duration)
        yield from self._coordination.collect()
        yield from self._partitions()

    def _partitions(self) -> Iterator[Metric]:
        counted = self._numbers.partitions
        for name, text in _PARTITION_COUNTERS.items():
            metric = CounterMetricFamily(
                f"metatwist_partition_{name}", text, labels=_LABELS
            )
            for (topic, partition), found in counted.items():
                metric.add_metric([topic, str(partition)], getattr(found, name))
            yield metric
        gauges = {
            "start_offset": "lowest offset kept",
            "readable_end": "what consumers see",
            "unsynced_bytes": "written, not known to be on disk",
            "failed": "1 when puts are refused until a restart",
        }
        families = {
            name: GaugeMetricFamily(f"metatwist_partition_{name}", text, labels=_LABELS)
            for name, text in gauges.items()
        }
        for (topic, partition), log in self._topics.catalog.logs.items():
            labels = [topic, str(partition)]
            families["start_offset"].add_metric(labels, log.start)
            families["readable_end"].add_metric(labels, log.readable_end)
            families["unsynced_bytes"].add_metric(labels, log.unsynced_bytes)
            families["failed"].add_metric(labels, float(log.failure is not None))
        yield from families.values()


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    buckets, below = [], 0
    bounds = [*(str(bound) for bound in histogram.bounds_s), "+Inf"]
    for bound, count in zip(bounds, histogram.counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    metric = HistogramMetricFamily(f"metatwist_{name}_seconds", text)
    metric.add_metric([], buckets=buckets, sum_value=histogram.sum_s)
    return metric
