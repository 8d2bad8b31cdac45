"""Storing rejected messages and delivering them again (spec client 13)."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import Clock, deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from metatwist.client.delivery.acks import without_acks
from metatwist.client.delivery.recover_file import RecoverFile
from metatwist.client.delivery.recover_store import RecoverStore
from metatwist.client.delivery.recovery import Recovery
from metatwist.client.errors import ClientStopped, ListenerFailed, LocalStoreFailed
from metatwist.client.events import RejectionFailed
from metatwist.client.message import ReceivedMessage
from metatwist.client.settings import RecoverySettings
from tests.client.delivery.scripted import Bench, message, number_of

ERROR = ListenerFailed("bad")
TIMEOUT_S = 60
CHILD = """
import sys
from pathlib import Path
from metatwist.client.delivery.recover_file import RecoverFile
from tests.client.delivery.scripted import message
store = RecoverFile(Path(sys.argv[1]), 10**6)
for number in range(10**6):
    store.add(message(number), "billing", 1.0, "bad")
    print(number, flush=True)
"""


def new_path(case: SynchronousTestCase) -> Path:
    """A path at which there is nothing, in a directory that goes with the test."""
    directory = tempfile.mkdtemp()
    case.addCleanup(shutil.rmtree, directory)
    return Path(directory) / "new"


class FileTest(SynchronousTestCase):
    """The file."""

    def setUp(self) -> None:
        self.path = new_path(self) / "deep" / "recover.db"
        self.file = self._open()

    def _open(self, most: int = 100) -> RecoverFile:
        opened = RecoverFile(self.path, most)
        self.addCleanup(opened.close)
        return opened

    def _numbers(self, group: str = "billing", after: int = 0) -> list[int]:
        found = self.file.after("orders", group, after, 100)
        return [number_of(stored.message) for stored in found]

    def test_as_received(self) -> None:
        """A message comes back as it was, extreme numbers and all bytes included."""
        one = message(1)._replace(
            offset=2**63 - 2,
            next_offset=2**63 - 1,
            message_id=-(2**63),
            flag=-1,
            payload=bytes(range(256)),
        )
        self.file.add(one, "billing", 12.5, "bad")
        (stored,) = self.file.after("orders", "billing", 0, 10)
        self.assertEqual(one, stored.message)
        self.assertEqual(
            (12.5, 0, "bad"), (stored.stored_s, stored.failures, stored.error)
        )

    def test_order_and_groups(self) -> None:
        """Messages come in the order of insertion, of the group that is asked for."""
        for number in (5, 1, 3):
            self.file.add(message(number), "billing", 0, "bad")
        self.file.add(message(9), "other", 0, "bad")
        self.assertEqual([5, 1, 3], self._numbers())
        self.assertEqual([9], self._numbers("other"))
        first = self.file.after("orders", "billing", 0, 1)[0]
        self.assertEqual([1, 3], self._numbers(after=first.sequence))

    def test_survives(self) -> None:
        """Another opening finds what was stored, failures included."""
        self.file.add(message(1), "billing", 0, "bad")
        self.file.failed(1, "worse")
        self.file.close()
        self.file = self._open()
        (stored,) = self.file.after("orders", "billing", 0, 10)
        self.assertEqual((1, "worse"), (stored.failures, stored.error))
        self.file.delete(stored.sequence)
        self.assertEqual(0, self.file.count())

    def test_once(self) -> None:
        """A message that is rejected again after a crash is there once."""
        for _ in range(2):
            self.file.add(message(1), "billing", 0, "bad")
        self.assertEqual([1], self._numbers())

    def test_bounded(self) -> None:
        """A full store refuses, until there is room."""
        self.file = self._open(2)
        for number in range(2):
            self.file.add(message(number), "billing", 0, "bad")
        add = self.file.add
        error = self.assertRaises(
            LocalStoreFailed, add, message(2), "billing", 0, "bad"
        )
        self.assertIn(str(self.path), str(error))
        self.file.delete(1)
        self.file.add(message(2), "billing", 0, "bad")
        self.assertEqual([1, 2], self._numbers())

    def test_expiry(self) -> None:
        """What was stored before a time is deleted."""
        for number in range(4):
            self.file.add(message(number), "billing", number, "bad")
        self.assertEqual(2, self.file.expire(2.0))
        self.assertEqual([2, 3], self._numbers())

    def test_unusable(self) -> None:
        """A file of somebody else is refused and left alone, as is no file at all."""
        self.path.parent.mkdir(parents=True)
        self.path.write_text("something else, long enough to be no database" * 30)
        self.assertRaises(LocalStoreFailed, self.file.count)
        self.path.unlink()
        other = sqlite3.connect(self.path)
        other.execute("CREATE TABLE t (a)")
        other.close()
        self.assertRaises(LocalStoreFailed, self.file.count)
        self.path.unlink()
        self.assertEqual(0, self.file.count())

    def test_one_process_at_a_time(self) -> None:
        """A second one is refused while the first has it."""
        self.file.count()
        self.assertRaises(LocalStoreFailed, self._open().count)
        self.file.close()
        self.assertEqual(0, self._open().count())

    def test_spare_file_is_kept(self) -> None:
        """A store that took a spare file stays with it after trouble, though the first
        one is free by then: a message is never deleted in another file."""
        first = self._open()
        first.add(message(1), "billing", 0, "bad")
        spare = RecoverFile(self.path, 2, spare=True)
        self.addCleanup(spare.close)
        spare.add(message(2), "billing", 0, "bad")
        first.close()
        spare.close()
        spare.delete(1)
        self.assertEqual(([1], 0), (self._numbers(), spare.count()))

    def test_any_text(self) -> None:
        """The error of a message may be any text, also one that is no Unicode."""
        self.file.add(message(1), "billing", 0, "bad \ud800")
        self.file.failed(1, "worse \ud800")
        (stored,) = self.file.after("orders", "billing", 0, 10)
        self.assertEqual("worse \\ud800", stored.error)

    def test_commit_in_doubt(self) -> None:
        """After a COMMIT that failed nothing is said to be stored any more; after a
        full disk all goes on."""
        for text, goes_on in (("database or disk is full", True), ("I/O", False)):
            self.file = self._open()
            self.file.count()
            FailingConnection.problem = text
            self.patch(sqlite3, "connect", FailingConnection.connect)
            self.file.close()
            add = self.file.add
            self.assertRaises(LocalStoreFailed, add, message(1), "billing", 0, "bad")
            FailingConnection.problem = ""
            if goes_on:
                add(message(1), "billing", 0, "bad")
                self.assertEqual([1], self._numbers())
            else:
                again = self.assertRaises(LocalStoreFailed, self.file.count)
                self.assertIn("I/O", str(again))
            self.file.close()

    def test_killed(self) -> None:
        """After kill -9 at any point, all that was acknowledged is there, in order, and
        the store works."""
        for wanted in (0, 7, 40):
            argv = [sys.executable, "-c", CHILD, str(self.path)]
            with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
                assert child.stdout is not None
                acknowledged = -1
                while acknowledged < wanted:
                    acknowledged = int(child.stdout.readline())
                os.kill(child.pid, signal.SIGKILL)
                rest = child.stdout.read().split()
                acknowledged = int(rest[-1]) if rest else acknowledged
            numbers = [
                number_of(stored.message)
                for stored in self.file.after("orders", "billing", 0, 10**6)
            ]
            self.assertGreaterEqual(len(numbers), acknowledged + 1)
            self.assertEqual(list(range(len(numbers))), numbers)
            self.file.expire(2.0)
            self.file.close()


class FailingConnection(sqlite3.Connection):
    """Its COMMITs of new rows fail with `problem`, while there is one."""

    problem = ""
    inserted = False

    @classmethod
    def connect(cls, *arguments: Any, **options: Any) -> sqlite3.Connection:
        """As sqlite3.connect."""
        return cls(*arguments, **options)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """As of any connection."""
        self.inserted |= "INSERT" in statement
        if statement == "COMMIT" and self.problem and self.inserted:
            raise sqlite3.OperationalError(self.problem)
        return super().execute(statement, *values)


class FakeStore:
    """A RecoverStore over a file, without a thread."""

    def __init__(self, path: Path, clock: Clock, most: int = 1000) -> None:
        self.file = RecoverFile(path, most)
        self.store = RecoverStore(None, path, most, clock.seconds)
        self.store._file = self.file
        self.store._thread = self  # type: ignore[assignment]
        self.broken = False

    def run(self, call: Any, *arguments: Any) -> Deferred[Any]:
        """As OneThread.run, at once."""
        answer: Deferred[Any] = Deferred()
        try:
            if self.broken:
                raise LocalStoreFailed("no disk")
            answer.callback(call(*arguments))
        except LocalStoreFailed:
            answer.errback(Failure())
        return answer


class RecoveryTest(SynchronousTestCase):
    """Delivering again."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.fake = FakeStore(new_path(self), self.clock)
        self.store = self.fake.store
        self.addCleanup(lambda: self.fake.file.close())
        self.seen: list[int] = []

    def _store(self, *numbers: int) -> None:
        for number in numbers:
            self.successResultOf(
                self.store.reject(message(number), ERROR, "billing", None)
            )

    def _recovery(self, **settings: Any) -> Recovery:
        recovery = Recovery(self.clock, self.store, RecoverySettings(**settings))
        recovery.startService()
        return recovery

    def _see(self, one: ReceivedMessage) -> None:
        self.seen.append(number_of(one))

    @property
    def _waiting(self) -> list[int]:
        found = self.fake.file.after("orders", "billing", 0, 1000)
        return [number_of(stored.message) for stored in found]

    def test_times(self) -> None:
        """The first pass is 5 s after the start, the next ones 300 s after the last."""
        self._recovery().register("orders", "billing", self._see)
        self._store(2, 1)
        self.clock.advance(4.9)
        self.assertEqual([], self.seen)
        self.clock.advance(0.1)
        self.assertEqual(([2, 1], []), (self.seen, self._waiting))
        self._store(3)
        self.clock.advance(299.9)
        self.assertEqual([2, 1], self.seen)
        self.clock.advance(0.1)
        self.assertEqual([2, 1, 3], self.seen)

    def test_nothing_there(self) -> None:
        """As long as nothing was ever rejected no file is made."""
        self._recovery().register("orders", "billing", self._see)
        self.clock.pump([5, 300, 300])
        self.assertFalse(self.store.path.exists())

    def test_many(self) -> None:
        """All are recovered in one pass, in order, failing ones once."""
        self._store(*range(250))

        def listen(one: ReceivedMessage) -> None:
            self._see(one)
            if number_of(one) % 50 == 0:
                raise ValueError("still bad")

        self._recovery().register("orders", "billing", listen)
        self.clock.advance(5)
        self.assertEqual(list(range(250)), self.seen)
        self.assertEqual([0, 50, 100, 150, 200], self._waiting)
        stored = self.fake.file.after("orders", "billing", 0, 1)[0]
        self.assertEqual(1, stored.failures)
        self.assertIn("still bad", stored.error)

    def test_no_listener(self) -> None:
        """Without a listener messages stay; it may come later, and go."""
        recovery = self._recovery()
        self._store(1)
        unregister = recovery.register("orders", "other", self._see)
        self.clock.advance(5)
        unregister()
        unregister = recovery.register("orders", "billing", self._see)
        self.clock.advance(300)
        self.assertEqual(([1], []), (self.seen, self._waiting))
        unregister()
        self._store(2)
        self.clock.advance(300)
        self.assertEqual(([1], [2]), (self.seen, self._waiting))

    def test_deferreds(self) -> None:
        """One message at a time; a Deferred is waited for, in bounded time."""
        running: list[Deferred[None]] = []

        def listen(one: ReceivedMessage) -> Deferred[None]:
            self._see(one)
            running.append(Deferred())
            return running[-1]

        self._store(1, 2)
        recovery = self._recovery(listener_timeout_s=60)
        recovery.register("orders", "billing", listen)
        self.clock.advance(5)
        self.assertEqual(([1], [1, 2]), (self.seen, self._waiting))
        running[0].callback(None)
        self.assertEqual(([1, 2], [2]), (self.seen, self._waiting))
        self.clock.advance(60)
        self.assertEqual([2], self._waiting)

    def test_two_consumers(self) -> None:
        """Of those who recover from one store, one has a message at a time; the other
        one gets it if it failed, or was not delivered."""
        running: list[Deferred[None]] = []

        def listen(one: ReceivedMessage) -> Deferred[None]:
            self._see(one)
            running.append(Deferred())
            return running[-1]

        self._store(1, 2, 3)
        first, second = self._recovery(), self._recovery()
        first.register("orders", "billing", listen)
        second.register("orders", "billing", self._see)
        self.clock.advance(5)
        self.assertEqual([1], self.seen)
        running[0].errback(ValueError("bad"))
        self.assertEqual([1, 2], self.seen)
        self.clock.advance(300)
        self.assertEqual([1, 2, 1], self.seen)
        stopped = first.stopService()
        running[1].callback(None)
        self.successResultOf(stopped)
        self.clock.advance(300)
        self.assertEqual(([1, 2, 1, 3], []), (self.seen, self._waiting))

    def test_stop_gives_back(self) -> None:
        """A message whose listener was cancelled by a stop comes to another one."""
        self._store(1)
        first = self._recovery(stop_timeout_s=3)
        first.register("orders", "billing", lambda _: Deferred())
        self.clock.advance(5)
        stopped = first.stopService()
        self.clock.advance(3)
        self.successResultOf(stopped)
        self._recovery().register("orders", "billing", self._see)
        self.clock.advance(5)
        self.assertEqual(([1], []), (self.seen, self._waiting))

    def test_taken_by_pages(self) -> None:
        """Who takes messages gets those that nobody has, also behind a page of taken
        ones, and all that was given back."""
        self._store(*range(6))

        def take(sequence: int, most: int) -> list[int]:
            taken = self.store.take("orders", "billing", sequence, most)
            return [number_of(one.message) for one in self.successResultOf(taken)]

        self.assertEqual([0, 1, 2, 3], take(0, 4))
        self.assertEqual([4, 5], take(0, 2))
        self.assertEqual([], take(0, 2))
        stored = self.fake.file.after("orders", "billing", 0, 2)
        self.store.give_back(stored)
        self.assertEqual([0, 1], take(0, 10))
        self.successResultOf(self.store.failed(stored[1].sequence, "worse"))
        self.successResultOf(self.store.delete(stored[0].sequence))
        self.assertEqual([1], take(0, 10))

    def test_manual_acks(self) -> None:
        """A listener with acks recovers what it acknowledges, and no other (W21)."""

        def listen(one: ReceivedMessage, acks: Any) -> None:
            if number_of(one) == 1:
                acks.ack()
            elif number_of(one) == 2:
                acks.rollback()

        self._store(1, 2, 3)
        recovery = self._recovery()
        recovery.register("orders", "billing", without_acks(listen))
        self.clock.advance(5)
        self.assertEqual([2, 3], self._waiting)

    def test_expiry(self) -> None:
        """Old messages are deleted, also those that nobody listens for."""
        self._store(1)
        self.clock.advance(100)
        self._store(2)
        self._recovery(expiry_s=50)
        self.clock.advance(5)
        self.assertEqual([2], self._waiting)

    def test_store_that_fails(self) -> None:
        """It is tried again in the next pass."""
        self._store(1)
        self._recovery().register("orders", "billing", self._see)
        self.fake.broken = True
        self.clock.advance(5)
        self.fake.broken = False
        self.clock.advance(300)
        self.assertEqual(([1], []), (self.seen, self._waiting))

    def test_stop(self) -> None:
        """A stop ends the pause at once, waits for the running listener, and cancels it
        in the end: its message stays."""
        self.successResultOf(self._recovery().stopService())
        self.assertEqual([], self.clock.getDelayedCalls())
        for fires in (True, False):
            running: Deferred[None] = Deferred()
            self._store(1, 2)
            recovery = self._recovery(stop_timeout_s=3)
            recovery.register("orders", "billing", lambda _: running)  # noqa: B023
            self.clock.advance(5)
            stopped = recovery.stopService()
            self.assertNoResult(stopped)
            if fires:
                running.callback(None)
            else:
                self.clock.advance(3)
            self.successResultOf(stopped)
            self.assertEqual([2] if fires else [2, 1], self._waiting)
            self.assertEqual([], self.clock.getDelayedCalls())

    def test_full_store_holds_the_partition(self) -> None:
        """A delivery waits while the store is full, and loses nothing."""
        fake = FakeStore(new_path(self), self.clock, most=1)
        self.addCleanup(fake.file.close)
        bench = Bench(4)

        def listen(one: ReceivedMessage) -> None:
            if number_of(one) < 2:
                raise ValueError("bad")

        bench.deliver(listen, rejection=fake.store, most_deliveries=1)
        bench.clock.advance(1)
        self.assertEqual(1, bench.done)
        self.assertIsInstance(bench.told(RejectionFailed)[0].error, LocalStoreFailed)
        fake.file.delete(1)
        bench.clock.advance(1)
        self.assertEqual(4, bench.done)


