"""Firing what others wait for, whose callbacks may do anything meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

K = TypeVar("K")
V = TypeVar("V")


def taken(waiting: dict[K, V]) -> Iterator[tuple[K, V]]:
    """Take out, one by one, those that wait now. Who leaves because of one that was
    taken out before is not among them, nor is who comes meanwhile."""
    for one in tuple(waiting):
        if one in waiting:
            yield one, waiting.pop(one)


def after(first: Deferred[Any] | None) -> Deferred[None]:
    """Fires when `first` does, well or not, whose result is left as it is; at once for
    None. Cancelling stops the wait alone."""
    waiting: Deferred[None] = Deferred()

    def passed(result: Any) -> Any:
        if not waiting.called:
            waiting.callback(None)
        return result

    if first is None:
        waiting.callback(None)
    else:
        first.addBoth(passed)
    return waiting
