"""Group commit of changed znodes: what is acknowledged, when, and what never is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import SynchronousTestCase, TestCase

from metatwist.coordination.embedded.journal import PAUSE_S, Journal
from metatwist.coordination.embedded.store import (
    MemoryStore,
    NodeStore,
    StoredNode,
    StoreFull,
)
from metatwist.errors import StorageError

OPEN = ((31, "world", "anyone"),)


def node(path: str, version: int = 0) -> StoredNode:
    """A node of some version."""
    return StoredNode(path, b"%d" % version, OPEN, 1, 2, 3, 4, version, 0, 5, 0)


class HeldRun:
    """Keeps each call until the test lets it be made; one at a time, or it fails."""

    def __init__(self) -> None:
        self.batches: list[dict[str, StoredNode | None]] = []
        self._held: tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]] | None
        self._held = None

    def __call__(self, call: Callable[..., Any], *values: Any) -> Deferred[Any]:
        assert self._held is None, "two commits at once"
        waiting: Deferred[Any] = Deferred()
        self._held = waiting, call, values
        self.batches.append(dict(values[0]))
        return waiting

    @property
    def running(self) -> bool:
        """Whether a call is held."""
        return self._held is not None

    def end(self, error: Exception | None = None) -> None:
        """Make the call that is held, or fail it."""
        assert self._held is not None
        (waiting, call, values), self._held = self._held, None
        if error is None:
            waiting.callback(call(*values))
        else:
            waiting.errback(error)


class JournalCase(SynchronousTestCase):
    """A journal over a store in memory, with clock and thread in the test's hands."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1000)
        self.store = MemoryStore()
        self.run_held = HeldRun()
        self.journal = Journal(self.clock, self.store, self.run_held)
        self.told: list[int] = []
        self.failures: list[str] = []
        self.journal.on_durable(self.told.append)
        self.journal.on_failure(self.failures.append)

    def versions(self) -> Mapping[str, int]:
        """What is stored."""
        return {path: one.version for path, one in self.store.nodes.items()}


