"""The embedded coordinator as its own process uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.embedded.realm import Realm
from metatwist.coordination.errors import (
    BadArguments,
    BadVersion,
    ConnectionLost,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    TransactionFailed,
)
from metatwist.coordination.interface import (
    Check,
    Create,
    Delete,
    EventKind,
    ICoordinator,
    NodeEvent,
    SessionState,
    SetData,
)
from tests.coordination.server_case import HeldJournal


class LocalCase(SynchronousTestCase):
    """A coordinator over a realm whose disk the test holds."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.journal = HeldJournal()
        self.realm = self.new_realm(self.journal)
        self.local = LocalCoordinator(self.clock)
        self.states: list[SessionState] = []
        self.local.on_state(self.states.append)
        self.local.open(self.realm)
        self.other = LocalCoordinator(self.clock)
        self.other.open(self.realm)

    def new_realm(self, journal: HeldJournal) -> Realm:
        """A realm that tells the time of the clock."""
        return Realm.over(
            journal, self.clock.seconds, lambda: int(self.clock.seconds() * 1000)
        )

    def done(self, waiting: Deferred[Any]) -> Any:
        """What it has fired with."""
        return self.successResultOf(waiting)

    def make(self, path: str, data: bytes | None = None, **options: bool) -> str:
        """Create a node and answer its path."""
        made: str = self.done(self.local.create(path, data, **options))
        return made


class VerbTests(LocalCase):
    """Each verb of the interface."""

    def test_interface(self) -> None:
        """It is an ICoordinator."""
        verifyObject(ICoordinator, self.local)
        verifyObject(ICoordinator, LocalCoordinator.in_memory(self.clock))

    def test_create(self) -> None:
        """A created node is there for everybody, with its data."""
        self.assertEqual(self.make("/a", b"1"), "/a")
        data, stat = self.done(self.other.get("/a"))
        self.assertEqual((data, stat.ephemeral_owner), (b"1", 0))
        self.failureResultOf(self.local.create("/a"), NodeExists)
        self.failureResultOf(self.local.create("/no/a"), NoNode)

    def test_ephemeral(self) -> None:
        """An ephemeral belongs to the session and has no children."""
        self.make("/e", ephemeral=True)
        stat = self.done(self.local.exists("/e"))
        self.assertEqual(stat.ephemeral_owner, self.local.session_id)
        self.failureResultOf(self.local.create("/e/x"), NoChildrenForEphemerals)

    def test_sequence(self) -> None:
        """A sequence node's path has ten digits more."""
        self.assertEqual(self.make("/s-", sequence=True), "/s-0000000000")
        self.assertEqual(
            self.make("/s-", ephemeral=True, sequence=True), "/s-0000000001"
        )
        stat = self.done(self.local.exists("/s-0000000001"))
        self.assertNotEqual(stat.ephemeral_owner, 0)

    def test_make_parents(self) -> None:
        """Missing parents are made, persistent and without data; others are left as
        they are."""
        self.make("/a", b"kept")
        made = self.make("/a/b/c/d", b"1", ephemeral=True, make_parents=True)
        self.assertEqual(made, "/a/b/c/d")
        self.assertEqual(self.done(self.local.get("/a"))[0], b"kept")
        for path in ("/a/b", "/a/b/c"):
            data, stat = self.done(self.local.get(path))
            self.assertEqual((data, stat.ephemeral_owner), (b"", 0))
        self.assertEqual(
            self.make("/q/", sequence=True, make_parents=True), "/q/0000000000"
        )
        self.failureResultOf(self.local.create("/a", make_parents=True), NodeExists)

    def test_delete(self) -> None:
        """A node goes by version and without children only."""
        self.make("/a/b", make_parents=True)
        self.failureResultOf(self.local.delete("/a"), NotEmpty)
        self.failureResultOf(self.local.delete("/a/b", 3), BadVersion)
        self.assertIsNone(self.done(self.local.delete("/a/b", 0)))
        self.failureResultOf(self.local.delete("/a/b"), NoNode)
        self.assertIsNone(self.done(self.other.exists("/a/b")))

    def test_set(self) -> None:
        """New data come with a new version; no data reads as empty."""
        self.make("/a", b"1")
        stat = self.done(self.local.set("/a", b"22", 0))
        self.assertEqual((stat.version, stat.data_length), (1, 2))
        self.failureResultOf(self.local.set("/a", b"", 0), BadVersion)
        self.failureResultOf(self.local.set("/no", b""), NoNode)
        self.done(self.local.set("/a", None))
        self.assertEqual(self.done(self.local.get("/a"))[0], b"")

    def test_children(self) -> None:
        """The names of the children come sorted."""
        for name in ("b", "c", "a"):
            self.make(f"/p/{name}", make_parents=True)
        self.assertEqual(self.done(self.local.get_children("/p")), ["a", "b", "c"])
        self.assertEqual(self.done(self.local.get_children("/p/a")), [])

    def test_missing(self) -> None:
        """What is not there has no stat, and no data or children either."""
        self.assertIsNone(self.done(self.local.exists("/no")))
        self.failureResultOf(self.local.get("/no"), NoNode)
        self.failureResultOf(self.local.get_children("/no"), NoNode)

    def test_bad_paths(self) -> None:
        """A path that is none fails the Deferred, and makes nothing."""
        for path in ("", "a", "a/b", "/a/", "/a//b", "/a/../b"):
            for call in (
                lambda path: self.local.create(path),
                lambda path: self.local.create(path, make_parents=True),
                lambda path: self.local.delete(path),
                lambda path: self.local.exists(path),
                lambda path: self.local.get(path),
                lambda path: self.local.set(path, b""),
                lambda path: self.local.get_children(path),
                lambda path: self.local.exists_and_watch(path),
                lambda path: self.local.get_and_watch(path),
                lambda path: self.local.get_children_and_watch(path),
            ):
                self.failureResultOf(call(path), BadArguments)
        self.assertEqual(self.done(self.local.get_children("/")), ["zookeeper"])
        self.assertEqual(self.realm.tree.watches.count, 0)

    def test_transaction(self) -> None:
        """A transaction answers a path, a stat or nothing for each operation."""
        self.make("/a", b"1")
        answers = self.done(
            self.local.transaction(
                [
                    Create("/a/s-", b"x", ephemeral=True, sequence=True),
                    SetData("/a", b"2", 0),
                    Check("/a", 1),
                    Create("/b"),
                    Delete("/b", 0),
                ]
            )
        )
        path, stat, *others = answers
        self.assertEqual((path, stat.version), ("/a/s-0000000000", 1))
        self.assertEqual(others, [None, "/b", None])

    def test_failed_transaction(self) -> None:
        """A transaction that fails tells which operation and why, and does nothing."""
        before = self.realm.tree.zxid
        failure = self.failureResultOf(
            self.local.transaction([Create("/a"), Check("/a", 5), Delete("/none")]),
            TransactionFailed,
        )
        self.assertEqual(failure.value.index, 1)
        self.assertIsInstance(failure.value.cause, BadVersion)
        self.assertIsNone(self.done(self.local.exists("/a")))
        self.assertEqual(self.realm.tree.zxid, before)

    def test_nothing_to_do(self) -> None:
        """An empty transaction answers nothing, and sync answers at once."""
        self.assertEqual(self.done(self.local.transaction([])), [])
        self.assertIsNone(self.done(self.local.sync("/")))


