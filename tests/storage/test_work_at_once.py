"""Retention, verification, moves and deletions that meet at one partition."""

from __future__ import annotations

import errno
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from metatwist.broker.background import Background
from metatwist.broker.loading import Loading
from metatwist.broker.storage.catalog import Catalog, Discovery
from metatwist.broker.storage.partition_log import LogContext
from metatwist.broker.verifying import Verifying
from metatwist.errors import AdminError
from tests.storage.log_tools import append, contents, records, store
from tests.storage.test_retention_at_work import HOUR_S, LiveCase


class WorkCase(LiveCase):
    """Two partitions of five sealed segments; nothing happens by itself."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.catalog.create(self.root, "t", 1)
        self.other_batch = records(100, [80] * 5)
        store(self.other, self.files, self.other_batch)
        self.queued("t", 0, self.log)
        self.queued("t", 1, self.other)

    def refusal(self, work: Deferred[object]) -> str:
        """Why an operator's work was refused."""
        return str(self.failureResultOf(work, AdminError).value)

    def swap_away(self) -> None:
        """Delete t-1 and let t-0 take its place."""
        self.threads.let_go()
        self.successResultOf(self.moving().delete("t", 1, 1))
        self.queues.pop(("t", 1))
        self.successResultOf(self.moving().move("t", 0, 0, 1))
        self.assertEqual(contents(self.catalog.logs["t", 1]), self.batch)


class RetentionTests(WorkCase):
    """Retention and what moves files."""

    def test_never_in_another_partition(self) -> None:
        """A move to a number where retention is at work is refused, so that retention
        can't delete in the wrong partition; t-1 first loses only its own."""
        old = self.log
        self.aged()
        self.log = self.other
        self.aged(*[2 * HOUR_S] * 5)
        self.threads.held = True
        run = self.cleaning().run(["t"])
        self.threads.let_go(4)  # t-0: nothing due; t-1: the first removal waits
        for work in (self.moving().move("t", 0, 1, 1), self.moving().delete("t", 1, 1)):
            self.assertIn("t-1: retention (or verification) is at", self.refusal(work))
        self.assertEqual(self.topics.busy, {})
        self.threads.let_go()
        self.assertEqual(self.successResultOf(run), 5)
        self.assertEqual(contents(old), self.batch)
        self.threads.held = False
        self.swap_away()

    def test_moved_while_a_run_was_elsewhere(self) -> None:
        """A partition that was moved away before its turn came is left alone."""
        self.aged(2 * HOUR_S)
        self.log = self.other
        self.aged(2 * HOUR_S)
        self.threads.held = True
        run = self.cleaning().run(["t"])
        self.threads.let_go(2)
        self.threads.held = False
        move = self.moving().move("t", 1, 1, 4)
        self.threads.let_go()
        self.assertEqual(self.successResultOf(move), {"moved": ["t-5"]})
        self.assertEqual(self.successResultOf(run), 1)
        self.assertEqual(contents(self.catalog.logs["t", 5]), self.other_batch)

    def test_while_it_is_verified(self) -> None:
        """Retention leaves a partition that is being verified to the next run."""
        self.aged(2 * HOUR_S)
        self.topics.in_work |= {("t", 0), ("t", 1)}
        self.assertEqual(self.successResultOf(self.cleaning().run(["t"])), 0)
        self.topics.in_work.remove(("t", 0))
        self.assertEqual(self.successResultOf(self.cleaning().run(["t"])), 1)
        self.topics.in_work.remove(("t", 1))
        self.assertEqual(self.topics.in_work, set())


class VerificationTests(WorkCase):
    """Verification and what moves files."""

    def setUp(self) -> None:
        super().setUp()
        for segment in self.log.segments[:-1]:
            segment.verified = False
        self.threads.held = True
        self.verifying = Verifying(self.background, self.topics, self.files)
        self.verifying.wait_s = 0

    def left(self) -> int:
        """Segments that are not verified, in all partitions."""
        logs = self.catalog.logs.values()
        return sum(not one.verified for log in logs for one in log.segments)

    def test_goes_through(self) -> None:
        """All is verified, and all is free again."""
        self.verifying.start()
        self.threads.let_go()
        self.assertEqual((self.left(), self.topics.in_work), (0, set()))
        self.assertEqual(contents(self.log), self.batch)

    def test_move_is_refused(self) -> None:
        """What is being verified is not moved, until that has ended."""
        self.verifying.start()
        work = self.moving().move("t", 0, 0, 4)
        self.assertIn("t-0: retention (or verification)", self.refusal(work))
        self.threads.let_go()
        work = self.moving().move("t", 0, 0, 4)
        self.threads.let_go()
        self.assertEqual(self.successResultOf(work), {"moved": ["t-4"]})

    def test_busy_ones_have_their_turn_later(self) -> None:
        """A partition that is taken is not touched, and verified when it is free."""
        self.topics.busy["t", 0] = "being moved"
        self.verifying.start()
        self.threads.let_go(20)
        self.assertEqual(self.left(), 5)
        self.topics.busy.clear()
        self.topics.in_work.add(("t", 0))
        self.threads.let_go(20)
        self.assertEqual(self.left(), 5)
        self.topics.in_work.clear()
        self.threads.let_go()
        self.assertEqual(self.left(), 0)

    def test_cannot_be_read(self) -> None:
        """A segment that cannot be read is tried once, and the others are verified."""
        self.files.fail("read", matching=self.log.segments[1].path.name)
        self.verifying.start()
        self.threads.let_go()
        self.assertEqual(self.left(), 1)
        self.assertEqual(self.background.jobs, 0)


