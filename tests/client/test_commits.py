"""Commits: by time, by count, when asked; only what changed, until it is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.commits import Commits
from metatwist.client.errors import ClientStopped, NotOwner, OffsetStorageFailed
from metatwist.client.events import CommitFailed, Event
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.guarded import GuardedOffsets
from metatwist.client.offsets.interface import Claim, Commit, CommitOutcome
from metatwist.client.progress import Progress
from metatwist.client.settings import CommitSettings
from metatwist.coordination.formats import OffsetRecord
from metatwist.coordination.names import PartitionName

ONE = TopicPartition("t", PartitionName(0, 0))
TWO = TopicPartition("t", PartitionName(0, 1))
CLAIM = Claim("g_a", 7)


class Storage:
    """Remembers what it is asked to store; a test says what becomes of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[Commit, ...]] = []
        self.answer: Callable[[tuple[Commit, ...]], Deferred[CommitOutcome]]
        self.answer = lambda commits: succeed(
            dict.fromkeys(c.partition for c in commits)
        )

    def commit(self, commits: tuple[Commit, ...]) -> Deferred[CommitOutcome]:
        self.asked.append(commits)
        return self.answer(commits)

    @property
    def offsets(self) -> list[list[tuple[TopicPartition, int]]]:
        return [[(c.partition, c.record.offset) for c in one] for one in self.asked]


class CommitsCase(SynchronousTestCase):
    """Commits with a clock and a scripted storage."""

    settings = CommitSettings(period_s=5)

    def setUp(self) -> None:
        self.clock = Clock()
        self.storage = Storage()
        self.events: list[Event] = []
        self.commits = Commits(
            self.clock,
            GuardedOffsets(self.storage),
            self.settings,
            self.events.append,
        )
        self.commits.start()
        self.progress = Progress(OffsetRecord(10))
        self.commits.track(ONE, CLAIM, self.progress, OffsetRecord(10))


