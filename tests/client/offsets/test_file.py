"""Offsets in a local file: the contract, sharing, gathering, Java's form."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults, inlineCallbacks, succeed
from twisted.trial.unittest import SynchronousTestCase, TestCase

from metatwist.client.errors import OffsetStorageFailed
from metatwist.client.offsets import file as file_module
from metatwist.client.offsets.file import FileOffsets
from metatwist.client.offsets.interface import Claim, Commit
from metatwist.coordination.formats import OffsetRecord
from tests.client.offsets.offset_contract import GROUP, OffsetContract, place

JAVA_FILE = (
    b'{"g1":[{"topic":"t1","partition":{"brokerId":0,"partition":3},'
    b'"offset":4096,"messageId":-77,"modified":false}]}'
)
OLDER_FILE = (
    b'{"g1": [{"offset": 22, "topic": "t1", "messageId": -1, "modified": true,'
    b' "delay": 0, "partition": {"partition": 3, "brokerId": 0, "autoAck": true,'
    b' "acked": false, "rollback": false}}], "g2": []}\r\n'
)


def commit(offset: int, topic: str = "t1", holds: bool = True) -> Commit:
    """A commit of partition 0-3, as in the sample files."""
    claim = Claim("g1_me", holds=lambda: holds)
    return Commit(place(topic, 0, 3), OffsetRecord(offset), claim)


class FileCase(TestCase):
    """A directory with a file in it that is not there yet."""

    def setUp(self) -> None:
        """Make the directory."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = self.directory / "offsets.json"

    def storage(self, group: str = GROUP) -> FileOffsets:
        """A storage on the file."""
        storage = FileOffsets(reactor, self.path, group)
        self.addCleanup(storage.close)
        return storage

    def load(self, group: str = GROUP) -> Deferred[Any]:
        """The offset of the sample's partition."""
        return self.storage(group).load(place("t1", 0, 3), Claim(f"{group}_me"))


class FileContractTest(OffsetContract, FileCase):
    """The contract."""

    def new_storage(self, group: str = GROUP) -> Any:
        """See OffsetContract."""
        return succeed(self.storage(group))


class JavaFormTest(FileCase):
    """Files of Java clients (spec client 15.2)."""

    @inlineCallbacks
    def test_reads_java(self) -> Any:
        """A file of the Java client is read."""
        self.path.write_bytes(JAVA_FILE)
        self.assertEqual(OffsetRecord(4096, -77), (yield self.load()))

    @inlineCallbacks
    def test_reads_older(self) -> Any:
        """An older one, with more members, is read; -1 is no message id."""
        self.path.write_bytes(OLDER_FILE)
        self.assertEqual(OffsetRecord(22), (yield self.load()))

    @inlineCallbacks
    def test_empty(self) -> Any:
        """An empty file, as Java makes it at first, has no offsets."""
        self.path.write_bytes(b"")
        self.assertIsNone((yield self.load()))
        yield self.storage().commit((commit(9),))
        self.assertEqual(OffsetRecord(9), (yield self.load()))

    @inlineCallbacks
    def test_writes_java(self) -> Any:
        """What is written equals a file of the Java client, byte for byte."""
        self.path.write_bytes(JAVA_FILE.replace(b"4096", b"1"))
        record = OffsetRecord(4096, -77)
        one = Commit(place("t1", 0, 3), record, Claim("g1_me"))
        yield self.storage().commit((one,))
        self.assertEqual(JAVA_FILE, self.path.read_bytes())

    @inlineCallbacks
    def test_other_groups(self) -> Any:
        """Other groups, even ones that cannot be read, stay as they are."""
        others = {"g0": [{"x": 1.5}], "\u00e9": "?", "g2": [{"topic": "t"}]}
        mine = json.loads(JAVA_FILE)
        self.path.write_text(json.dumps({**others, **mine}, ensure_ascii=False))
        yield self.storage().commit((commit(5, "t2"),))
        written = json.loads(self.path.read_bytes())
        self.assertEqual(others, {name: written[name] for name in others})
        self.assertEqual(OffsetRecord(4096, -77), (yield self.load()))

    @inlineCallbacks
    def test_twice_in_it(self) -> Any:
        """Of two entries for one partition the later counts; one is written."""
        entry = json.loads(JAVA_FILE)["g1"][0]
        text = json.dumps({"g1": [entry, {**entry, "offset": 8}]})
        self.path.write_text(text)
        self.assertEqual(OffsetRecord(8, -77), (yield self.load()))
        yield self.storage().commit((commit(9),))
        self.assertEqual(1, len(json.loads(self.path.read_bytes())["g1"]))