class WatchTests(LocalCase):
    """Watches as Deferreds."""

    def exists(self, path: str) -> Deferred[NodeEvent]:
        return self.done(self.local.exists_and_watch(path))[1]

    def data(self, path: str) -> Deferred[NodeEvent]:
        return self.done(self.local.get_and_watch(path))[2]

    def children(self, path: str) -> Deferred[NodeEvent]:
        return self.done(self.local.get_children_and_watch(path))[1]

    def assert_fires(
        self, watch: Deferred[NodeEvent], kind: EventKind, path: str
    ) -> None:
        """It fires in the next turn, not within the change."""
        self.assertNoResult(watch)
        self.clock.advance(0)
        self.assertEqual(self.done(watch), NodeEvent(kind, path))

    def test_answers(self) -> None:
        """The watching verbs answer what the others do."""
        self.make("/a/b", b"1", make_parents=True)
        stat = self.done(self.local.exists("/a/b"))
        self.assertEqual(self.done(self.local.exists_and_watch("/a/b"))[0], stat)
        self.assertEqual(self.done(self.local.get_and_watch("/a/b"))[:2], (b"1", stat))
        answer = self.done(self.local.get_children_and_watch("/a"))
        self.assertEqual(answer[0], ["b"])
        self.assertIsNone(self.done(self.local.exists_and_watch("/no"))[0])

    def test_data(self) -> None:
        """exists and get watch creation, change and deletion."""
        watch = self.exists("/a")
        self.done(self.other.create("/a"))
        self.assert_fires(watch, EventKind.CREATED, "/a")
        for verb in (self.exists, self.data):
            watch = verb("/a")
            self.done(self.other.set("/a", b""))
            self.assert_fires(watch, EventKind.CHANGED, "/a")
        watch = self.data("/a")
        self.done(self.other.delete("/a"))
        self.assert_fires(watch, EventKind.DELETED, "/a")

    def test_children(self) -> None:
        """get_children watches children that come and go, and the node's end."""
        self.make("/p")
        watch = self.children("/p")
        self.done(self.other.create("/p/a", ephemeral=True))
        self.assert_fires(watch, EventKind.CHILDREN, "/p")
        watch = self.children("/p")
        self.done(self.other.set("/p/a", b"1"))
        self.other.close()
        self.assert_fires(watch, EventKind.CHILDREN, "/p")
        watch = self.children("/p")
        self.done(self.local.delete("/p"))
        self.assert_fires(watch, EventKind.DELETED, "/p")

    def test_no_watch_after_a_failure(self) -> None:
        """get and get_children leave no watch when they fail."""
        self.failureResultOf(self.local.get_and_watch("/no"), NoNode)
        self.failureResultOf(self.local.get_children_and_watch("/no"), NoNode)
        self.assertEqual(self.realm.tree.watches.count, 0)
        self.assertEqual(self.local.watching, {})

    def test_each_fires_once(self) -> None:
        """Each watch is its own and fires once, whatever happens between its event and
        the turn in which it fires."""
        self.make("/a")
        first, second = self.data("/a"), self.data("/a")
        calls: list[NodeEvent] = []
        first.addCallback(calls.append)
        second.addCallback(calls.append)
        self.done(self.local.set("/a", b"1"))
        self.done(self.local.set("/a", b"2"))
        self.done(self.local.delete("/a"))
        self.clock.advance(0)
        self.assertEqual(calls, [NodeEvent(EventKind.CHANGED, "/a")] * 2)
        self.assertEqual(self.local.watching, {})

    def test_set_again_when_fired(self) -> None:
        """A watch that is set anew as the old one fires misses nothing."""
        self.make("/a")
        seen: list[bytes] = []

        def look(_: object = None) -> None:
            data, _, watch = self.done(self.local.get_and_watch("/a"))
            seen.append(data)
            watch.addCallback(look)

        look()
        for data in (b"1", b"2"):
            self.done(self.other.set("/a", data))
        self.clock.advance(0)
        self.done(self.other.set("/a", b"3"))
        self.clock.advance(0)
        self.assertEqual(seen, [b"", b"2", b"3"])

    def test_cancelled(self) -> None:
        """A cancelled watch is forgotten and hears nothing; others do."""
        self.make("/a")
        watches = [self.exists("/a"), self.data("/a"), self.children("/a")]
        kept = self.data("/a")
        for watch in watches:
            watch.cancel()
            self.failureResultOf(watch, CancelledError)
        self.assertEqual(self.realm.tree.watches.count, 1)
        self.done(self.local.delete("/a"))
        self.assert_fires(kept, EventKind.DELETED, "/a")

    def test_cancelled_late(self) -> None:
        """A watch can be cancelled between its event and its turn."""
        watch = self.exists("/a")
        self.make("/a")
        watch.cancel()
        self.failureResultOf(watch, CancelledError)
        self.clock.advance(0)
        self.assertEqual(self.local.watching, {})

    def test_session_end(self) -> None:
        """The end of the session fails its watches and no other's; its own ephemerals
        fire none of them."""
        self.make("/e", ephemeral=True)
        mine = [self.data("/e"), self.exists("/no"), self.children("/")]
        _, others = self.done(self.other.exists_and_watch("/e"))
        self.local.close()
        for watch in mine:
            self.failureResultOf(watch, SessionExpired)
        self.assert_fires(others, EventKind.DELETED, "/e")
        self.assertEqual(self.realm.tree.watches.count, 0)

    def test_event_before_the_end(self) -> None:
        """What had happened before the session's end is told still."""
        watch = self.exists("/a")
        self.make("/a")
        self.local.close()
        self.assert_fires(watch, EventKind.CREATED, "/a")


