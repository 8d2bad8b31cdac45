"""Reads that are remembered for as long as a watch vouches for them.

So a change costs reading what has changed, however large the group is (W10).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from metatwist.client.group.waiting import drop
from metatwist.coordination.errors import NoNode
from metatwist.coordination.interface import NodeEvent

Key = tuple[str, str]


@define(eq=False)
class _Known:
    answer: Any
    watch: Deferred[NodeEvent]


class WatchedReads:
    """Reads through a coordinator; `changed` is called when what was read is old.

    Failures are CoordinationErrors.
    """

    def __init__(self, coordinator: Any, changed: Callable[[], object]) -> None:
        self._coordinator = coordinator
        self._changed = changed
        self._known: dict[Key, _Known] = {}
        self._used: set[Key] = set()
        self._epoch = 0

    def children(self, path: str) -> Deferred[list[str] | None]:
        """Names of the children, None without the node."""
        return self._read("children", path, self._coordinator.get_children_and_watch)

    def data(self, path: str) -> Deferred[bytes | None]:
        """The data, None without the node."""
        return self._read("data", path, self._coordinator.get_and_watch)

    def forget(self) -> None:
        """Trust nothing that was read."""
        self._epoch += 1
        known, self._known = self._known, {}
        for one in known.values():
            drop(one.watch)

    def begin(self) -> None:
        """A reading begins; see `end`."""
        self._used = set()

    def end(self) -> None:
        """It is over: what it had no use for is not watched any more."""
        for key in self._known.keys() - self._used:
            drop(self._known.pop(key).watch)

    def _read(
        self, kind: str, path: str, ask: Callable[[str], Deferred[Any]]
    ) -> Deferred[Any]:
        key = (kind, path)
        self._used.add(key)
        known = self._known.get(key)
        if known is not None:
            return succeed(known.answer)
        asked = ask(path)
        asked.addCallbacks(self._keep, _missing, callbackArgs=(key, self._epoch))
        return asked

    def _keep(self, found: Any, key: Key, epoch: int) -> Any:
        known = _Known(found[0], found[-1])
        if epoch != self._epoch:
            drop(known.watch)
            return known.answer
        self._known[key] = known
        known.watch.addBoth(self._fired, key, known)
        return known.answer

    def _fired(self, _: NodeEvent | Failure, key: Key, known: _Known) -> None:
        if self._known.get(key) is known:
            del self._known[key]
            self._changed()


def _missing(failure: Failure) -> None:
    failure.trap(NoNode)
