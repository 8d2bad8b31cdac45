"""Syncing a lone put in place: when it is done, and how often a stall may follow."""

from __future__ import annotations

import errno
import os
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.inline_sync import SLOW_S, InlineSync
from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.storage.files import FileOps


class TimedFiles(FileOps):
    """An fsync takes `takes_s` of the clock, or fails."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.takes_s = 0.0
        self.error: OSError | None = None

    def sync(self, fd: int) -> None:
        """Nothing but time."""
        self.clock.advance(self.takes_s)
        if self.error is not None:
            raise self.error


class Calm:
    """A turn with one queue, and a job with one file."""

    lone = True
    fd = 7

    def __init__(self, files: int = 1, directories: int = 0) -> None:
        self.files = [self] * files
        self.directories = [self] * directories


class InlineSyncTests(SynchronousTestCase):
    """One put after another."""

    def setUp(self) -> None:
        """All is calm."""
        self.clock = Clock()
        self.clock.advance(100)
        self.files = TimedFiles(self.clock)
        self.numbers = BrokerNumbers(syncs_under_way=1)
        self.turn: Any = Calm()
        self.background_jobs = 0
        self.inline = InlineSync(
            self.files,
            self.numbers,
            self.turn,
            lambda: self.background_jobs > 0,
            self.clock.seconds,
        )

    def sync(self, waiting: int = 1, **job: int) -> Any:
        """Ask for the sync of a job with so many puts waiting for it."""
        shape: Any = Calm(**job)
        return self.inline.sync(shape, waiting)

    def test_lone_put(self) -> None:
        """A lone put on a calm broker is synced in place, and counted."""
        self.assertEqual(self.sync(), (None,))
        self.assertEqual(self.numbers.inline_flushes, 1)

    def test_company(self) -> None:
        """Nothing is synced in place beside other puts, syncs, queues, or work."""
        self.assertIsNone(self.sync(waiting=2))
        self.assertIsNone(self.sync(waiting=0))
        self.assertIsNone(self.sync(files=2))
        self.assertIsNone(self.sync(directories=1))
        self.background_jobs = 1
        self.assertIsNone(self.sync())
        self.background_jobs = 0
        self.numbers.syncs_under_way = 2
        self.assertIsNone(self.sync())
        self.numbers.syncs_under_way = 1
        self.turn.lone = False
        self.assertIsNone(self.sync())
        self.assertEqual(self.numbers.inline_flushes, 0)

    def test_stalls_grow_rare(self) -> None:
        """After a slow fsync none is done in place for a second, then for two, ..."""
        self.files.takes_s = 2 * SLOW_S
        for pause_s in (1, 2, 4):
            self.assertEqual(self.sync(), (None,))
            self.clock.advance(pause_s - 0.1)
            self.assertIsNone(self.sync())
            self.clock.advance(0.2)
        self.assertEqual(self.numbers.inline_stalls, 3)

    def test_quick_again(self) -> None:
        """After many quick ones a stall counts as the first again."""
        self.files.takes_s = 2 * SLOW_S
        self.sync()
        self.clock.advance(2)
        self.files.takes_s = 0
        for _ in range(1000):
            self.sync()
        self.files.takes_s = 2 * SLOW_S
        self.sync()
        self.clock.advance(1.1)
        self.assertEqual(self.sync(), (None,))

    def test_failure(self) -> None:
        """A failed fsync is told as one, and not tried again."""
        error = self.files.error = OSError(errno.EIO, os.strerror(errno.EIO))
        self.assertEqual(self.sync(), (error,))
