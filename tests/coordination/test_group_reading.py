"""How consumer groups are read: many requests at once, on a tree that changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.errors import ConnectionLost, CoordinationError, NoNode
from metatwist.coordination.group_view import GroupView
from metatwist.coordination.groups import Groups
from metatwist.coordination.layout import Layout
from tests.coordination.group_case import GroupsCase

Ask = Callable[[], Deferred[Any]]


class SlowReads:
    """The reads of a coordinator, answered one at a time, the latest first."""

    def __init__(self, inner: LocalCoordinator) -> None:
        self.inner = inner
        self.waiting: list[tuple[str, Ask, Deferred[Any]]] = []
        self.most_waiting = 0

    def exists(self, path: str) -> Deferred[Any]:
        return self._later(path, lambda: self.inner.exists(path))

    def get(self, path: str) -> Deferred[Any]:
        return self._later(path, lambda: self.inner.get(path))

    def get_children(self, path: str) -> Deferred[Any]:
        return self._later(path, lambda: self.inner.get_children(path))

    def answer_all(self, refuse: Callable[[str], object] = lambda path: None) -> None:
        """Answer until nothing waits; `refuse` is shown each path first, and raises."""
        while self.waiting:
            path, ask, waiting = self.waiting.pop()
            try:
                refuse(path)
            except CoordinationError:
                waiting.errback()
            else:
                ask().chainDeferred(waiting)

    def _later(self, path: str, ask: Ask) -> Deferred[Any]:
        waiting: Deferred[Any] = Deferred()
        self.waiting.append((path, ask, waiting))
        self.most_waiting = max(self.most_waiting, len(self.waiting))
        return waiting


class StrayNames:
    """A coordinator of older rules: each directory has a name we cannot ask for."""

    def __init__(self, inner: LocalCoordinator) -> None:
        self.inner = inner
        self.exists = inner.exists
        self.get = inner.get

    def get_children(self, path: str) -> Deferred[list[str]]:
        listed = self.inner.get_children(path)
        return listed.addCallback(lambda names: [*names, "a\x7f"])


class ReadingTest(GroupsCase):
    """How the tree is read."""

    def setUp(self) -> None:
        super().setUp()
        self.slow = SlowReads(self.tree)
        self.slow_groups = Groups(self.slow, Layout(), self.logs)  # type: ignore[arg-type]

    def test_no_such_group(self) -> None:
        """A group that never was is None, and no groups at all are an empty list."""
        for name in ("g", "", "a/b", ".."):
            self.assertIsNone(self.successResultOf(self.groups.group(name)))
        self.assertEqual(self.successResultOf(self.groups.names()), [])
        self.assertEqual(self.successResultOf(self.groups.all()), [])

    def test_all(self) -> None:
        """All groups are what each is by itself."""
        self.offer("t", 3)
        for name in ("b", "a"):
            self.put(f"consumers/{name}/offsets/t/0-0", "-1-5")
            self.put(f"consumers/{name}/ids/{name}_1", "t")
        found = self.successResultOf(self.groups.all())
        self.assertEqual(found, [self.view("a"), self.view("b")])

    def test_bounded(self) -> None:
        """Many requests are under way at a time, but not more than 100."""
        self.offer("t", 1)
        for number in range(300):
            self.put(f"consumers/g/offsets/t/0-{number}", f"-1-{number}")
        waiting = self.slow_groups.group("g")
        self.slow.answer_all()
        self.assertEqual(self.successResultOf(waiting), self.view())
        self.assertEqual(self.slow.most_waiting, 100)

    def test_pauses(self) -> None:
        """A long read lets others have a turn every 500 pieces of work, a short one
        does not."""
        pauses: list[Deferred[None]] = []

        def pause() -> Deferred[None]:
            pauses.append(Deferred())
            return pauses[-1]

        groups = Groups(self.tree, Layout(), self.logs, pause)
        self.put("consumers/g/offsets/t/0-0", "-1-0")
        self.assertEqual(self.successResultOf(groups.group("g")), self.view())
        self.assertEqual(pauses, [])
        for number in range(600):
            self.put(f"consumers/g/offsets/t/0-{number}", f"-1-{number}")
        waiting = groups.group("g")
        for taken in range(1, 4):
            self.assertNoResult(waiting)
            self.assertEqual(len(pauses), taken)
            pauses[-1].callback(None)
        self.assertEqual(self.successResultOf(waiting), self.view())

    def test_names_we_could_not_ask_for(self) -> None:
        """A name that ZooKeeper of today would refuse is passed over; as a topic it is
        listed, without partitions."""
        self.offer("t", 1)
        self.put("consumers/g/ids/g_1", "t")
        self.put("consumers/g/owners/t/0-0", "g_1")
        self.put("consumers/g/offsets/t/0-0", "-1-5")
        groups = Groups(StrayNames(self.tree), Layout(), self.logs)  # type: ignore[arg-type]
        self.assertEqual(self.successResultOf(groups.names()), ["g"])
        (view,) = self.successResultOf(groups.all())
        self.assertEqual(view.members, self.view().members)
        stray, topic = view.topics
        self.assertEqual((stray.topic, stray.partitions), ("a\x7f", ()))
        self.assertEqual((topic,), self.view().topics)

    def test_whatever_vanishes(self) -> None:
        """A node that is gone by the time it is read is absent, and no error."""
        self.offer("t", 1)
        self.put("consumers/g/ids/g_1", "t")
        self.put("consumers/g/owners/t/0-0", "g_1")
        self.put("consumers/g/offsets/t/0-0", "-1-5")
        asked: list[str] = []
        self._view_without(asked.append)
        asked.remove("/meta/consumers/g")
        self.assertEqual(len(asked), 10)
        for path in asked:
            self.assertIsNotNone(self._view_without(_lacking({path})), path)
        found = self._view_without(_lacking(set(asked)))
        assert found is not None
        self.assertEqual((found.members, found.topics), ((), ()))

    def test_failure(self) -> None:
        """A failed connection fails the view, whenever it happens, and stops asking."""
        self.offer("t", 1)
        self.put("consumers/g/ids/g_1", "t")
        for number in range(300):
            self.put(f"consumers/g/offsets/t/0-{number}", f"-1-{number}")
        for fail_at in (1, 2, 5, 8, 50):
            asked: list[str] = []
            waiting = self.slow_groups.group("g")
            self.slow.answer_all(_failing_at(fail_at, asked))
            self.failureResultOf(waiting, ConnectionLost)
            self.assertLessEqual(fail_at, len(asked))
            self.assertLess(len(asked), fail_at + 101)

    def test_connection_is_down(self) -> None:
        """Every question fails without a connection."""
        self.tree.suspend()
        for ask in (self.groups.names, self.groups.all, lambda: self.groups.group("g")):
            self.failureResultOf(ask(), ConnectionLost)

    def test_given_up(self) -> None:
        """A view that is cancelled ends, and late answers do no harm."""
        self.put("consumers/g/ids/g_1", "t")
        waiting = self.slow_groups.group("g")
        _, ask, first = self.slow.waiting.pop()
        ask().chainDeferred(first)
        self.assertEqual(len(self.slow.waiting), 3)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.slow.answer_all()

    def _view_without(self, refuse: Callable[[str], object]) -> GroupView | None:
        """The view of g, with some requests refused."""
        waiting = self.slow_groups.group("g")
        self.slow.answer_all(refuse)
        return self.successResultOf(waiting)


def _lacking(paths: set[str]) -> Callable[[str], object]:
    def refuse(path: str) -> None:
        if path in paths:
            raise NoNode(path)

    return refuse


def _failing_at(number: int, asked: list[str]) -> Callable[[str], object]:
    def refuse(path: str) -> None:
        asked.append(path)
        if len(asked) == number:
            raise ConnectionLost(path)

    return refuse
