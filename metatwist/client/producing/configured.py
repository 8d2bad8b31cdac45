"""What is configured for ordered topics (spec client 2.1 and 8)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from metatwist.client.checked import not_negative, seconds
from metatwist.client.local_store import StoreLimits
from metatwist.client.settings import ProducerSettings
from metatwist.coordination.names import PartitionName, producer_order

_ENTRY = re.compile(r"(\d{1,10}):(\d{1,9})")

Configured = Mapping[str, "Mapping[int, int] | str"]
"""For each topic the number of partitions by broker id, or the original's text for
that: `<broker id>:<count>;<broker id>:<count>`."""


def configured_partitions(configured: Configured) -> dict[str, list[PartitionName]]:
    """The partitions of each topic, in the producer's order; raises ValueError."""
    return {topic: _partitions(topic, its) for topic, its in configured.items()}


def _partitions(topic: str, configured: Mapping[int, int] | str) -> list[PartitionName]:
    counts = _read(topic, configured) if isinstance(configured, str) else configured
    if not counts:
        raise ValueError(f"topic {topic}: no partitions are configured")
    for broker_id, count in counts.items():
        if broker_id < 0 or count <= 0:
            pair = f"{broker_id}:{count}"
            raise ValueError(f"topic {topic}: {pair} is no <broker id>:<count>")
    return producer_order(
        PartitionName(broker_id, number)
        for broker_id, count in counts.items()
        for number in range(count)
    )


def _read(topic: str, text: str) -> dict[int, int]:
    counts: dict[int, int] = {}
    for entry in text.split(";"):
        if not entry.strip():
            continue
        found = _ENTRY.fullmatch(entry.strip())
        if found is None:
            raise ValueError(f"topic {topic}: {entry!r} is no <broker id>:<count>")
        broker_id = int(found[1])
        if broker_id in counts:
            raise ValueError(f"topic {topic}: broker {broker_id} is there twice")
        counts[broker_id] = int(found[2])
    return counts


@frozen
class OrderedSettings:
    """How ordered messages are parked.

    Attributes:
        partitions: of each topic, as configured: counts by broker id, or the original's
            text `<broker id>:<count>;<broker id>:<count>`. Raises ValueError.
        path: of the local store, one file.
        producer: how single puts are made; its `retries` and `may_duplicate` are not
            used, as parked messages are what is sent again.
        limits: the most that is parked.
        park_when_failed: also park after failures other than a refusal for now
            (`meta.ordered.saveToLocalWhenFailed`); one whose outcome is unknown may
            then be stored twice.
        resend_period_s: between tries to resend what is parked, beside those that a
            connection or a new message brings about. The original's 300 s is long for
            a partition that was closed for a moment.
        few: with at most as many parked messages left ...
        most_wait_s: ... a new one waits that long for them before it is parked.
        most_connect_s: the first messages of a topic wait that long for a broker to be
            connected before they are parked.
    """

    partitions: dict[str, list[PartitionName]] = field(converter=configured_partitions)
    path: Path = field(converter=Path)
    producer: ProducerSettings = field(factory=ProducerSettings)
    limits: StoreLimits = field(factory=StoreLimits)
    park_when_failed: bool = False
    resend_period_s: float = seconds(30)
    few: int = field(default=20, validator=not_negative)
    most_wait_s: float = field(default=0.3, validator=not_negative)
    most_connect_s: float = field(default=3, validator=not_negative)
