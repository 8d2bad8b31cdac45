"""Znodes as they are now: read once, kept as long as their watches are silent.

A watch may be lost (a server that restarts, a bug): what is older than STALE_S is read
again by whoever wants it next, and what nobody has wanted for IDLE_S is forgotten with
its watch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred

from metatwist.client.bounded import drop
from metatwist.client.znodes import Key, Known, KnownNodes, read_node
from metatwist.coordination.errors import NoNode
from metatwist.coordination.interface import ICoordinator

STALE_S = 15.0
IDLE_S = 120.0


@define(eq=False)
class _Dated(Known):
    read_s: float
    wanted_s: float


class WatchedTree:
    """`changed` is called with the path of a node, and whether it is about its
    children, when that is not known any more: changed, or the session ended."""

    def __init__(
        self, clock: Any, coordinator: ICoordinator, changed: Callable[[Key], object]
    ) -> None:
        self._clock = clock
        self._coordinator: Any = coordinator
        self._nodes: KnownNodes[_Dated] = KnownNodes(changed)
        self._reading: dict[Key, list[Deferred[Any]]] = {}
        self._swept_s = clock.seconds()

    async def data(self, path: str) -> bytes | None:
        """A node's data, None without a node. Raises CoordinationError."""
        found: bytes | None = await self._value((path, False))
        return found

    async def children(self, path: str) -> list[str] | None:
        """The names of a node's children, None without a node. Raises
        CoordinationError."""
        found: list[str] | None = await self._value((path, True))
        return found

    def distrust(self, keys: Iterable[Key]) -> None:
        """Read these again when they are wanted next."""
        for key in keys:
            known = self._nodes.get(key)
            if known is not None:
                known.read_s = float("-inf")

    def close(self) -> None:
        """Forget everything; what is still being read is dropped."""
        self._nodes.forget_all()

    async def _value(self, key: Key) -> Any:
        now_s = self._clock.seconds()
        self._sweep(now_s)
        known = self._nodes.get(key)
        if known is not None and now_s - known.read_s < STALE_S:
            known.wanted_s = now_s
            return known.value
        return await self._joined(key)

    def _joined(self, key: Key) -> Deferred[Any]:
        """The value from a read of its own, or from one that is under way."""
        mine: Deferred[Any] = Deferred()
        joined = self._reading.setdefault(key, [])
        joined.append(mine)
        if len(joined) == 1:
            reading = Deferred.fromCoroutine(self._fresh(key))
            reading.addBoth(self._answer, key)
        return mine

    async def _fresh(self, key: Key) -> Any:
        now_s, epoch = self._clock.seconds(), self._nodes.epoch
        try:
            value, watch = await read_node(self._coordinator, key)
        except NoNode:
            value, watch = None, await self._watch_for(key[0])
        self._nodes.keep(key, _Dated(value, watch, now_s, now_s), epoch)
        return value

    def _answer(self, result: Any, key: Key) -> None:
        for one in self._reading.pop(key):
            one.callback(result)

    async def _watch_for(self, path: str) -> Deferred[Any]:
        """A watch that fires when a node that was missing is there."""
        watch: Deferred[Any]
        stat, watch = await self._coordinator.exists_and_watch(path)
        if stat is None:
            return watch
        drop(watch)
        came: Deferred[Any] = Deferred()  # it has come meanwhile
        came.callback(None)
        return came

    def _sweep(self, now_s: float) -> None:
        if now_s - self._swept_s < IDLE_S:
            return
        self._swept_s = now_s
        idle = (k for k, one in self._nodes.items() if now_s - one.wanted_s >= IDLE_S)
        self._nodes.forget(idle)
