"""Offsets in a local file: torn files, full disks, crashes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import inlineCallbacks

from metatwist.client import durable_file
from metatwist.client.errors import OffsetStorageFailed
from metatwist.client.offsets.interface import Claim
from metatwist.client.offsets.java_file import read_group, read_groups
from metatwist.coordination.formats import OffsetRecord
from tests.client.offsets.offset_contract import place
from tests.client.offsets.test_file import JAVA_FILE, FileCase, commit

ROOT = Path(__file__).resolve().parents[3]
GARBAGE = {
    "not JSON": b"\x00" * 64,
    "not UTF-8": b'{"\xff": []}',
    "a list": b"[]",
    "more behind": JAVA_FILE + b"}",
    "no list": b'{"g1": {}}',
    "no entry": b'{"g1": [5]}',
    "no topic": JAVA_FILE.replace(b"topic", b"topik"),
    "no number": JAVA_FILE.replace(b"4096", b'"4096"'),
    "a fraction": JAVA_FILE.replace(b"4096", b"40.96"),
    "a truth": JAVA_FILE.replace(b"4096", b"true"),
    "too big": JAVA_FILE.replace(b"4096", str(2**63).encode()),
    "a broker below 0": JAVA_FILE.replace(b'"brokerId":0', b'"brokerId":-1'),
    "nested": b"[" * 100_000,
}
CHILD = """
import os, signal, sys
from pathlib import Path
from metatwist.client import durable_file
point, path = sys.argv[1:]
real = getattr(os, point)
def die(*arguments):
    if point == "write":
        real(arguments[0], bytes(arguments[1])[:7])
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, point, die)
durable_file.replace_file(Path(path), b'{"g1": "new"}')
"""


class System:
    """The module `os`, some of its calls replaced for one module alone."""

    def __init__(self, **calls: object) -> None:
        self.__dict__.update(calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class BrokenFileTest(FileCase):
    """A file that cannot be read."""

    @inlineCallbacks
    def refused(self, data: bytes) -> Any:
        """Both ways fail, name the file, and leave it as it is."""
        self.path.write_bytes(data)
        load = yield self.assertFailure(self.load(), OffsetStorageFailed)
        outcome = yield self.storage().commit((commit(5),))
        (error,) = outcome.values()
        self.assertIsInstance(error, OffsetStorageFailed)
        self.assertFalse(error.outcome_unknown)
        for one in (load, error):
            self.assertIn(str(self.path), str(one))
        self.assertEqual(data, self.path.read_bytes())

    @inlineCallbacks
    def test_garbage(self) -> Any:
        """A file that is none of offsets fails loads and commits."""
        for data in GARBAGE.values():
            yield self.refused(data)

    @inlineCallbacks
    def test_torn(self) -> Any:
        """A file that was cut short is left alone."""
        for length in (1, 20, len(JAVA_FILE) - 1):
            yield self.refused(JAVA_FILE[:length])

    def test_torn_anywhere(self) -> None:
        """No beginning of a file, and no file with a hole, reads as one without
        offsets."""
        for length in range(1, len(JAVA_FILE)):
            with self.assertRaises(ValueError):
                read_groups(JAVA_FILE[:length])
            holed = JAVA_FILE[:length] + b"\0" * (len(JAVA_FILE) - length)
            with self.assertRaises(ValueError):
                read_group(read_groups(holed), "g1")

    @inlineCallbacks
    def test_repaired(self) -> Any:
        """The storage goes on once the file was repaired."""
        self.path.write_bytes(JAVA_FILE[:9])
        storage = self.storage()
        loading = storage.load(place("t1", 0, 3), Claim("g1_me"))
        yield self.assertFailure(loading, OffsetStorageFailed)
        self.path.write_bytes(JAVA_FILE)
        loaded = yield storage.load(place("t1", 0, 3), Claim("g1_me"))
        self.assertEqual(OffsetRecord(4096, -77), loaded)


class DiskTest(FileCase):
    """The disk fails."""

    @inlineCallbacks
    def failing(self, name: str, code: int) -> Any:
        """Commit while a system call fails; answers the error."""

        def fail(*_: object) -> None:
            raise OSError(code, os.strerror(code))

        patch = self.patch(durable_file, "os", System(**{name: fail}))
        outcome = yield self.storage().commit((commit(5),))
        patch.restore()
        (error,) = outcome.values()
        return error

    @inlineCallbacks
    def test_full(self) -> Any:
        """A full disk leaves the old file, no other one, and the error says so."""
        self.path.write_bytes(JAVA_FILE)
        for call in ("write", "fsync", "replace"):
            error = yield self.failing(call, errno.ENOSPC)
            self.assertIsInstance(error, OffsetStorageFailed)
            self.assertTrue(error.retriable)
            self.assertIn("No space left on device", str(error))
            self.assertEqual(JAVA_FILE, self.path.read_bytes())
            names = sorted(os.listdir(self.directory))
            self.assertEqual(["offsets.json", "offsets.json.lock"], names)
        yield self.storage().commit((commit(5),))
        self.assertEqual(OffsetRecord(5), (yield self.load()))

    @inlineCallbacks
    def test_no_directory(self) -> Any:
        """A path that leads through a file fails as well."""
        (self.directory / "x").write_bytes(b"")
        self.path = self.directory / "x" / "offsets.json"
        outcome = yield self.storage().commit((commit(5),))
        (error,) = outcome.values()
        self.assertIsInstance(error, OffsetStorageFailed)
        yield self.assertFailure(self.load(), OffsetStorageFailed)

    @inlineCallbacks
    def test_part_written(self) -> Any:
        """A write that the system takes in small parts is written whole."""
        real = os.write
        system = System(write=lambda fd, data: real(fd, data[:5]))
        self.patch(durable_file, "os", system)
        yield self.storage().commit((commit(5),))
        self.assertEqual(OffsetRecord(5), (yield self.load()))


class CrashTest(FileCase):
    """The process is killed while it writes."""

    @inlineCallbacks
    def test_killed(self) -> Any:
        """Killed within the write, before the fsync or before the rename, it leaves the
        old file, and the next commit clears up."""
        self.path.write_bytes(JAVA_FILE)
        for point in ("write", "fsync", "replace"):
            argv = [sys.executable, "-c", CHILD, point, str(self.path)]
            done = subprocess.run(argv, cwd=ROOT, timeout=60)
            self.assertEqual(-signal.SIGKILL, done.returncode)
            left = self.directory / "offsets.json.metatwist.tmp"
            self.assertTrue(left.exists())
            self.assertEqual(OffsetRecord(4096, -77), (yield self.load()))
            yield self.storage().commit((commit(5, "t2"),))
            self.assertFalse(left.exists())
            self.assertEqual(2, len(json.loads(self.path.read_bytes())["g1"]))
