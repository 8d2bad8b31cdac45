"""What was read of znodes, kept for as long as its watch is silent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from attrs import define
from twisted.internet.defer import Deferred

from metatwist.client.bounded import drop
from metatwist.coordination.interface import ICoordinator

Key = tuple[str, bool]
"""A path, and whether its children are meant."""


@define(eq=False)
class Known:
    """What was read: a node's data or the names of its children, None without it."""

    value: Any
    watch: Deferred[Any]


K = TypeVar("K", bound=Known)


class KnownNodes(Generic[K]):
    """`changed` is called with the key of what is not known any more: it has changed,
    or the session ended."""

    def __init__(self, changed: Callable[[Key], object]) -> None:
        self._changed = changed
        self._known: dict[Key, K] = {}
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Before a read: what `keep` wants to know after it."""
        return self._epoch

    def get(self, key: Key) -> K | None:
        """What is known."""
        return self._known.get(key)

    def items(self) -> list[tuple[Key, K]]:
        """All that is known."""
        return list(self._known.items())

    def keep(self, key: Key, known: K, epoch: int) -> None:
        """This was read; not kept if all was forgotten since it was asked for."""
        if epoch != self._epoch:
            drop(known.watch)
            return
        self.forget((key,))
        self._known[key] = known
        known.watch.addBoth(self._fired, key, known)

    def forget(self, keys: Iterable[Key]) -> None:
        """Neither know nor watch these any more."""
        for key in keys:
            known = self._known.pop(key, None)
            if known is not None:
                known.watch.cancel()

    def forget_all(self) -> None:
        """Trust nothing that was read, or is being read."""
        self._epoch += 1
        self.forget(list(self._known))

    def _fired(self, _: object, key: Key, known: K) -> None:
        if self._known.get(key) is known:
            del self._known[key]
            self._changed(key)


async def read_node(coordinator: ICoordinator, key: Key) -> tuple[Any, Deferred[Any]]:
    """The data, or the names of the children, and the watch. Raises CoordinationError,
    NoNode for one."""
    asked: Any = coordinator
    path, is_children = key
    if is_children:
        names, watch = await asked.get_children_and_watch(path)
        return names, watch
    data, _, watch = await asked.get_and_watch(path)
    return data, watch
