"""Watches that outlive a broken connection, as ZooKeeper's own client has them.

kazoo forgets its watches with the connection. So they are kept here, with what the
znode was like, and set again on the next connection of the same session; a znode that
has changed meanwhile fires its watch at once (spec layout 7.3, rule 8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from metatwist.coordination.errors import (
    ConnectionLost,
    CoordinationError,
    NoNode,
    SessionExpired,
)
from metatwist.coordination.interface import EventKind, NodeEvent, NodeStat
from metatwist.coordination.kazoo_values import event_from, stat_from

Ask = Callable[[Callable[[Any], Any], str], Deferred[Any]]
"""Sends what the function does with kazoo's client; the text is the path."""


@define(eq=False)
class _Watch:
    seen: NodeStat | None
    fired: Deferred[NodeEvent]


class _Table:
    """The watches of one sort, by path."""

    def __init__(self) -> None:
        self._watches: dict[str, dict[_Watch, None]] = {}

    def paths(self) -> list[str]:
        return list(self._watches)

    def add(self, path: str, seen: NodeStat | None) -> Deferred[NodeEvent]:
        def forget(_fired: Deferred[NodeEvent]) -> None:
            self._remove(path, watch)

        fired: Deferred[NodeEvent] = Deferred(forget)
        watch = _Watch(seen, fired)
        self._watches.setdefault(path, {})[watch] = None
        return fired

    def at(self, path: str) -> list[_Watch]:
        return list(self._watches.get(path, ()))

    def fire(self, path: str, kind: EventKind) -> None:
        for watch in self.at(path):
            self.fire_one(path, watch, kind)

    def fire_one(self, path: str, watch: _Watch, kind: EventKind) -> None:
        if self._remove(path, watch):
            watch.fired.callback(NodeEvent(kind, path))

    def fail_all(self) -> None:
        for path in self.paths():
            for watch in self.at(path):
                if self._remove(path, watch):
                    watch.fired.errback(SessionExpired(path))

    def _remove(self, path: str, watch: _Watch) -> bool:
        """Forget it; False if that has been done."""
        watches = self._watches.get(path, {})
        if watch not in watches:
            return False
        del watches[watch]
        if not watches:
            del self._watches[path]
        return True


class Watches:
    """The watches of a session. `data_event` and `child_event` are what kazoo gets:
    always the same two functions, so that kazoo keeps one of each a path."""

    def __init__(self) -> None:
        self._data = _Table()
        self._children = _Table()

    def watch_data(self, path: str, seen: NodeStat | None) -> Deferred[NodeEvent]:
        """A watch on creation, change and deletion; `seen` is what is there now."""
        return self._data.add(path, seen)

    def watch_children(self, path: str, seen: NodeStat) -> Deferred[NodeEvent]:
        """A watch on children and deletion; `seen` is the stat of `path` now."""
        return self._children.add(path, seen)

    def data_event(self, event: Any) -> None:
        """An event of kazoo's about data; those about the connection mean nothing."""
        happened = event_from(event)
        if happened is not None:
            self._data.fire(happened.path, happened.kind)

    def child_event(self, event: Any) -> None:
        """An event of kazoo's about children."""
        happened = event_from(event)
        if happened is not None:
            self._children.fire(happened.path, happened.kind)

    def fail_all(self) -> None:
        """The session is over: fail them with SessionExpired."""
        self._data.fail_all()
        self._children.fail_all()

    def set_again(self, ask: Ask) -> None:
        """Set them on a new connection, which `ask` leads to."""
        for path in self._data.paths():
            self._set_data(ask, path)
        for path in self._children.paths():
            self._set_children(ask, path)

    def _set_data(self, ask: Ask, path: str) -> None:
        def start(client: Any) -> Any:
            return client.exists_async(path, watch=self.data_event)

        def seen(stat: Any) -> None:
            now = None if stat is None else stat_from(stat)
            for watch in self._data.at(path):
                kind = _data_change(watch.seen, now)
                if kind is not None:
                    self._data.fire_one(path, watch, kind)

        ask(start, path).addCallbacks(
            seen, self._not_set, errbackArgs=(self._data, path, EventKind.CHANGED)
        )

    def _set_children(self, ask: Ask, path: str) -> None:
        def start(client: Any) -> Any:
            watch = self.child_event
            return client.get_children_async(path, watch=watch, include_data=True)

        def seen(answer: Any) -> None:
            now = stat_from(answer[1])
            for watch in self._children.at(path):
                if watch.seen is None or _lineage(watch.seen) != _lineage(now):
                    self._children.fire_one(path, watch, EventKind.CHILDREN)

        ask(start, path).addCallbacks(
            seen, self._not_set, errbackArgs=(self._children, path, EventKind.CHILDREN)
        )

    def _not_set(
        self, failure: Failure, table: _Table, path: str, kind: EventKind
    ) -> None:
        """Without a connection the next one is waited for. Otherwise fire: an event
        too many costs a look, one too few is never noticed."""
        failure.trap(CoordinationError)
        if failure.check(NoNode):
            table.fire(path, EventKind.DELETED)
        elif not failure.check(ConnectionLost):
            table.fire(path, kind)


def _data_change(seen: NodeStat | None, now: NodeStat | None) -> EventKind | None:
    if seen is None:
        return None if now is None else EventKind.CREATED
    if now is None:
        return EventKind.DELETED
    same = (seen.czxid, seen.mzxid) == (now.czxid, now.mzxid)
    return None if same else EventKind.CHANGED


def _lineage(stat: NodeStat) -> tuple[int, int, int]:
    """What changes whenever the set of children does."""
    return stat.czxid, stat.pzxid, stat.cversion