class GroupCommitTest(JournalCase):
    """Commits that go well."""

    def test_lone_change(self) -> None:
        """A change after a quiet time is committed when the turn ends, and acknowledged
        when the commit has ended, not before."""
        self.assertEqual(1, self.journal.record("/a", node("/a")))
        self.assertFalse(self.run_held.running)
        self.clock.advance(0)
        self.assertTrue(self.run_held.running)
        self.assertEqual((1, 0), (self.journal.recorded, self.journal.durable))
        self.assertEqual([], self.told)
        self.run_held.end()
        self.assertEqual(1, self.journal.durable)
        self.assertEqual([1], self.told)
        self.clock.advance(10)
        self.assertEqual(1, len(self.run_held.batches))

    def test_one_turn_is_one_commit(self) -> None:
        """All changes of a turn are in one commit, each path with its last state."""
        self.journal.record("/a", node("/a", 1))
        self.journal.record("/b", node("/b", 1))
        self.journal.record("/a", node("/a", 2))
        self.assertEqual(4, self.journal.record("/b", None))
        self.clock.advance(0)
        self.assertEqual([{"/a": node("/a", 2), "/b": None}], self.run_held.batches)
        self.run_held.end()
        self.assertEqual([4], self.told)
        self.assertEqual({"/a": 2}, self.versions())

    def test_changes_gather_while_a_commit_runs(self) -> None:
        """What is recorded during a commit is in the next one, and is not acknowledged
        by the first."""
        self.journal.record("/a", node("/a", 1))
        self.clock.advance(0)
        self.journal.record("/a", node("/a", 2))
        self.journal.record("/b", node("/b", 1))
        self.clock.advance(10)
        self.run_held.end()
        self.assertEqual([1], self.told)
        self.clock.advance(0)
        self.assertEqual([1], self.told)
        self.run_held.end()
        self.assertEqual([1, 3], self.told)
        self.assertEqual({"/a": 2, "/b": 1}, self.versions())

    def test_pause(self) -> None:
        """A commit starts a pause after the start of the one before, not sooner."""
        self.journal.record("/a", node("/a", 1))
        self.clock.advance(0)
        self.clock.advance(PAUSE_S / 3)
        self.run_held.end()
        self.journal.record("/a", node("/a", 2))
        self.clock.advance(PAUSE_S / 3)
        self.journal.record("/b", node("/b", 2))
        self.assertFalse(self.run_held.running)
        self.clock.advance(PAUSE_S / 3 + 1e-9)
        self.assertTrue(self.run_held.running)
        self.run_held.end()
        self.assertEqual([1, 3], self.told)

    def test_clock_set_back(self) -> None:
        """A clock that is set back delays a commit by one pause at most."""
        self.journal.record("/a", node("/a", 1))
        self.clock.advance(0)
        self.run_held.end()
        self.clock.rightNow -= 500
        self.journal.record("/a", node("/a", 2))
        self.clock.advance(PAUSE_S)
        self.run_held.end()
        self.assertEqual([1, 2], self.told)

    def test_listener_with_a_defect(self) -> None:
        """A defect in a listener is logged; commits go on."""
        self.journal.on_durable(lambda ticket: 1 // 0)
        self.journal.record("/a", node("/a", 1))
        self.clock.advance(0)
        self.journal.record("/a", node("/a", 2))
        self.run_held.end()
        self.clock.advance(1)
        self.run_held.end()
        self.assertEqual([1, 2], self.told)
        self.assertEqual(2, len(self.flushLoggedErrors(ZeroDivisionError)))

    def test_changes_recorded_by_a_listener(self) -> None:
        """A listener may record changes; they are committed next."""

        def again(ticket: int) -> None:
            if ticket < 3:
                self.journal.record("/a", node("/a", ticket))

        self.journal.on_durable(again)
        self.journal.record("/a", node("/a", 0))
        for _ in range(3):
            self.clock.advance(1)
            self.run_held.end()
        self.assertEqual([1, 2, 3], self.told)
        self.assertEqual({"/a": 2}, self.versions())


class StopTest(JournalCase):
    """The end of a journal."""

    def test_nothing_to_do(self) -> None:
        """A journal that has nothing to commit has stopped at once."""
        self.assertIsNone(self.successResultOf(self.journal.stop()))

    def test_waits_for_all(self) -> None:
        """A stop fires once all is durable: the commit that runs, what has gathered,
        and what comes meanwhile, without pauses."""
        self.journal.record("/a", node("/a", 1))
        self.clock.advance(0)
        self.journal.record("/b", node("/b", 1))
        stopped = self.journal.stop()
        self.run_held.end()
        self.clock.advance(0)
        self.journal.record("/c", node("/c", 1))
        self.run_held.end()
        self.assertNoResult(stopped)
        self.clock.advance(0)
        self.run_held.end()
        self.assertIsNone(self.successResultOf(stopped))
        self.assertEqual([1, 2, 3], self.told)
        self.assertEqual({"/a": 1, "/b": 1, "/c": 1}, self.versions())

    def test_everyone_is_told_before(self) -> None:
        """Before a stop fires the last ticket, or the failure, has been told."""
        outcomes = ((None, 1), (StorageError("gone"), "gone"))
        for error, told in outcomes:
            seen: list[object] = []
            journal = Journal(self.clock, self.store, self.run_held)
            journal.on_durable(seen.append)
            journal.on_failure(seen.append)
            journal.record("/a", node("/a", 1))
            journal.stop().addCallback(seen.append)
            self.clock.advance(1)
            self.run_held.end(error)
            self.assertEqual([told, None], seen)

    def test_cuts_a_pause_short(self) -> None:
        """A stop during a pause commits at once."""
        self.journal.record("/a", node("/a", 1))
        self.clock.advance(0)
        self.run_held.end()
        self.journal.record("/a", node("/a", 2))
        stopped = self.journal.stop()
        self.clock.advance(0)
        self.run_held.end()
        self.successResultOf(stopped)
        self.assertEqual([1, 2], self.told)

    def test_nothing_after_it(self) -> None:
        """Once stopped nothing is committed, and so nothing acknowledged."""
        self.successResultOf(self.journal.stop())
        self.assertEqual(1, self.journal.record("/a", node("/a", 1)))
        self.clock.advance(10)
        self.assertEqual([], self.run_held.batches)
        self.assertEqual(0, self.journal.durable)
        self.successResultOf(self.journal.stop())


class FailureTest(JournalCase):
    """Commits that fail."""

    def _fail(self, error: Exception) -> None:
        self.journal.record("/a", node("/a", 1))
        self.clock.advance(0)
        self.run_held.end()
        self.journal.record("/a", node("/a", 2))
        self.clock.advance(1)
        self.journal.record("/b", node("/b", 1))
        self.run_held.end(error)

    def test_failure_is_final(self) -> None:
        """After a failed commit nothing is committed or acknowledged, ever."""
        self._fail(StorageError("the disk is gone"))
        self.assertEqual("the disk is gone", self.journal.failed)
        self.assertEqual(["the disk is gone"], self.failures)
        self.assertEqual(4, self.journal.record("/c", node("/c")))
        self.clock.advance(10)
        self.assertEqual(2, len(self.run_held.batches))
        self.assertEqual([1], self.told)
        self.assertEqual(1, self.journal.durable)
        self.assertIsNone(self.successResultOf(self.journal.stop()))

    def test_failure_ends_a_stop(self) -> None:
        """A stop that waits for a commit which fails fires, and `failed` tells."""
        self.journal.record("/a", node("/a", 1))
        stopped = self.journal.stop()
        self.clock.advance(0)
        self.run_held.end(StorageError("gone"))
        self.assertIsNone(self.successResultOf(stopped))
        self.assertEqual("gone", self.journal.failed)

    def test_defect(self) -> None:
        """A defect in a commit is logged, and as final as a failed disk."""
        self._fail(OverflowError("too large"))
        self.assertEqual(["too large"], self.failures)
        self.assertEqual(1, len(self.flushLoggedErrors(OverflowError)))

    def test_full_disk(self) -> None:
        """On a full disk the batch is tried again with what has come meanwhile, the
        later state of a path winning, until there is room; then all is acknowledged."""
        self._fail(StoreFull("full"))
        self.assertEqual("full", self.journal.stalled)
        self.assertIsNone(self.journal.failed)
        self.journal.record("/a", node("/a", 3))
        self.clock.advance(1)
        self.run_held.end(StoreFull("full"))
        self.journal.record("/c", node("/c", 1))
        self.clock.advance(PAUSE_S)
        self.assertFalse(self.run_held.running, "no haste on a full disk")
        self.assertEqual([1], self.told)
        self.clock.advance(1)
        self.run_held.end()
        self.assertEqual([1, 5], self.told)
        self.assertEqual({"/a": 3, "/b": 1, "/c": 1}, self.versions())
        self.assertIsNone(self.journal.stalled)
        self.assertEqual([], self.failures)

    def test_stop_on_a_full_disk(self) -> None:
        """A stop on a full disk tries once more at once, and gives up when that fails
        too."""
        self._fail(StoreFull("full"))
        stopped = self.journal.stop()
        self.clock.advance(0)
        self.run_held.end(StoreFull("full"))
        self.assertIsNone(self.successResultOf(stopped))
        self.assertEqual(["full"], self.failures)
        self.clock.advance(10)
        self.assertFalse(self.run_held.running)


class ThreadTest(TestCase):
    """A journal as a broker has it: a real reactor, a thread, a file."""

    @inlineCallbacks
    def test_every_acknowledged_change_is_in_the_file(self) -> Any:
        """Changes recorded one after another from the acknowledgement of the one
        before, and many at once beside them, are all in the file afterwards."""
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        store = NodeStore(Path(temporary.name) / "nodes.db")
        store.open()
        pool = ThreadPool(0, 1)
        pool.start()
        self.addCleanup(pool.stop)

        def run(call: Callable[..., Any], *values: Any) -> Deferred[Any]:
            return deferToThreadPool(reactor, pool, call, *values)

        journal = Journal(reactor, store, run)  # type: ignore[arg-type]
        finished: Deferred[None] = Deferred()
        tickets: list[int] = []

        def durable(ticket: int) -> None:
            tickets.append(ticket)
            if len(tickets) == 30:
                finished.callback(None)
            elif len(tickets) < 30:
                for number in range(100):
                    path = f"/n{number}"
                    journal.record(path, node(path, len(tickets)))

        journal.on_durable(durable)
        journal.record("/first", node("/first"))
        yield finished
        yield journal.stop()
        yield run(store.close)
        self.assertEqual(sorted(set(tickets)), tickets)
        self.assertEqual(journal.recorded, tickets[-1])
        versions = {one.path: one.version for one in store.open().nodes}
        store.close()
        expected = {f"/n{number}": 29 for number in range(100)}
        self.assertEqual({**expected, "/first": 0}, versions)
