"""`python -m tests.crash.corpus --megabytes N`: real text in, and out whole.

Every line of Python's own sources, and of whatever else is named, is one message. Ten
connections put them into eight partitions; then every partition is read back and its
digest, over every message with its offset, compared with that of what was acknowledged.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from attrs import frozen

from tests.support.wire_client import WireClient, put_request, read_all

from .own_broker import OwnBroker

CONNECTIONS = 10
PARTITIONS = 8
IN_FLIGHT = 64
TOPIC = "corpus"
_SYSTEM_TEXT = ("/var/lib/apt/lists", "/var/lib/dpkg", "/var/log", "/usr/share/doc")


class CorpusError(Exception):
    """What came out is not what went in; the text says where."""


@frozen
class Outcome:
    """What a run moved, and how long it took."""

    messages: int
    megabytes: float
    put_s: float
    get_s: float

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.messages} lines, {self.megabytes:.0f} MB: put in {self.put_s:.1f} s"
            f" over {CONNECTIONS} connections, read back in {self.get_s:.1f} s,"
            f" {PARTITIONS} digests equal"
        )


def text_files(more: Iterable[Path] = ()) -> Iterator[Path]:
    """Python's sources, then `more`, then what text the system has."""
    library = Path(sysconfig.get_paths()["stdlib"])
    packages = Path(sysconfig.get_paths()["purelib"])
    yield from sorted(library.rglob("*.py"))
    if not packages.is_relative_to(library):
        yield from sorted(packages.rglob("*.py"))
    for root in (*more, *map(Path, _SYSTEM_TEXT)):
        if root.is_file():
            yield root
        else:
            yield from sorted(path for path in root.rglob("*") if path.is_file())


def lines(paths: Sequence[Path], most_bytes: int) -> Iterator[bytes]:
    """Lines with their ends, from the front again until `most_bytes` are given."""
    given = 0
    while True:
        given_before = given
        for path in paths:
            try:
                text = path.read_bytes()
            except OSError:
                continue
            for line in text.splitlines(keepends=True):
                yield line
                given += len(line)
                if given >= most_bytes:
                    return
        if given == given_before:
            raise CorpusError("no text found")


class Digest:
    """A digest of messages with their offsets, whatever order they come in.

    The sum of one hash each, so that it needs no memory and no sorting.
    """

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self._sum = 0

    def add(self, offset: int, message: bytes) -> None:
        """Take in one message."""
        self.count += 1
        self.size_bytes += len(message)
        one = hashlib.blake2b(b"%d:" % offset + message, digest_size=16)
        self._sum += int.from_bytes(one.digest(), "big")

    def __iadd__(self, other: Digest) -> Digest:
        self.count += other.count
        self.size_bytes += other.size_bytes
        self._sum += other._sum
        return self

    def __str__(self) -> str:
        """Count, bytes and the sum."""
        return f"{self.count} messages, {self.size_bytes} bytes, {self._sum:x}"


class _Putter(threading.Thread):
    """One connection; takes lines from a shared source until that is empty."""

    def __init__(self, port: int, source: Iterator[bytes], lock: threading.Lock):
        super().__init__(daemon=True)
        self._client = WireClient(port, timeout_s=120)
        self._source = source
        self._lock = lock
        self.error: BaseException | None = None
        self.acknowledged = [Digest() for _ in range(PARTITIONS)]

    def run(self) -> None:
        """The thread's work."""
        try:
            with self._client:
                while self._put_some():
                    pass
        except Exception as error:
            self.error = error

    def _put_some(self) -> bool:
        with self._lock:
            some = list(islice(self._source, IN_FLIGHT))
        requests = [
            put_request(TOPIC, number % PARTITIONS, line, opaque=number)
            for number, line in enumerate(some)
        ]
        self._client.send(b"".join(requests))
        for _ in some:
            reply = self._client.reply()
            stored, line = reply.stored, some[reply.opaque]
            self.acknowledged[stored.partition].add(stored.offset, line)
        return bool(some)


def _read_back(client: WireClient, partition: int) -> Digest:
    found, expected = Digest(), 0
    for record in read_all(client, TOPIC, partition):
        if record.offset != expected:
            raise CorpusError(f"a message at {record.offset}, not at {expected}")
        expected = record.end
        found.add(record.offset, record.payload)
    return found


def run(broker: OwnBroker, source: Iterator[bytes]) -> Outcome:
    """Put all of `source` into a fresh, running broker and compare what it returns.

    The broker must have a topic `corpus` with PARTITIONS partitions. Raises
    CorpusError.
    """
    began_s, lock = time.monotonic(), threading.Lock()
    putters = [_Putter(broker.port, source, lock) for _ in range(CONNECTIONS)]
    for putter in putters:
        putter.start()
    for putter in putters:
        putter.join()
        if putter.error is not None:
            raise CorpusError(f"a producer failed: {putter.error!r}")
    put_s, began_s = time.monotonic() - began_s, time.monotonic()
    total = Digest()
    with WireClient(broker.port) as client:
        for partition in range(PARTITIONS):
            put = Digest()
            for putter in putters:
                put += putter.acknowledged[partition]
            got = _read_back(client, partition)
            if str(got) != str(put):
                raise CorpusError(f"{TOPIC}-{partition}: put {put}, got {got}")
            total += got
    get_s = time.monotonic() - began_s
    return Outcome(total.count, total.size_bytes / 1e6, put_s, get_s)


def corpus_broker(work_dir: Path) -> OwnBroker:
    """A broker as `run` wants it; segments small enough to roll a few times."""
    topics = {TOPIC: {"numPartitions": PARTITIONS}}
    return OwnBroker(work_dir, topics, {"maxSegmentSize": 8 << 20})


def main(arguments: list[str]) -> int:
    """Run the program; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.corpus")
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("more", nargs="*", type=Path, help="files or folders of text")
    asked = parser.parse_args(arguments)
    work_dir = Path(tempfile.mkdtemp(prefix="metatwist-corpus-"))
    source = lines(list(text_files(asked.more)), asked.megabytes * 1_000_000)
    broker = corpus_broker(work_dir)
    try:
        with broker:
            print(run(broker, source))
    except CorpusError as error:
        print(f"BREACH: {error}\nkept: {work_dir}")
        return 1
    shutil.rmtree(work_dir)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
