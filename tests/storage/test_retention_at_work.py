"""Retention and renumbering on a live log: files first, then the log lets go."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.background import Background
from metatwist.broker.cleaning import Cleaning
from metatwist.broker.moving import Moving
from metatwist.broker.storage.catalog import Catalog
from metatwist.broker.storage.file_pool import FilePool
from metatwist.broker.storage.partition_log import LogContext, PartitionLog
from metatwist.errors import AdminError
from tests.storage.log_tools import append, consume, contents, records, store
from tests.support.faulty_files import FaultyFiles

NOW_S = 2_000_000_000.0
HOUR_S = 3600


@contextmanager
def logged() -> Iterator[list[str]]:
    """The lines that are logged meanwhile."""
    lines: list[str] = []

    def take(event: LogEvent) -> None:
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(take)
    try:
        yield lines
    finally:
        globalLogPublisher.removeObserver(take)


class HeldThreads:
    """A thread pool and the reactor's side of it; work waits until it is let go."""

    def __init__(self) -> None:
        self.held = False
        self._work: list[Callable[[], None]] = []

    def callInThreadWithCallback(
        self, tell: Callable[[bool, object], None], call: Callable[..., object], *a: Any
    ) -> None:
        """See `ThreadPool`."""

        def work() -> None:
            try:
                result = call(*a)
            except Exception:
                tell(False, Failure())
            else:
                tell(True, result)

        self._work.append(work)
        if not self.held:
            self.let_go()

    def callFromThread(self, call: Callable[..., object], *a: Any) -> None:
        """See the reactor."""
        call(*a)

    def let_go(self, count: int = 1000) -> None:
        """Do the work that waits, in order, and what comes of it."""
        while self._work and count:
            count -= 1
            self._work.pop(0)()


class LiveCase(SynchronousTestCase):
    """A catalog with one partition of five sealed segments and a new one."""

    policy = SimpleNamespace(kind="delete", compress=False, max_age_s=HOUR_S)

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name).resolve()
        self.files = FaultyFiles()
        self.pool = FilePool(self.files, 16)
        self.catalog = Catalog(LogContext(self.files, self.pool, 100))
        self.log = self.catalog.create(self.root, "t", 0)
        self.batch = records(0, [80] * 5)
        store(self.log, self.files, self.batch)
        self.threads = HeldThreads()
        pool: Any = self.threads
        self.background = Background(self.threads, pool)
        self.queues: dict[tuple[str, int], Any] = {}
        settings = SimpleNamespace(delete_policy=self.policy, retention_bytes=0)
        self.topics: Any = SimpleNamespace(
            catalog=self.catalog,
            settings=SimpleNamespace(retention_bytes=0),
            settings_of_stored=lambda: {"t": settings},
            busy={},
            in_work=set(),
            queues=self.queues,
            changed=lambda: None,
            forget=lambda key: self.catalog.logs.pop(key),
            add=lambda topic, partition, log: None,
        )

    def aged(self, *ages_s: float) -> None:
        """Let the oldest segments have been written so long ago."""
        for segment in self.log.segments:
            os.utime(segment.path, (NOW_S, NOW_S))
        for segment, age_s in zip(self.log.segments, ages_s, strict=False):
            os.utime(segment.path, (NOW_S - age_s, NOW_S - age_s))

    def cleaning(self) -> Cleaning:
        """Retention over the catalog."""
        return Cleaning(self.background, self.topics, self.files, lambda: NOW_S)

    def queued(self, topic: str, partition: int, log: PartitionLog) -> None:
        """A partition is in service."""
        self.queues[topic, partition] = SimpleNamespace(
            log=log, when_idle=lambda call: call(), cancel_timer=lambda: None
        )

    def moving(self) -> Moving:
        """Renumbering over the catalog."""
        return Moving(self.background, self.topics, self.files)


