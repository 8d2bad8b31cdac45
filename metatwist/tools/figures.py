"""What a measurement has found, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import define, field

from metatwist.tools.latencies import Latencies

MIB = 1 << 20
_PERCENTS = (50, 95, 99, 99.9)
_MOST_REASONS = 10


@define
class Figures:
    """Of `messages` and their bodies, in `duration_s` seconds."""

    messages: int = 0
    size_bytes: int = 0
    duration_s: float = 0.0

    def members(self) -> dict[str, float | int | None]:
        """By name; rates are None where no time has passed."""
        rate = self.messages / self.duration_s if self.duration_s > 0 else None
        mib = self.size_bytes / MIB / self.duration_s if self.duration_s > 0 else None
        return {
            "messages": self.messages,
            "bytes": self.size_bytes,
            "seconds": round(self.duration_s, 3),
            "messages_per_s": None if rate is None else round(rate, 1),
            "mib_per_s": None if mib is None else round(mib, 2),
        }

    def as_json(self) -> str:
        """One line."""
        return json.dumps(self.members())

    def as_text(self) -> str:
        """A line for people."""
        found = self.members()
        return (
            f"{found['messages']} messages in {found['seconds']} s, "
            f"{_or_unknown(found['messages_per_s'])} messages/s, "
            f"{_or_unknown(found['mib_per_s'])} MiB/s"
        )


@define
class ConsumeFigures(Figures):
    """Of what was read; payloads with their attributes count."""


@define
class ProduceFigures:
    """Of what was sent.

    Attributes:
        body_bytes: of each message.
        latencies: of those that were stored, from the call to the answer.
        failures: how many were not, by reason.
    """

    body_bytes: int
    duration_s: float = 0.0
    latencies: Latencies = field(factory=Latencies)
    failures: dict[str, int] = field(factory=dict)

    def failed(self, reason: str) -> None:
        """One was not stored."""
        if reason not in self.failures and len(self.failures) >= _MOST_REASONS:
            reason = "other reasons"
        self.failures[reason] = self.failures.get(reason, 0) + 1

    @property
    def _stored(self) -> Figures:
        count = self.latencies.count
        return Figures(count, count * self.body_bytes, self.duration_s)

    def _latencies_ms(self) -> Mapping[str, float | None]:
        found = {
            f"p{percent:g}": _ms(self.latencies.percentile_s(percent))
            for percent in _PERCENTS
        }
        longest_s = self.latencies.longest_s if self.latencies.count else None
        return {**found, "max": _ms(longest_s)}

    def as_json(self) -> str:
        """One line."""
        failed = sum(self.failures.values())
        found = {**self._stored.members(), "failed": failed}
        return json.dumps({**found, "latency_ms": self._latencies_ms()})

    def as_text(self) -> str:
        """Two lines for people."""
        spans = [
            f"{name} {_or_unknown(duration)}"
            for name, duration in self._latencies_ms().items()
        ]
        return f"{self._stored.as_text()}\nlatency in ms: {', '.join(spans)}"


def _ms(duration_s: float | None) -> float | None:
    return None if duration_s is None else round(duration_s * 1000, 3)


def _or_unknown(figure: float | None) -> str:
    return (
        "?" if figure is None else f"{figure:g}" if figure < 1000 else f"{figure:,.0f}"
    )
