"""Who gets which partitions of a topic (spec client 10.4): arithmetic that all members
of a group, Java ones too, must do alike."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import md5
from itertools import chain
from struct import unpack

from metatwist.client.settings import Strategy
from metatwist.coordination.names import PartitionName, consumer_order, string_order

ROUNDS_A_MEMBER = 40
_RINGS_KEPT = 64

Share = Callable[
    [str, Iterable[str], Iterable[PartitionName]], tuple[PartitionName, ...]
]
"""(me, members, partitions) to what is mine of them, in the consumers' order. Order
and repetitions of what goes in do not matter; who is no member gets nothing."""


def default_share(
    me: str, members: Iterable[str], partitions: Iterable[PartitionName]
) -> tuple[PartitionName, ...]:
    """A slice of the sorted partitions; the first members get one more if it does not
    come out even."""
    among = string_order(set(members))
    if me not in among:
        return ()
    ordered = consumer_order(set(partitions))
    mine = among.index(me)
    each, over = divmod(len(ordered), len(among))
    start = each * mine + min(mine, over)
    return tuple(ordered[start : start + each + (mine < over)])


def consistent_share(
    me: str, members: Iterable[str], partitions: Iterable[PartitionName]
) -> tuple[PartitionName, ...]:
    """What lies on my parts of a ring, so that few partitions move with a member."""
    points, owners = _ring(frozenset(members))
    if not points:
        return ()

    def owner(partition: PartitionName) -> str:
        found = bisect_left(points, ring_hash(str(partition)))
        return owners[found % len(points)]

    ordered = consumer_order(set(partitions))
    return tuple(partition for partition in ordered if owner(partition) == me)


def ring_hash(text: str) -> int:
    """Where a text lies on the ring, 0 to 2**32 - 1."""
    return _quarters(text)[0]


_SHARES: dict[Strategy, Share] = {
    Strategy.DEFAULT: default_share,
    Strategy.CONSISTENT_HASH: consistent_share,
}


def share_by(strategy: Strategy) -> Share:
    """The arithmetic of a strategy."""
    return _SHARES[strategy]


@lru_cache(_RINGS_KEPT)
def _ring(members: frozenset[str]) -> tuple[list[int], list[str]]:
    """Its points, rising, and the member that each belongs to."""
    ring: dict[int, str] = {}
    for member in string_order(members):  # where two meet, the later one wins
        rounds = (_quarters(f"{member}-{number}") for number in range(ROUNDS_A_MEMBER))
        ring.update(dict.fromkeys(chain.from_iterable(rounds), member))
    points = sorted(ring)
    return points, [ring[point] for point in points]


def _quarters(text: str) -> tuple[int, int, int, int]:
    digest = md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    first, second, third, fourth = unpack("<4I", digest)
    return first, second, third, fourth