class ByTime(CommitsCase):
    """Every period."""

    def test_only_what_changed(self) -> None:
        """An unchanged offset is not written, a changed one once."""
        self.clock.advance(5)
        self.assertEqual(self.storage.asked, [])
        self.progress.advance(30, -4, 2)
        self.clock.pump([5, 5, 5])
        self.assertEqual(self.storage.offsets, [[(ONE, 30)]])
        self.assertEqual(self.storage.asked[0][0].record, OffsetRecord(30, -4))

    def test_failed_write_is_repeated(self) -> None:
        """What could not be stored is stored with the next commit, and told."""
        error = OffsetStorageFailed("no")
        self.storage.answer = lambda _: succeed({ONE: error})
        self.progress.advance(30, 1, 1)
        self.clock.advance(5)
        self.assertEqual(self.events, [CommitFailed(ONE, error)])
        self.storage.answer = lambda _: succeed({ONE: None})
        self.clock.pump([5, 5])
        self.assertEqual(len(self.storage.asked), 2)

    def test_storage_that_fails_whole(self) -> None:
        """A storage that fails as a whole does not end the commits (W14)."""
        self.storage.answer = lambda _: fail(RuntimeError("bug"))
        self.progress.advance(30, 1, 1)
        self.clock.advance(5)
        self.flushLoggedErrors(RuntimeError)
        self.assertEqual(len(self.events), 1)
        self.clock.advance(5)
        self.flushLoggedErrors(RuntimeError)
        self.assertEqual(len(self.storage.asked), 2)

    def test_storage_that_answers_nonsense(self) -> None:
        """An answer that is no outcome is a failure of all, and does not end the
        commits."""
        nonsense: Any = succeed(None)
        self.storage.answer = lambda _: nonsense
        self.progress.advance(30, 1, 1)
        outcome = self.successResultOf(self.commits.commit())
        self.assertIsInstance(outcome[ONE], OffsetStorageFailed)
        self.flushLoggedErrors(TypeError)
        self.storage.answer = lambda _: succeed({ONE: None})
        self.clock.advance(5)
        self.assertEqual(len(self.storage.asked), 2)

    def test_not_ours_now(self) -> None:
        """While the claim cannot be proven nothing is written, and whoever asks for a
        commit is told; when it can be again the offset is stored."""
        ours = [False]
        claim = Claim("g_a", 7, lambda: ours[0])
        self.commits.track(ONE, claim, self.progress, OffsetRecord(10))
        self.progress.advance(30, 1, 1)
        self.clock.pump([5, 5, 5])
        for _ in range(2):
            outcome = self.successResultOf(self.commits.commit([ONE]))
            self.assertIsInstance(outcome[ONE], NotOwner)
        self.assertEqual(self.storage.asked, [])
        ours[0] = True
        self.clock.advance(5)
        self.assertEqual(self.storage.offsets, [[(ONE, 30)]])

    def test_fenced(self) -> None:
        """What the storage refuses as somebody else's is refused again, each time."""
        error = NotOwner("gone")
        self.storage.answer = lambda _: succeed({ONE: error})
        self.progress.advance(30, 1, 1)
        for _ in range(2):
            outcome = self.successResultOf(self.commits.commit([ONE]))
            self.assertEqual(outcome, {ONE: error})

    def test_slow_storage(self) -> None:
        """No second commit begins while one is under way."""
        slow: Deferred[CommitOutcome] = Deferred()
        self.storage.answer = lambda _: slow
        self.progress.advance(30, 1, 1)
        self.clock.pump([5, 5])
        self.progress.advance(50, 1, 1)
        self.clock.advance(5)
        self.assertEqual(len(self.storage.asked), 1)
        self.storage.answer = lambda _: succeed({ONE: None})
        slow.callback({ONE: None})
        self.clock.advance(5)
        self.assertEqual(self.storage.offsets, [[(ONE, 30)], [(ONE, 50)]])

    def test_back(self) -> None:
        """An offset that has gone back is stored too."""
        self.progress.move(0)
        self.clock.advance(5)
        self.assertEqual(self.storage.offsets, [[(ONE, 0)]])

    def test_stopped(self) -> None:
        """Nothing is committed by itself after the end, and no timer is left."""
        self.progress.advance(30, 1, 1)
        self.commits.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class Asked(CommitsCase):
    """By the user."""

    def test_waits_for_its_turn(self) -> None:
        """A commit behind one under way stores what is done when it begins."""
        slow: Deferred[CommitOutcome] = Deferred()
        self.storage.answer = lambda _: slow
        self.progress.advance(30, 1, 1)
        first = self.commits.commit()
        self.progress.advance(50, 1, 1)
        second = self.commits.commit()
        self.storage.answer = lambda _: succeed({ONE: None})
        slow.callback({ONE: None})
        self.assertEqual(self.successResultOf(first), {ONE: None})
        self.assertEqual(self.successResultOf(second), {ONE: None})
        self.assertEqual(self.storage.offsets, [[(ONE, 30)], [(ONE, 50)]])

    def test_cancelled(self) -> None:
        """Cancelling ends the wait; what is being written is written, and the next
        commit waits for it."""
        writing: Deferred[CommitOutcome] = Deferred()
        self.storage.answer = lambda _: writing
        self.progress.advance(30, 1, 1)
        waiting = self.commits.commit()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.assertFalse(writing.called)
        self.progress.advance(50, 1, 1)
        after = self.commits.commit()
        self.assertEqual(len(self.storage.asked), 1)
        self.storage.answer = lambda _: succeed({ONE: None})
        writing.callback({ONE: None})
        self.assertEqual(self.successResultOf(after), {ONE: None})
        self.assertEqual(self.storage.offsets, [[(ONE, 30)], [(ONE, 50)]])
        self.assertEqual(self.events, [])

    def test_storage_that_never_answers(self) -> None:
        """At the end everybody is told, and a late answer is nothing."""
        writing: Deferred[CommitOutcome] = Deferred()
        self.storage.answer = lambda _: writing
        self.progress.advance(30, 1, 1)
        first, second = self.commits.commit(), self.commits.commit([ONE])
        self.commits.stop()
        self.commits.end()
        for one in (first, second):
            self.assertIsInstance(self.successResultOf(one)[ONE], ClientStopped)
        writing.callback({ONE: None})

    def test_some(self) -> None:
        """Only the partitions asked for are stored."""
        other = Progress(OffsetRecord(3))
        self.commits.track(TWO, CLAIM, other, None)
        self.progress.advance(30, 1, 1)
        self.successResultOf(self.commits.commit([TWO]))
        self.assertEqual(self.storage.offsets, [[(TWO, 3)]])

    def test_nothing_to_do(self) -> None:
        """With nothing changed it fires at once, empty."""
        self.assertEqual(self.successResultOf(self.commits.commit()), {})

    def test_untracked(self) -> None:
        """What is not tracked any more is left alone; what is stored is known."""
        self.progress.advance(30, 1, 1)
        self.successResultOf(self.commits.commit())
        self.progress.advance(40, 1, 1)
        self.assertEqual(self.commits.untrack(ONE), OffsetRecord(30, 1))
        self.assertEqual(self.successResultOf(self.commits.commit()), {})

    def test_claimed_anew_meanwhile(self) -> None:
        """The outcome of a commit says nothing of a claim that came after it."""
        slow: Deferred[CommitOutcome] = Deferred()
        self.storage.answer = lambda _: slow
        self.progress.advance(30, 1, 1)
        self.commits.commit()
        again = Progress(OffsetRecord(20))
        self.commits.track(ONE, Claim("g_a", 8), again, OffsetRecord(20))
        slow.callback({ONE: NotOwner("gone")})
        self.storage.answer = lambda _: succeed({ONE: None})
        again.advance(60, 1, 1)
        self.clock.advance(5)
        self.assertEqual(self.storage.offsets[-1], [(ONE, 60)])


class ByCount(CommitsCase):
    """After so many messages."""

    settings = CommitSettings(period_s=1000, every=10)

    def test_every(self) -> None:
        """A commit follows once so many messages are done, over all partitions."""
        other = Progress(OffsetRecord(0))
        self.commits.track(TWO, CLAIM, other, OffsetRecord(0))
        self.progress.advance(20, 1, 5)
        other.advance(20, 1, 4)
        self.assertEqual(self.storage.asked, [])
        other.advance(30, 1, 1)
        self.assertEqual(self.storage.offsets, [[(ONE, 20), (TWO, 30)]])
        self.progress.advance(90, 1, 9)
        self.assertEqual(len(self.storage.asked), 1)


class ByHand(CommitsCase):
    """Auto commit switched off."""

    settings = CommitSettings(auto=False, every=1)

    def test_not_by_itself(self) -> None:
        """Nothing is stored but on demand."""
        self.progress.advance(30, 1, 5)
        self.clock.pump([100, 100])
        self.assertEqual(self.storage.asked, [])
        self.successResultOf(self.commits.commit())
        self.assertEqual(len(self.storage.asked), 1)
