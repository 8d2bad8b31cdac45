"""Znodes as they are now: read once, kept as long as their watches are silent.

A watch may be lost (a server that restarts, a bug): what is older than STALE_S is read
again by whoever wants it next, and what nobody has wanted for IDLE_S is forgotten with
its watch.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred

from metatwist.coordination.errors import NoNode
from metatwist.coordination.interface import ICoordinator

STALE_S = 15.0
IDLE_S = 120.0
Key = tuple[str, bool]
"""A path, and whether its children are meant."""

Read = Callable[[str], Coroutine[Any, Any, tuple[Any, Deferred[Any]]]]


@define(eq=False)
class _Known:
    value: Any
    watch: Deferred[Any]
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
        self._changed = changed
        self._known: dict[Key, _Known] = {}
        self._reading: dict[Key, list[Deferred[Any]]] = {}
        self._swept_s = clock.seconds()
        self._closed = False

    async def data(self, path: str) -> bytes | None:
        """A node's data, None without a node. Raises CoordinationError."""
        found: bytes | None = await self._value((path, False), self._read_data)
        return found

    async def children(self, path: str) -> list[str] | None:
        """The names of a node's children, None without a node. Raises
        CoordinationError."""
        found: list[str] | None = await self._value((path, True), self._read_children)
        return found

    def distrust(self, keys: Iterable[Key]) -> None:
        """Read these again when they are wanted next."""
        for key in keys:
            if key in self._known:
                self._known[key].read_s = float("-inf")

    def close(self) -> None:
        """Forget everything; what is still being read is dropped."""
        self._closed = True
        for key in list(self._known):
            self._forget(key)

    async def _value(self, key: Key, read: Read) -> Any:
        now_s = self._clock.seconds()
        self._sweep(now_s)
        known = self._known.get(key)
        if known is not None and now_s - known.read_s < STALE_S:
            known.wanted_s = now_s
            return known.value
        return await self._joined(key, read)

    def _joined(self, key: Key, read: Read) -> Deferred[Any]:
        """The value from a read of its own, or from one that is under way."""
        mine: Deferred[Any] = Deferred()
        joined = self._reading.setdefault(key, [])
        joined.append(mine)
        if len(joined) == 1:
            reading = Deferred.fromCoroutine(self._fresh(key, read))
            reading.addBoth(self._answer, key)
        return mine

    async def _fresh(self, key: Key, read: Read) -> Any:
        now_s = self._clock.seconds()
        value, watch = await read(key[0])
        self._keep(key, _Known(value, watch, now_s, now_s))
        return value

    def _answer(self, result: Any, key: Key) -> None:
        for one in self._reading.pop(key):
            one.callback(result)

    async def _read_data(self, path: str) -> tuple[bytes | None, Deferred[Any]]:
        try:
            data, _, watch = await self._coordinator.get_and_watch(path)
        except NoNode:
            return None, await self._watch_for(path)
        return data, watch

    async def _read_children(self, path: str) -> tuple[list[str] | None, Deferred[Any]]:
        try:
            names, watch = await self._coordinator.get_children_and_watch(path)
        except NoNode:
            return None, await self._watch_for(path)
        return names, watch

    async def _watch_for(self, path: str) -> Deferred[Any]:
        """A watch that fires when a node that was missing is there."""
        watch: Deferred[Any]
        stat, watch = await self._coordinator.exists_and_watch(path)
        if stat is None:
            return watch
        watch.addErrback(lambda _: None)
        watch.cancel()
        came: Deferred[Any] = Deferred()  # it has come meanwhile
        came.callback(None)
        return came

    def _keep(self, key: Key, known: _Known) -> None:
        self._forget(key)
        self._known[key] = known
        known.watch.addBoth(self._fired, key, known)
        if self._closed:
            self._forget(key)

    def _fired(self, _: object, key: Key, known: _Known) -> None:
        if self._known.get(key) is known:
            del self._known[key]
            if not self._closed:
                self._changed(key)

    def _forget(self, key: Key) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            known.watch.cancel()

    def _sweep(self, now_s: float) -> None:
        if now_s - self._swept_s < IDLE_S:
            return
        self._swept_s = now_s
        for key, known in list(self._known.items()):
            if now_s - known.wanted_s >= IDLE_S:
                self._forget(key)