class CleaningTests(LiveCase):
    """Deleting old segments under a live log."""

    def run_once(self, cleaning: Cleaning) -> int:
        """One run that goes through at once."""
        return int(self.successResultOf(cleaning.run(["t"])))

    def test_old_ones_go(self) -> None:
        """Segments past their age are gone from the log and from the disk, with their
        sidecars; readers go on with the first that is left."""
        self.aged(2 * HOUR_S, 2 * HOUR_S)
        self.assertEqual(self.run_once(self.cleaning()), 2)
        self.assertEqual(contents(self.log), self.batch[2:])
        self.assertEqual(self.log.start, 200)
        self.assertEqual(len(list(self.log.directory.glob("*.meta"))), 4)
        self.assertEqual(len(list(self.log.directory.glob("*.index"))), 3)

    def test_two_runs_at_once(self) -> None:
        """A run that meets another one at work removes nothing twice, and nothing that
        is not due."""
        self.aged(2 * HOUR_S, 2 * HOUR_S)
        cleaning = self.cleaning()
        self.threads.held = True
        runs = [cleaning.run(["t"]), cleaning.run(["t"])]
        self.threads.let_go()
        removed = [self.successResultOf(one) for one in runs]
        self.assertEqual(removed, [2, 0])
        self.assertEqual(contents(self.log), self.batch[2:])

    def test_readable_while_it_is_removed(self) -> None:
        """A segment stays readable until its file is gone, and a reader that has it
        open finishes."""
        self.aged(2 * HOUR_S)
        self.threads.held = True
        run = self.cleaning().run(["t"])
        self.threads.let_go(2)
        self.assertEqual(contents(self.log), self.batch)
        reading = self.log.open(self.log.segments[0])
        self.threads.let_go()
        self.assertEqual(self.successResultOf(run), 1)
        self.assertEqual(self.files.read(reading.fd, 0, 100), self.batch[0])
        reading.release()

    def test_segment_that_cannot_be_opened(self) -> None:
        """A segment whose file cannot be opened stays, and so does all behind it."""
        self.aged(2 * HOUR_S, 2 * HOUR_S)
        self.log.close()
        self.files.fail("open", matching=self.log.segments[0].path.name)
        cleaning = self.cleaning()
        self.assertEqual(self.run_once(cleaning), 0)
        self.assertEqual(cleaning.failed_segments, 1)
        self.assertEqual(contents(self.log), self.batch)
        self.assertEqual(self.run_once(cleaning), 2)

    def test_what_a_run_tells(self) -> None:
        """A run tells how many went, how many of them into archives, and failures."""
        self.aged(2 * HOUR_S, 2 * HOUR_S)
        self.log.close()
        self.files.fail("open", matching=self.log.segments[0].path.name)
        cleaning = self.cleaning()
        done = self.successResultOf(cleaning.clean(["t"]))
        (sentence,) = done.failed
        self.assertTrue(sentence.startswith("t-0: "), sentence)
        self.assertTrue(sentence.endswith("; the segment stays"), sentence)
        done = self.successResultOf(cleaning.clean(["t"]))
        self.assertEqual((done.removed, done.archived, done.failed), (2, 0, []))

    def test_what_is_not_readable_stays(self) -> None:
        """A segment that readers have not been able to see yet is not removed."""
        append(self.log, records(5, [80] * 3))
        self.aged(*[2 * HOUR_S] * 9)
        self.assertEqual(self.run_once(self.cleaning()), 5)
        self.assertEqual(self.log.start, 500)

    def test_removed_by_hand(self) -> None:
        """Segments whose files are gone are reported once, and the partition begins
        behind them as soon as they are its oldest; what is not due stays."""
        self.aged()
        self.log.segments[0].path.unlink()
        self.log.segments[2].path.unlink()
        self.pool.close()
        cleaning = self.cleaning()
        with logged() as told:
            self.assertEqual(self.run_once(cleaning), 0)
            self.assertEqual(self.run_once(cleaning), 0)
        self.assertEqual(self.log.start, 100)
        self.assertEqual(cleaning.failed_segments, 0)
        for name in ("000.meta", "200.meta"):
            lines = [one for one in told if f"{name} is not there" in one]
            self.assertEqual(len(lines), 1, told)
        os.utime(self.log.segments[0].path, (0, 0))
        self.assertEqual(self.run_once(cleaning), 1)
        self.assertEqual(contents(self.log), self.batch[3:])

    def test_newest_removed_by_hand(self) -> None:
        """Where the newest file is missing nothing is let go of: the disk may be."""
        self.aged()
        for segment in self.log.segments:
            segment.path.unlink()
        cleaning = self.cleaning()
        self.assertEqual(self.run_once(cleaning), 0)
        self.assertEqual(cleaning.failed_segments, 1)
        self.assertEqual(self.log.start, 0)

    def test_busy_partition(self) -> None:
        """A partition that is being moved or deleted is left alone."""
        self.aged(2 * HOUR_S)
        self.topics.busy["t", 0] = "being moved"
        self.assertEqual(self.run_once(self.cleaning()), 0)


class MovingTests(LiveCase):
    """Renumbering a live partition."""

    def setUp(self) -> None:
        super().setUp()
        self.queued("t", 0, self.log)
        self.move = self.moving().move

    def moved(self) -> PartitionLog:
        """The log under its new number."""
        self.successResultOf(self.move("t", 0, 0, 7))
        return self.catalog.logs["t", 7]

    def test_above_the_highest(self) -> None:
        """No partition moves above what 32 bits can say."""
        failure = self.failureResultOf(self.move("t", 0, 0, 1 << 31), AdminError)
        self.assertIn("above 2147483647", failure.getErrorMessage())
        self.assertEqual(self.topics.busy, {})

    def test_all_is_there(self) -> None:
        """A moved partition has its messages, what was not synced before included."""
        more = records(5, [10] * 3)
        append(self.log, more)
        log = self.moved()
        self.assertEqual(log.directory, self.root / "t-7")
        self.assertTrue(log.report.clean)
        self.assertEqual([one.offset for one in consume(log)][-1], 560)
        self.assertEqual(contents(log), [*self.batch, *more])

    def test_names_are_synced(self) -> None:
        """New segments' names are made durable before the move is reported."""
        append(self.log, records(5, [80] * 2))
        self.files.calls.clear()
        self.moved()
        self.assertEqual(self.files.calls["sync_directory"], 2)

    def test_cannot_be_opened(self) -> None:
        """A move that cannot begin changes nothing, and the partition is in service."""
        append(self.log, records(5, [80] * 2))
        self.pool.close()
        self.files.fail("open")
        self.failureResultOf(self.move("t", 0, 0, 7), AdminError)
        self.assertEqual(self.topics.busy, {})
        self.assertTrue((self.root / "t-0").is_dir())
        self.moved()