class ThreadTest(TestCase):
    """On its thread."""

    @inlineCallbacks
    def test_store_on_a_thread(self) -> Any:
        """All calls work by way of the thread, and fail with ClientStopped once it is
        closed; a second close fires too."""
        store = RecoverStore(reactor, new_path(self))
        where = yield store.reject(message(1), ERROR, "billing", None)
        self.assertIn(str(store.path), where)
        for number in (2, 3):
            store.reject(message(number), ERROR, "billing", None)
        self.assertEqual(3, (yield store.count()))
        found = yield store.after("orders", "billing", 0, 10)
        self.assertEqual([1, 2, 3], [number_of(stored.message) for stored in found])
        yield store.failed(found[0].sequence, "worse")
        yield store.delete(found[1].sequence)
        last = store.count()
        yield store.close()
        self.assertEqual(2, self.successResultOf(last))
        yield store.close()
        yield self.assertFailure(store.count(), ClientStopped)

    @inlineCallbacks
    def test_delivery_into_the_store(self) -> Any:
        """A poisonous message ends up in the store, and the partition goes on."""
        directory = new_path(self)
        store = RecoverStore.in_directory(reactor, directory)
        self.assertFalse(directory.exists())
        bench = Bench(4)

        def listen(one: ReceivedMessage) -> None:
            if number_of(one) == 1:
                raise ValueError("bad")

        bench.deliver(listen, rejection=store, most_deliveries=1)
        for _ in range(TIMEOUT_S * 100):
            if bench.done == 4:
                break
            yield deferLater(reactor, 0.01)
        self.assertEqual(4, bench.done)
        self.assertEqual(1, (yield store.count()))
        self.assertEqual(directory, store.path.parent)
        yield store.close()

    @inlineCallbacks
    def test_unwritable(self) -> Any:
        """A path that cannot be a file is told with the path."""
        store = RecoverStore(reactor, "/proc/none/recover.db")
        error = yield self.assertFailure(store.count(), LocalStoreFailed)
        self.assertIn("/proc/none", str(error))
        yield store.close()
