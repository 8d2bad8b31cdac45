"""Which partition a message goes to (spec client 5.3).

A selector is any callable `(topic, partitions, message) -> partition`. It is offered
the partitions of connected brokers alone, so that one that is registered but cannot be
reached gets nothing (spec client W23, W24). One that must see the same list every time,
because it maps keys to partitions, says so with an attribute `stable = True`: messages
with a key are then selected from all registered partitions, and wait for the broker of
the one selected.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from zlib import crc32

from metatwist.client.errors import NoPartition, SelectorFailed, Where
from metatwist.client.message import Message
from metatwist.coordination.names import PartitionName

Selector = Callable[[str, Sequence[PartitionName], Message], PartitionName | None]
"""Answers one of the partitions, of which there is at least one, or None for "none of
these will do". `topic` is the one whose partitions are offered; it is the message's
unless a default topic lends its brokers."""

_MASK = 2**31 - 1


def select(
    selector: Selector,
    topic: str,
    partitions: Sequence[PartitionName],
    message: Message,
) -> PartitionName:
    """What the user's selector picks; raises SelectorFailed, and NoPartition when it
    answers None."""
    try:
        picked = selector(topic, partitions, message)
    except Exception as error:
        where = Where(topic=message.topic)
        raise SelectorFailed(f"the selector raised {error!r}", where) from error
    if isinstance(picked, PartitionName):
        return picked
    where = Where(topic=message.topic)
    if picked is None:
        raise NoPartition("the selector found none", where)
    raise SelectorFailed(f"the selector answered {picked!r}, no partition", where)


class RoundRobin:
    """One after the other, by one counter for all topics; the first pick is the one
    with index 1, as ever (spec client 5.3)."""

    stable = False

    def __init__(self, count: int = 0) -> None:
        self._count = count

    def __call__(
        self, topic: str, partitions: Sequence[PartitionName], message: Message
    ) -> PartitionName:
        """The next one."""
        self._count = count = (self._count + 1) & _MASK
        return partitions[count % len(partitions)]


class RandomChoice:
    """Any, each equally likely."""

    stable = False

    def __init__(self, source: random.Random | None = None) -> None:
        self._choice = (source or random.Random()).choice

    def __call__(
        self, topic: str, partitions: Sequence[PartitionName], message: Message
    ) -> PartitionName:
        """One at random."""
        return self._choice(partitions)


class ByKey:
    """The same partition for the same key, as long as the list stays the same.

    The index is the CRC-32 of the key (text as UTF-8) modulo the number of partitions,
    in the producer's order. Messages without a key go round robin.
    """

    stable = True

    def __init__(self) -> None:
        self._keyless = RoundRobin()

    def __call__(
        self, topic: str, partitions: Sequence[PartitionName], message: Message
    ) -> PartitionName:
        """By the message's key."""
        key = message.key
        if key is None:
            return self._keyless(topic, partitions, message)
        data = key.encode() if isinstance(key, str) else key
        return partitions[crc32(data) % len(partitions)]
