"""The two watch tables: who is told, of what, once and in which order."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded.watches import Watches
from metatwist.coordination.interface import EventKind

CREATED, DELETED = EventKind.CREATED, EventKind.DELETED
CHANGED, CHILDREN = EventKind.CHANGED, EventKind.CHILDREN


class Noted:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[EventKind, str]] = []

    def notify(self, kind: EventKind, path: str) -> None:
        self.told.append((kind, path))

    def taken(self) -> list[tuple[EventKind, str]]:
        """What it was told since the last call."""
        told, self.told = self.told, []
        return told


class WatchesTests(SynchronousTestCase):
    """`Watches` and three who watch."""

    def setUp(self) -> None:
        self.watches = Watches()
        self.ann, self.bob, self.eve = Noted(), Noted(), Noted()

    def test_data(self) -> None:
        """Creation, change and deletion fire data watches of the path, and of no
        other."""
        for fire, kind in (
            (lambda: self.watches.created("/a/b", "/a"), CREATED),
            (lambda: self.watches.changed("/a/b"), CHANGED),
            (lambda: self.watches.deleted("/a/b", "/a"), DELETED),
        ):
            self.watches.watch_data("/a/b", self.ann)
            self.watches.watch_data("/a", self.bob)
            self.watches.watch_data("/a/b/c", self.bob)
            fire()
            self.assertEqual(self.ann.taken(), [(kind, "/a/b")])
            self.assertEqual(self.bob.taken(), [])

    def test_children(self) -> None:
        """Children that come or go fire child watches of the parent; changed data and
        grandchildren do not."""
        for fire in (self.watches.created, self.watches.deleted):
            self.watches.watch_children("/a", self.ann)
            self.watches.changed("/a")
            self.watches.changed("/a/b")
            fire("/a/b/c", "/a/b")
            self.assertEqual(self.ann.taken(), [])
            fire("/a/b", "/a")
            self.assertEqual(self.ann.taken(), [(CHILDREN, "/a")])

    def test_once(self) -> None:
        """A watch that has fired is spent."""
        self.watches.watch_data("/a", self.ann)
        self.watches.watch_children("/", self.ann)
        self.watches.created("/a", "/")
        self.ann.taken()
        self.watches.changed("/a")
        self.watches.deleted("/a", "/")
        self.watches.created("/a", "/")
        self.assertEqual(self.ann.taken(), [])
        self.assertEqual(self.watches.count, 0)

    def test_set_twice(self) -> None:
        """The same watch set again is one watch."""
        self.watches.watch_data("/a", self.ann)
        self.watches.watch_data("/a", self.ann)
        self.assertEqual(self.watches.count, 1)
        self.watches.changed("/a")
        self.assertEqual(self.ann.taken(), [(CHANGED, "/a")])

    def test_everyone(self) -> None:
        """All who watch are told, in the order in which they began to."""
        order: list[str] = []
        for name in ("first", "second", "third"):
            watcher = Noted()
            watcher.notify = lambda *_, name=name: order.append(name)  # type: ignore[method-assign]
            self.watches.watch_data("/a", watcher)
        self.watches.changed("/a")
        self.assertEqual(order, ["first", "second", "third"])

    def test_deletion_is_told_once(self) -> None:
        """Who watches data and children of a znode hears once that it is gone."""
        self.watches.watch_data("/a", self.ann)
        self.watches.watch_children("/a", self.ann)
        self.watches.watch_children("/a", self.bob)
        self.watches.watch_children("/", self.ann)
        self.watches.deleted("/a", "/")
        self.assertEqual(self.ann.taken(), [(DELETED, "/a"), (CHILDREN, "/")])
        self.assertEqual(self.bob.taken(), [(DELETED, "/a")])
        self.assertEqual(self.watches.count, 0)

    def test_creation_leaves_own_child_watches(self) -> None:
        """A child watch of the created path itself stays: only reading a znode that is
        there sets one."""
        self.watches.watch_children("/a", self.ann)
        self.watches.created("/a", "/")
        self.assertEqual(self.ann.taken(), [])
        self.assertEqual(self.watches.count, 1)

    def test_forget(self) -> None:
        """Who is forgotten hears nothing more; all others do."""
        for path in ("/a", "/b"):
            for one in (self.ann, self.bob):
                self.watches.watch_data(path, one)
                self.watches.watch_children(path, one)
        self.watches.forget(self.ann)
        self.watches.forget(self.ann)
        self.assertEqual(self.watches.count, 4)
        self.watches.deleted("/a", "/")
        self.watches.changed("/b")
        self.assertEqual(self.ann.taken(), [])
        self.assertEqual(self.bob.taken(), [(DELETED, "/a"), (CHANGED, "/b")])

    def test_drop(self) -> None:
        """One watch is dropped: of that kind, path and watcher."""
        self.watches.watch_data("/a", self.ann)
        self.watches.watch_data("/a", self.bob)
        self.watches.watch_children("/a", self.ann)
        self.watches.watch_data("/b", self.ann)
        self.watches.drop_data("/a", self.ann)
        self.assertEqual(self.watches.count, 3)
        self.watches.changed("/a")
        self.watches.changed("/b")
        self.watches.created("/a/x", "/a")
        self.assertEqual(self.ann.taken(), [(CHANGED, "/b"), (CHILDREN, "/a")])
        self.assertEqual(self.bob.taken(), [(CHANGED, "/a")])

    def test_drop_of_what_is_not_there(self) -> None:
        """To drop a watch that has fired, or never was, does nothing."""
        self.watches.watch_data("/a", self.ann)
        self.watches.drop_data("/b", self.ann)
        self.watches.drop_data("/a", self.bob)
        self.watches.drop_children("/a", self.ann)
        self.assertEqual(self.watches.count, 1)
        self.watches.changed("/a")
        self.watches.drop_data("/a", self.ann)
        self.assertEqual(self.watches.count, 0)

    def test_count(self) -> None:
        """`count` is of watches, not of watchers or paths."""
        self.watches.watch_data("/a", self.ann)
        self.watches.watch_data("/a", self.bob)
        self.watches.watch_children("/a", self.eve)
        self.watches.watch_data("/b", self.eve)
        self.assertEqual(self.watches.count, 4)
