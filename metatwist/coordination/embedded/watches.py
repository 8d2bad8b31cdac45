"""Who waits for what: the two watch tables of spec layout 7.3, 3."""

from __future__ import annotations

from typing import Protocol

from metatwist.coordination.interface import EventKind


class Watcher(Protocol):
    """Somebody who can be told of an event."""

    def notify(self, kind: EventKind, path: str) -> None:
        """Tell; must not change the tree."""


class _Table:
    """Watches of one kind; one of a watcher on a path, however often it is set."""

    def __init__(self) -> None:
        self.by_path: dict[str, dict[Watcher, None]] = {}
        self.by_watcher: dict[Watcher, dict[str, None]] = {}

    def add(self, path: str, watcher: Watcher) -> None:
        self.by_path.setdefault(path, {})[watcher] = None
        self.by_watcher.setdefault(watcher, {})[path] = None

    def take(self, path: str) -> dict[Watcher, None]:
        """Those who watch a path, who then watch it no more."""
        found = self.by_path.pop(path, None)
        if not found:
            return {}
        for watcher in found:
            paths = self.by_watcher[watcher]
            del paths[path]
            if not paths:
                del self.by_watcher[watcher]
        return found

    def drop(self, path: str, watcher: Watcher) -> None:
        watchers = self.by_path.get(path)
        if watchers is not None and watcher in watchers:
            del watchers[watcher]
            if not watchers:
                del self.by_path[path]
            paths = self.by_watcher[watcher]
            del paths[path]
            if not paths:
                del self.by_watcher[watcher]

    def forget(self, watcher: Watcher) -> None:
        for path in list(self.by_watcher.get(watcher, ())):
            self.drop(path, watcher)

    @property
    def count(self) -> int:
        return sum(len(paths) for paths in self.by_watcher.values())


class Watches:
    """Data watches, set by exists and getData, and child watches, by getChildren."""

    def __init__(self) -> None:
        self._data = _Table()
        self._child = _Table()

    def watch_data(self, path: str, watcher: Watcher) -> None:
        """Tell `watcher` once when the znode is created, changed or deleted."""
        self._data.add(path, watcher)

    def watch_children(self, path: str, watcher: Watcher) -> None:
        """Tell `watcher` once when children come or go, or the znode is deleted."""
        self._child.add(path, watcher)

    def drop_data(self, path: str, watcher: Watcher) -> None:
        """Forget one data watch."""
        self._data.drop(path, watcher)

    def drop_children(self, path: str, watcher: Watcher) -> None:
        """Forget one child watch."""
        self._child.drop(path, watcher)

    def forget(self, watcher: Watcher) -> None:
        """Forget all watches of somebody who has gone."""
        self._data.forget(watcher)
        self._child.forget(watcher)

    @property
    def count(self) -> int:
        """Watches that are set now."""
        return self._data.count + self._child.count

    def created(self, path: str, parent: str) -> None:
        """Fire for a znode that has come."""
        self._fire(self._data.take(path), EventKind.CREATED, path)
        self._fire(self._child.take(parent), EventKind.CHILDREN, parent)

    def changed(self, path: str) -> None:
        """Fire for a znode with new data."""
        if path in self._data.by_path:
            self._fire(self._data.take(path), EventKind.CHANGED, path)

    def deleted(self, path: str, parent: str) -> None:
        """Fire for a znode that has gone: once a watcher, whatever it watches there."""
        gone = self._data.take(path) | self._child.take(path)
        self._fire(gone, EventKind.DELETED, path)
        self._fire(self._child.take(parent), EventKind.CHILDREN, parent)

    @staticmethod
    def _fire(watchers: dict[Watcher, None], kind: EventKind, path: str) -> None:
        for watcher in watchers:
            watcher.notify(kind, path)
