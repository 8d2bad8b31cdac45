"""Messages parked on the local disk."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import SynchronousTestCase, TestCase

from metatwist.client.errors import LocalStoreFailed
from metatwist.client.local_store import LocalStore, StoreLimits
from metatwist.client.message import Message, TopicPartition
from metatwist.coordination.names import PartitionName
from tests.client.producing.fakes import new_directory, store_at

PLACE = TopicPartition("t", PartitionName(0, 1))
OTHER = TopicPartition("t", PartitionName(-1, -1))

WRITER = """
import sys
from pathlib import Path
from twisted.internet.defer import maybeDeferred
from metatwist.client.local_store import LocalStore
from metatwist.client.message import Message, TopicPartition
from metatwist.coordination.names import PartitionName

store = LocalStore(Path(sys.argv[1]), maybeDeferred)
store.open()
place = TopicPartition("t", PartitionName(0, 1))
number = 0
while True:
    done = store.append([(place, Message("t", b"%d" % number))])
    done.addErrback(lambda failure: sys.exit(failure.getTraceback()))
    print(number, flush=True)
    number += 1
"""


class LocalStoreTest(SynchronousTestCase):
    """The store, on the test's thread."""

    def setUp(self) -> None:
        self.path = new_directory(self) / "deeper" / "parked.sqlite3"

    def open(self, limits: StoreLimits | None = None) -> LocalStore:
        store = store_at(self.path, limits)
        self.successResultOf(store.open())
        self.addCleanup(store.close)
        return store

    def test_in_order(self) -> None:
        """Each place gives back its own, oldest first, as they were."""
        store = self.open()
        every = [
            Message("t", b"1"),
            Message("t", b"\0\xff", "attribute", "key"),
            Message("t", b"", "", b"key"),
        ]
        self.successResultOf(store.append([(PLACE, one) for one in every]))
        self.successResultOf(store.append([(OTHER, Message("t", b"4"))]))
        found = self.successResultOf(store.oldest(PLACE, 10))
        self.assertEqual([one.message for one in found], every)
        (first,) = self.successResultOf(store.oldest(PLACE, 1))
        self.assertEqual(first, found[0])
        self.assertEqual(store.counts, {PLACE: 3, OTHER: 1})

    def test_remove(self) -> None:
        """What is removed is gone, and a place without messages as well."""
        store = self.open()
        messages = [(PLACE, Message("t", b"12")), (PLACE, Message("t", b"3"))]
        self.successResultOf(store.append(messages))
        found = self.successResultOf(store.oldest(PLACE, 2))
        self.successResultOf(store.remove(PLACE, found[:1]))
        self.assertEqual((store.counts, store.size_bytes), ({PLACE: 1}, 1))
        self.assertEqual(self.successResultOf(store.oldest(PLACE, 2)), found[1:])
        self.successResultOf(store.remove(PLACE, found[1:]))
        self.assertEqual((store.counts, store.size_bytes), ({}, 0))

    def test_reopened(self) -> None:
        """It is all there when opened again, and an id is never used twice."""
        store = self.open()
        self.successResultOf(store.append([(PLACE, Message("t", b"a"))]))
        (first,) = self.successResultOf(store.oldest(PLACE, 1))
        self.successResultOf(store.remove(PLACE, [first]))
        self.successResultOf(store.append([(PLACE, Message("t", b"bc"))]))
        self.successResultOf(store.close())
        again = self.open()
        self.assertEqual((again.counts, again.size_bytes), ({PLACE: 1}, 2))
        (second,) = self.successResultOf(again.oldest(PLACE, 1))
        self.assertGreater(second.id, first.id)

    def test_bounded(self) -> None:
        """More than the limits is refused as a whole."""
        store = self.open(StoreLimits(most_messages=3, most_bytes=10))
        self.successResultOf(store.append([(PLACE, Message("t", b"12345"))]))
        for bodies in ([b"123456"], [b"", b"", b""]):
            entries = [(PLACE, Message("t", body)) for body in bodies]
            self.failureResultOf(store.append(entries), LocalStoreFailed)
        self.assertEqual(store.counts, {PLACE: 1})
        self.successResultOf(store.append([(PLACE, Message("t", b"12345"))]))

    def test_one_user(self) -> None:
        """A second store on the same file is refused with a reason."""
        self.open()
        error = self.failureResultOf(store_at(self.path).open(), LocalStoreFailed).value
        self.assertIn("in use", str(error))

    def test_foreign_files(self) -> None:
        """A database of something else is left alone."""
        self.path.parent.mkdir(parents=True)
        with sqlite3.connect(self.path) as connection:
            connection.execute("CREATE TABLE mine (x)")
        connection.close()
        self.failureResultOf(store_at(self.path).open(), LocalStoreFailed)

    def test_not_open(self) -> None:
        """Before it is opened and after it is closed everything fails."""
        store = store_at(self.path)
        self.failureResultOf(store.oldest(PLACE, 1), LocalStoreFailed)
        self.successResultOf(store.open())
        self.successResultOf(store.close())
        entries = [(PLACE, Message("t", b""))]
        self.failureResultOf(store.append(entries), LocalStoreFailed)
        self.successResultOf(store.close())

    def test_what_it_cannot_take(self) -> None:
        """A value that SQLite cannot store is refused with all of its call, and the
        store goes on."""
        store = self.open()
        for key in (object(), 2**70, "\ud800"):
            good, bad = Message("t", b"good"), Message("t", b"", None, key)  # type: ignore[arg-type]
            refused = store.append([(PLACE, good), (PLACE, bad)])
            self.failureResultOf(refused, LocalStoreFailed)
        self.successResultOf(store.append([(PLACE, good)]))
        self.assertEqual(len(self.successResultOf(store.oldest(PLACE, 9))), 1)
        self.assertEqual(store.counts, {PLACE: 1})

    def _failing(self) -> tuple[LocalStore, set[str]]:
        """A store with one message, and the statements that fail."""
        failing: set[str] = set()

        class Failing(sqlite3.Connection):
            """Some statements fail."""

            def execute(self, statement: str, *rest: Any) -> Any:
                if statement in failing:
                    raise sqlite3.OperationalError("disk I/O error")
                return super().execute(statement, *rest)

        connect = sqlite3.connect

        def connect_failing(*args: Any, **named: Any) -> Any:
            return connect(*args, factory=Failing, **named)

        self.patch(sqlite3, "connect", connect_failing)
        store = self.open()
        self.successResultOf(store.append([(PLACE, Message("t", b"first"))]))
        return store, failing

    def test_nothing_was_committed(self) -> None:
        """After a write that failed before its commit the next one is tried, though
        it could not even be rolled back."""
        store, failing = self._failing()
        bad = Message("t", b"", None, object())  # type: ignore[arg-type]
        for number, statement in enumerate(("BEGIN IMMEDIATE", "ROLLBACK"), 2):
            failing.add(statement)
            self.failureResultOf(store.append([(PLACE, bad)]), LocalStoreFailed)
            failing.clear()
            self.successResultOf(store.append([(PLACE, Message("t", b"next"))]))
            found = self.successResultOf(store.oldest(PLACE, 9))
            self.assertEqual(len(found), number)

    def test_commit_failed(self) -> None:
        """After a commit that failed nothing is said to be stored any more: it is not
        known what is on the disk."""
        store, failing = self._failing()
        entries = [(PLACE, Message("t", b"next"))]
        failing.add("COMMIT")
        self.failureResultOf(store.append(entries), LocalStoreFailed)
        failing.clear()
        error = self.failureResultOf(store.append(entries), LocalStoreFailed).value
        self.assertIn("disk I/O error", str(error))

    def test_killed(self) -> None:
        """What a process had appended before `kill -9` is there, in order."""
        self.path.parent.mkdir(parents=True)
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(self.path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        with child:
            assert child.stdout is not None
            told = [int(child.stdout.readline()) for _ in range(25)]
            child.kill()
            told += [int(line) for line in child.stdout if line.endswith(b"\n")]
        store = self.open()
        found = self.successResultOf(store.oldest(PLACE, 10**6))
        numbers = [int(one.message.body) for one in found]
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertLessEqual(told[-1], numbers[-1])


class ThreadTest(TestCase):
    """The store on its own thread."""

    @inlineCallbacks
    def test_on_thread(self) -> object:
        """Calls begin in order, though none is waited for, and nothing is left over."""
        from twisted.internet import reactor

        path = new_directory(self) / "parked.sqlite3"
        store = LocalStore.on_thread(reactor, path)
        store.open()
        for number in range(20):
            store.append([(PLACE, Message("t", b"%d" % number))])
        found = yield store.oldest(PLACE, 100)
        self.assertEqual([int(one.message.body) for one in found], list(range(20)))
        self.assertEqual(store.counts, {PLACE: 20})
        yield store.close()
        alive = [one for one in threading.enumerate() if "local store" in one.name]
        self.assertEqual(alive, [])
