"""The ensemble's watches: order, loss, and what is made of a gap."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.states import EventType
from twisted.internet.defer import CancelledError

from metatwist.coordination.errors import NoNode, SessionExpired
from metatwist.coordination.interface import EventKind, NodeEvent

from .kazoo_fakes import REQUEST_S, EnsembleCase, FakeCall, stat

GONE: Any = None


class WatchesTest(EnsembleCase):
    """Connected, with session 1."""

    def setUp(self) -> None:
        """Connect."""
        super().setUp()
        self.connected(1)

    def watch_data(self, before: Any) -> Any:
        """A watch on `/a`, which looks like that."""
        asked = self.tree.exists_and_watch("/a")
        self.answer(before)
        return self.watch_of(asked)

    def watch_children(self, before: Any) -> Any:
        """A watch on the children of `/a`, which has that stat."""
        asked = self.tree.get_children_and_watch("/a")
        self.answer(([], before))
        return self.watch_of(asked)

    def fire(self, kind: str, path: str = "/a") -> None:
        """Have kazoo fire what the latest call left with it."""
        self.client.fire(self.client.calls[-1].keys["watch"], kind, path)
        self.reactor.turn()

    def test_event_right_behind_the_answer(self) -> None:
        """An event that kazoo sees right after the answer finds its watch."""
        asked = self.tree.get_and_watch("/a")
        call = self.client.calls[-1]
        call.answer((b"x", stat()))
        self.client.fire(call.keys["watch"], EventType.CHANGED, "/a")
        self.reactor.turn()
        event = self.successResultOf(self.watch_of(asked))
        self.assertEqual(NodeEvent(EventKind.CHANGED, "/a"), event)

    def test_answered_before_it_is_linked(self) -> None:
        """So it does when the answer is there before kazoo's call returns."""

        def quick(path: str, watch: Any) -> Any:
            result = self.client.handler.async_result()
            self.client.calls.append(call := FakeCall("get", (), {}, result))
            call.answer((b"x", stat()))
            self.client.fire(watch, EventType.CHANGED, path)
            return result

        self.patch(self.client, "get_async", quick)
        asked = self.tree.get_and_watch("/a")
        self.assertNoResult(asked)
        self.reactor.turn()
        self.successResultOf(self.watch_of(asked))

    def test_tables(self) -> None:
        """Events fire the watches of their path and table, once."""
        first, second = self.watch_data(stat()), self.watch_data(stat())
        asked = self.tree.exists_and_watch("/b")
        self.answer(None)
        other = self.watch_of(asked)
        self.fire(EventType.CHANGED)
        self.fire(EventType.CHANGED)
        for watch in (first, second):
            self.assertEqual(EventKind.CHANGED, self.successResultOf(watch).kind)
        child = self.watch_children(stat())
        self.fire(EventType.CHILD, "/other")
        self.assertNoResult(child)
        self.fire(EventType.CHILD)
        self.assertEqual(EventKind.CHILDREN, self.successResultOf(child).kind)
        self.assertNoResult(other)

    def test_one_callback(self) -> None:
        """kazoo gets the same callback each time, so that it cannot pile them up."""
        for _ in range(3):
            self.watch_data(stat())
        self.assertEqual(1, len({call.keys["watch"] for call in self.client.calls}))

    def test_cancelled(self) -> None:
        """A watch that was cancelled is forgotten, also after a break."""
        watch = self.watch_data(stat())
        watch.cancel()
        self.failureResultOf(watch, CancelledError)
        self.fire(EventType.CHANGED)
        self.suspended()
        self.resumed()
        self.assertEqual(["exists"], [call.name for call in self.client.calls])

    def test_no_watch_after_failure(self) -> None:
        """A read that fails leaves no watch."""
        asked = self.tree.get_and_watch("/a")
        self.client.calls[-1].refuse(NoNodeError())
        self.reactor.turn()
        self.failureResultOf(asked, NoNode)
        self.suspended()
        self.resumed()
        self.assertEqual(1, len(self.client.calls))

    def test_expired(self) -> None:
        """When the session ends its watches fail; they are not set in the next."""
        data, children = self.watch_data(None), self.watch_children(stat())
        self.suspended()
        self.assertNoResult(data)
        self.client.lose()
        self.reactor.turn()
        self.failureResultOf(data, SessionExpired)
        self.failureResultOf(children, SessionExpired)
        self.resumed(2)
        self.assertEqual(1, len(self.client.calls))

    def test_gap(self) -> None:
        """After a break each watch fires if its znode changed meanwhile, else it is
        set again."""
        same = stat(czxid=1, mzxid=2, pzxid=3)
        data = [
            (GONE, GONE, None),
            (GONE, same, EventKind.CREATED),
            (same, GONE, EventKind.DELETED),
            (same, same._replace(pzxid=9), None),
            (same, same._replace(mzxid=9), EventKind.CHANGED),
            (same, same._replace(czxid=9), EventKind.CHANGED),
        ]
        for before, after, expected in data:
            watch = self.watch_data(before)
            self.check_gap(watch, after, expected, EventType.CHANGED)
        children = [
            (same, None),
            (same._replace(mzxid=9), None),
            (same._replace(pzxid=9), EventKind.CHILDREN),
            (same._replace(cversion=9), EventKind.CHILDREN),
            (same._replace(czxid=9), EventKind.CHILDREN),
        ]
        for after, expected in children:
            watch = self.watch_children(same)
            self.check_gap(watch, ([], after), expected, EventType.CHILD)

    def check_gap(self, watch: Any, answer: Any, expected: Any, kind: str) -> None:
        """Break, resume, answer the question; if nothing changed it still works."""
        self.suspended()
        self.resumed()
        self.assertNoResult(watch)
        self.answer(answer)
        if expected is None:
            self.assertNoResult(watch)
            self.fire(kind)
            self.successResultOf(watch)
        else:
            self.assertEqual(expected, self.successResultOf(watch).kind)

    def test_gap_before_others(self) -> None:
        """Watches are set again before listeners can ask for anything."""
        self.watch_data(None)
        self.tree.on_state(
            lambda state: self.tree.exists("/later").addErrback(lambda _: None)
        )
        self.suspended()
        self.resumed()
        paths = [call.args[0] for call in self.client.calls]
        self.assertEqual(["/", "/a", "/later"], paths)

    def test_gap_without_answer(self) -> None:
        """Where the question fails the watch fires, since nobody can know; where the
        connection breaks again it waits for the next."""
        vanished = self.watch_children(stat())
        self.suspended()
        self.resumed()
        self.suspended()
        self.assertNoResult(vanished)
        self.resumed()
        self.client.calls[-1].refuse(NoNodeError())
        self.reactor.turn()
        self.assertEqual(EventKind.DELETED, self.successResultOf(vanished).kind)
        forbidden = self.watch_children(stat())
        self.suspended()
        self.resumed()
        self.client.calls[-1].refuse(NoAuthError())
        self.reactor.turn()
        self.assertEqual(EventKind.CHILDREN, self.successResultOf(forbidden).kind)
        silent = self.watch_data(stat())
        self.suspended()
        self.resumed()
        self.reactor.advance(REQUEST_S)
        self.assertEqual(EventKind.CHANGED, self.successResultOf(silent).kind)
