"""What all partitions of one consumer share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from metatwist.client.events import Event
from metatwist.client.interfaces import IBrokers, IDiscovery
from metatwist.client.reading.budget import PrefetchBudget
from metatwist.client.settings import FetchSettings, Start


@frozen
class ReadingContext:
    """For the feeds of one consumer.

    Attributes:
        clock: the reactor, or a `Clock`.
        start: where a partition without a stored offset begins.
        out_of_range: where to go on from a position that is not kept.
        tell: gets each event, at once; never raises.
    """

    group: str
    clock: Any
    brokers: IBrokers
    discovery: IDiscovery
    settings: FetchSettings
    budget: PrefetchBudget
    start: Start | int
    out_of_range: Start
    tell: Callable[[Event], object]
