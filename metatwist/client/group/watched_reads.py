"""Reads that are remembered for as long as a watch vouches for them.

So a change costs reading what has changed, however large the group is (W10).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed

from metatwist.client.znodes import Key, Known, KnownNodes, read_node
from metatwist.coordination.errors import NoNode


class WatchedReads:
    """Reads through a coordinator; `changed` is called when what was read is old.

    Failures are CoordinationErrors.
    """

    def __init__(self, coordinator: Any, changed: Callable[[], object]) -> None:
        self._coordinator = coordinator
        self._nodes: KnownNodes[Known] = KnownNodes(lambda _: changed())
        self._used: set[Key] = set()

    def children(self, path: str) -> Deferred[list[str] | None]:
        """Names of the children, None without the node."""
        return self._value((path, True))

    def data(self, path: str) -> Deferred[bytes | None]:
        """The data, None without the node."""
        return self._value((path, False))

    def forget(self) -> None:
        """Trust nothing that was read."""
        self._nodes.forget_all()

    def begin(self) -> None:
        """A reading begins; see `end`."""
        self._used = set()

    def end(self) -> None:
        """It is over: what it had no use for is not watched any more."""
        known = {key for key, _ in self._nodes.items()}
        self._nodes.forget(known - self._used)

    def _value(self, key: Key) -> Deferred[Any]:
        self._used.add(key)
        known = self._nodes.get(key)
        if known is not None:
            return succeed(known.value)
        return Deferred.fromCoroutine(self._read(key))

    async def _read(self, key: Key) -> Any:
        epoch = self._nodes.epoch
        try:
            value, watch = await read_node(self._coordinator, key)
        except NoNode:
            return None
        self._nodes.keep(key, Known(value, watch), epoch)
        return value