class SessionTests(LocalCase):
    """Sessions, and what the disk has to do with them."""

    def writes(self) -> list[Callable[[], Deferred[Any]]]:
        """One of each verb that writes."""
        return [
            lambda: self.local.create("/w"),
            lambda: self.local.set("/a", b""),
            lambda: self.local.transaction([Create("/t")]),
            lambda: self.local.sync("/"),
            lambda: self.local.delete("/w"),
        ]

    def test_states(self) -> None:
        """Listeners hear each state."""
        self.local.suspend()
        self.local.open(self.realm)
        self.local.close()
        self.assertEqual(
            self.states,
            [
                SessionState.CONNECTED,
                SessionState.SUSPENDED,
                SessionState.CONNECTED,
                SessionState.CLOSED,
            ],
        )
        self.assertEqual(self.local.session_id, 0)

    def test_without_a_session(self) -> None:
        """Before, after and while suspended every verb fails with ConnectionLost."""
        fresh = LocalCoordinator(self.clock)
        self.assertEqual(fresh.state, SessionState.CONNECTING)
        self.assertEqual(fresh.session_id, 0)
        self.failureResultOf(fresh.get("/"), ConnectionLost)
        for leave in (self.local.suspend, self.local.close):
            leave()
            for call in self.writes():
                self.failureResultOf(call(), ConnectionLost)
            for path in ("/", "/no"):
                self.failureResultOf(self.local.get(path), ConnectionLost)
                self.failureResultOf(self.local.exists(path), ConnectionLost)
                self.failureResultOf(self.local.exists_and_watch(path), ConnectionLost)

    def test_new_session(self) -> None:
        """`open` begins another session; the ephemerals of the old one are gone."""
        self.make("/e", ephemeral=True)
        self.make("/p")
        before = self.local.session_id
        self.local.open(self.realm)
        self.assertNotIn(self.local.session_id, (0, before))
        self.assertIsNone(self.done(self.local.exists("/e")))
        self.assertIsNotNone(self.done(self.local.exists("/p")))

    def test_lasts(self) -> None:
        """The session has no timeout."""
        self.clock.advance(1e6)
        self.assertEqual(self.realm.sessions.expire(), [])

    def test_writes_wait_for_the_disk(self) -> None:
        """A write answers when it is on disk, in order, each once."""
        self.make("/a")
        self.journal.hold()
        waiting = [call() for call in self.writes()]
        order: list[int] = []
        for index, one in enumerate(waiting):
            self.assertNoResult(one)
            one.addCallback(lambda _, index=index: order.append(index))
        self.journal.sync(self.journal.recorded - 1)
        self.assertEqual(order, [0, 1, 2, 3])
        self.journal.sync()
        self.journal.sync()
        self.assertEqual(order, [0, 1, 2, 3, 4])

    def test_reads_do_not_wait(self) -> None:
        """Reads answer at once, with what the process has written."""
        self.journal.hold()
        self.assertNoResult(self.local.create("/a", b"1"))
        self.assertEqual(self.done(self.local.get("/a"))[0], b"1")

    def test_refusals_do_not_wait(self) -> None:
        """A write that is refused says so at once."""
        self.journal.hold()
        self.assertNoResult(self.local.create("/a"))
        self.failureResultOf(self.local.create("/a"), NodeExists)

    def test_writing_when_answered(self) -> None:
        """What a write's answer writes waits for its own turn of the disk."""
        self.journal.hold()
        second: list[Deferred[str]] = []
        first = self.local.create("/a")
        first.addCallback(lambda _: second.append(self.local.create("/b")))
        self.journal.sync()
        self.assertNoResult(second[0])
        self.journal.sync()
        self.assertEqual(self.done(second[0]), "/b")

    def test_suspended_while_waiting(self) -> None:
        """What waits for the disk fails when it never comes; and fires once."""
        for leave in (self.local.suspend, self.local.close):
            self.local.open(self.realm)
            self.journal.hold()
            waiting = self.local.create("/a", sequence=True)
            leave()
            self.failureResultOf(waiting, ConnectionLost)
            self.journal.sync()

    def test_cancelled_while_waiting(self) -> None:
        """A write that is cancelled is done nevertheless, and fires once."""
        self.journal.hold()
        waiting = self.local.create("/a")
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.journal.sync()
        self.assertIsNotNone(self.done(self.local.exists("/a")))

    def test_suspended_without_a_session(self) -> None:
        """Without a session there is nothing to suspend."""
        self.local.close()
        self.local.suspend()
        self.assertEqual(self.local.state, SessionState.CLOSED)

    def test_suspended_keeps_watches(self) -> None:
        """A suspended session keeps its watches, until it ends."""
        _, watch = self.done(self.local.exists_and_watch("/a"))
        self.local.suspend()
        self.assertNoResult(watch)
        self.local.close()
        self.failureResultOf(watch, SessionExpired)
