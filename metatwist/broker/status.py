"""The state of the broker as a JSON value: for `status`, `recovery`, later pages."""

from __future__ import annotations

import os
from typing import Any

from attrs import asdict

from metatwist import __version__
from metatwist.broker.commit import CommitQueue
from metatwist.broker.numbers import BrokerNumbers, Histogram
from metatwist.broker.registrar import Registrar
from metatwist.broker.registration_view import RegistrationView
from metatwist.broker.stats import Stats
from metatwist.broker.storage.recovery import RecoveryReport
from metatwist.broker.topics import Topics


class Status:
    """Reads; changes nothing."""

    def __init__(
        self,
        topics: Topics,
        numbers: BrokerNumbers,
        stats: Stats,
        registrar: Registrar | None = None,
    ) -> None:
        self._topics = topics
        self._numbers = numbers
        self._stats = stats
        self._registrar = registrar

    def status(self) -> dict[str, Any]:
        """Everything an operator looks for first; sizes in bytes, times in seconds."""
        topics, numbers = self._topics, self._numbers
        partitions = [self._partition(queue) for queue in topics.queues.values()]
        failed = {
            f"{name}-{number}": why
            for (name, number), why in topics.catalog.failed.items()
        }
        failed |= {one["name"]: one["failure"] for one in partitions if one["failure"]}
        view = RegistrationView() if self._registrar is None else self._registrar.view()
        return {
            "version": __version__,
            "pid": os.getpid(),
            "broker_id": topics.settings.broker_id,
            "uptime_s": self._stats.uptime_s,
            "connections": numbers.connections,
            "unsynced_bytes": sum(one["unsynced_bytes"] for one in partitions),
            "pending_bytes": numbers.pending_bytes,
            "failed": failed,
            "closed": [f"{name}-{number}" for name, number in sorted(topics.closed)],
            "warnings": [*topics.settings.warnings, *view.warnings],
            "coordination": asdict(view),
            "numbers": self._counters(),
            "latency": {
                "put": _quantiles(numbers.put_latency),
                "get": _quantiles(numbers.get_latency),
                "flush": _quantiles(numbers.flush_duration),
            },
            "partitions": partitions,
        }

    def _partition(self, queue: CommitQueue) -> dict[str, Any]:
        log = queue.log
        return {
            "name": queue.name,
            "mode": "group commit" if queue.group_commit else "direct",
            "start": log.start,
            "log_end": log.log_end,
            "durable_end": log.durable_end,
            "readable_end": log.readable_end,
            "messages": log.messages,
            "segments": len(log.segments),
            "unsynced_bytes": log.unsynced_bytes,
            "failure": log.failure,
        }

    def _counters(self) -> dict[str, int]:
        plain = asdict(self._numbers, recurse=False)
        return {name: value for name, value in plain.items() if isinstance(value, int)}

    def recovery(self) -> dict[str, Any]:
        """`summary`, and in `partitions` a row for each one with something to report.

        `cut_at` is None where nothing was cut; one that is not `usable` could not be
        loaded, its reason is the last of its `problems`.
        """
        catalog = self._topics.catalog
        reports = catalog.reports
        summary = {
            "partitions": len(reports),
            "clean": sum(report.clean for report in reports),
            "scanned_bytes": sum(report.scanned_bytes for report in reports),
            "problems": catalog.problems,
        }
        notable = [
            _row(report, usable=True)
            for report in reports
            if report.cut_bytes or report.bad or report.problems
        ]
        failed = [
            _row(RecoveryReport(f"{topic}-{number}", problems=[reason]), usable=False)
            for (topic, number), reason in catalog.failed.items()
        ]
        return {"summary": summary, "partitions": [*notable, *failed]}


def _row(report: RecoveryReport, usable: bool) -> dict[str, Any]:
    cut_at = report.cut_at if report.cut_bytes else None
    return asdict(report) | {"cut_at": cut_at, "usable": usable}


def _quantiles(histogram: Histogram) -> dict[str, Any]:
    """Upper bounds in seconds of the median and the slow tail; None without events."""
    shares = {"p50_s": 0.5, "p99_s": 0.99, "p999_s": 0.999}
    found = {name: histogram.quantile_s(share) for name, share in shares.items()}
    tail = {name: value for name, value in found.items() if value != float("inf")}
    return {"count": histogram.count, **dict.fromkeys(shares), **tail}