class SharingTest(FileCase):
    """Several storages on one file."""

    @inlineCallbacks
    def test_together(self) -> Any:
        """Storages of one file, also of one group, do not erase each other's offsets,
        however their writes overlap."""
        storages = [self.storage(f"g{number % 4}") for number in range(8)]
        waiting = []
        for turn in range(5):
            for number, storage in enumerate(storages):
                waiting.append(storage.commit((commit(turn, f"t{number}"),)))
        yield gatherResults(waiting)
        written = json.loads(self.path.read_bytes())
        found = {
            (group, entry["topic"]): entry["offset"]
            for group, entries in written.items()
            for entry in entries
        }
        self.assertEqual({(f"g{n % 4}", f"t{n}"): 4 for n in range(8)}, found)

    @inlineCallbacks
    def test_locked_out(self) -> Any:
        """A lock that is never released fails the commit, which may be tried again."""
        self.patch(file_module, "LOCK_LIMIT_S", 0.05)
        with open(f"{self.path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            outcome = yield self.storage().commit((commit(5),))
        (error,) = outcome.values()
        self.assertIsInstance(error, OffsetStorageFailed)
        self.assertIn("is locked by another process", str(error))
        self.assertTrue(error.retriable)
        yield self.storage().commit((commit(5),))
        self.assertEqual(OffsetRecord(5), (yield self.load()))

    @inlineCallbacks
    def test_link(self) -> Any:
        """A link to the file stays one, and the file keeps its mode."""
        target = self.directory / "elsewhere.json"
        target.write_bytes(JAVA_FILE)
        target.chmod(0o600)
        self.path.symlink_to(target)
        yield self.storage().commit((commit(5),))
        self.assertTrue(self.path.is_symlink())
        self.assertEqual(0o600, target.stat().st_mode & 0o777)
        self.assertEqual(OffsetRecord(5), (yield self.load()))

    @inlineCallbacks
    def test_own_file(self) -> Any:
        """A group gets a file of its own in a directory, which is made."""
        directory = self.directory / "new" / "one"
        storage = FileOffsets.in_directory(reactor, directory, "g1")
        yield storage.commit((commit(5),))
        yield storage.close()
        names = sorted(os.listdir(directory))
        self.assertEqual(["g1.offsets.json", "g1.offsets.json.lock"], names)

    def test_no_group(self) -> None:
        """A group that no consumer may have names no file."""
        for group in ("", "../g", "a b"):
            with self.assertRaises(ValueError):
                FileOffsets.in_directory(reactor, self.directory, group)


class HeldThreads:
    """Reactor and thread pool: what would run on a thread waits for `run`."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def callFromThread(self, call: Callable[..., object], *values: object) -> None:
        """At once: this is the thread."""
        call(*values)

    def callInThreadWithCallback(
        self, told: Callable[..., object], call: Callable[..., object], *values: Any
    ) -> None:
        """Keep it."""
        self.waiting.append(lambda: told(True, call(*values)) and None)

    def run(self) -> None:
        """Run the one call that waits."""
        (call,) = self.waiting
        self.waiting.clear()
        call()


class GatheringTest(SynchronousTestCase):
    """What comes while a write is under way."""

    def setUp(self) -> None:
        """A storage whose threads the test runs."""
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        self.path = Path(directory) / "offsets.json"
        self.threads: Any = HeldThreads()
        self.storage = FileOffsets(self.threads, self.path, "g1", self.threads)

    def offset(self, topic: str = "t1") -> int | None:
        """What the file says."""
        entries = json.loads(self.path.read_bytes())["g1"]
        return {one["topic"]: one["offset"] for one in entries}.get(topic)

    def test_gathered(self) -> None:
        """Commits during a write become one write of the latest offsets."""
        first = self.storage.commit((commit(1),))
        rest = [self.storage.commit((commit(n), commit(n, "t2"))) for n in (2, 3, 4)]
        self.threads.run()
        self.successResultOf(first)
        self.assertEqual((1, None), (self.offset(), self.offset("t2")))
        self.threads.run()
        for one in rest:
            self.assertEqual([None, None], [*self.successResultOf(one).values()])
        self.assertEqual((4, 4), (self.offset(), self.offset("t2")))
        self.assertEqual([], self.threads.waiting)

    def test_in_order(self) -> None:
        """A load after a commit reads what that has stored."""
        self.storage.commit((commit(1),))
        self.storage.commit((commit(2),))
        load = self.storage.load(place("t1", 0, 3), Claim("g1_me"))
        for _ in range(3):
            self.threads.run()
        self.assertEqual(OffsetRecord(2), self.successResultOf(load))

    def test_asked_late(self) -> None:
        """A claim is asked when its write begins, not when it was given."""
        holds = True
        claim = Claim("g1_me", holds=lambda: holds)
        first = self.storage.commit((commit(1),))
        late = self.storage.commit(
            (Commit(place("t1", 0, 3), OffsetRecord(2), claim), commit(3, "t2"))
        )
        holds = False
        self.threads.run()
        self.threads.run()
        self.successResultOf(first)
        errors = [type(one).__name__ for one in self.successResultOf(late).values()]
        self.assertEqual(["NotOwner", "NoneType"], errors)
        self.assertEqual((1, 3), (self.offset(), self.offset("t2")))

    def test_cancelled(self) -> None:
        """A commit that nobody waits for is written, and closing waits for it."""
        waiting = self.storage.commit((commit(1),))
        waiting.cancel()
        self.failureResultOf(waiting)
        closed = self.storage.close()
        self.assertNoResult(closed)
        self.threads.run()
        self.successResultOf(closed)
        self.assertEqual(1, self.offset())