class StoppedTests(WorkCase):
    """Partitions that are stopped."""

    def test_not_moved(self) -> None:
        """A stopped partition is not made to look healthy by a move; it can be
        deleted."""
        self.log.failure = "fsync failed: EIO"
        taken_out: list[bool] = []
        self.topics.changed = lambda: taken_out.append(True)
        refused = self.refusal(self.moving().move("t", 0, 0, 3))
        self.assertEqual(refused, "t-0 is stopped: fsync failed: EIO; restart first")
        self.assertTrue((self.root / "t-0").is_dir())
        self.assertEqual(taken_out, [])
        self.successResultOf(self.moving().delete("t", 0, 0))
        self.assertFalse((self.root / "t-0").exists())

    def test_stops_at_the_last_moment(self) -> None:
        """One whose last sync before the move fails stays where it is, stopped."""
        append(self.log, records(5, [10]))
        self.files.fail("sync", matching=self.log.segments[-1].path.name)
        self.assertIn("is stopped", self.refusal(self.moving().move("t", 0, 0, 3)))
        self.assertIsNotNone(self.catalog.logs["t", 0].failure)
        self.assertEqual(self.topics.busy, {})


class DeletionTests(WorkCase):
    """Deletions that do not go through."""

    def leftover(self) -> Path:
        """What an interrupted deletion of t-0 has left."""
        path = self.root / "metatwist.deleted.t.0"
        path.mkdir()
        (path / "00000000000000000000.meta").write_bytes(b"old")
        return path

    def test_leftover_is_in_the_way(self) -> None:
        """A deletion goes through where an earlier one has left its rest."""
        left = self.leftover()
        self.successResultOf(self.moving().delete("t", 0, 0))
        self.assertFalse(left.exists())
        self.assertNotIn(("t", 0), self.catalog.logs)

    def test_cannot_be_renamed(self) -> None:
        """A partition that cannot be renamed is in service still."""
        self.files.fail("rename", errno.EACCES)
        self.assertIn(
            "not all was deleted", self.refusal(self.moving().delete("t", 0, 0))
        )
        self.assertEqual(contents(self.catalog.logs["t", 0]), self.batch)
        self.assertEqual(self.topics.busy, {})

    def test_cannot_be_moved(self) -> None:
        """A partition whose directory cannot be renamed keeps its number."""
        self.files.fail("rename", errno.EACCES)
        self.assertIn(
            "not all was moved", self.refusal(self.moving().move("t", 0, 0, 3))
        )
        self.assertEqual(contents(self.catalog.logs["t", 0]), self.batch)

    def test_cannot_be_loaded(self) -> None:
        """A partition that cannot be loaded under its new number is known to fail."""
        self.files.fail("entries", errno.EIO)
        self.assertIn(
            "not all was moved", self.refusal(self.moving().move("t", 0, 0, 3))
        )
        self.assertIn(("t", 3), self.catalog.failed)
        self.assertNotIn(("t", 0), self.catalog.logs)

    def test_half_deleted(self) -> None:
        """What cannot be deleted whole is no partition any more."""
        self.files.fail("remove_tree", after=1)
        self.assertIn(
            "not all was deleted", self.refusal(self.moving().delete("t", 0, 0))
        )
        self.assertNotIn(("t", 0), self.catalog.logs)
        self.assertFalse((self.root / "t-0").exists())

    def test_finished_by_the_next_start(self) -> None:
        """A start reports the rest of a deletion and removes it."""
        left = self.leftover()
        self.assertEqual(self.load().directories[0].key, ("t", 0))
        self.assertFalse(left.exists())

    def test_start_that_cannot_finish_it(self) -> None:
        """A rest that cannot be removed keeps no broker from starting."""
        left = self.leftover()
        self.files.fail("remove_tree")
        self.load()
        self.assertTrue(left.exists())

    def load(self) -> Discovery:
        """A start over the same directory."""
        catalog = Catalog(LogContext(self.files, self.pool, 100))
        found = catalog.discover([self.root])
        self.assertEqual(len(found.problems), 1)
        self.assertIn("metatwist.deleted.t.0: its deletion was", found.problems[0])
        clock = Clock()
        clock.callFromThread = self.threads.callFromThread  # type: ignore[attr-defined]
        started = Loading(clock, self.threads, catalog, found).start()  # type: ignore[arg-type]
        clock.pump([0] * 20)
        self.successResultOf(started)
        self.assertEqual(sorted(catalog.logs), [("t", 0), ("t", 1)])
        return found


class BackgroundTests(LiveCase):
    """How much is under way."""

    def test_counts(self) -> None:
        """A job counts from its call to its end, a failed one too."""
        background = Background(self.threads, self.threads)  # type: ignore[arg-type]
        self.threads.held = True
        good, bad = background.run(int, "7"), background.run(int, "x")
        self.assertEqual(background.jobs, 2)
        self.threads.let_go(1)
        self.assertEqual((self.successResultOf(good), background.jobs), (7, 1))
        self.threads.let_go()
        self.failureResultOf(bad, ValueError)
        self.assertEqual(background.jobs, 0)
