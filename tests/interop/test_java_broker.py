"""One data directory, in turn under our broker and under the released Java broker."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from unittest import SkipTest

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.crash.own_broker import OwnBroker
from tests.support.wire_client import (
    Read,
    Stored,
    WireClient,
    chunks,
    put_request,
    read_all,
)

from .java_peers import JavaBroker, JavaBrokerSettings, JavaZooKeeper, find_java

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(600)]

Key = tuple[str, int]
SEGMENT_BYTES = 60_000
TOPICS: Mapping[str, Mapping[str, str | int]] = {
    "events": {"numPartitions": 3},
    "dash-ed.name": {"numPartitions": 2},
    "lazy": {"numPartitions": 1, "unflushThreshold": 1000},
}
KEYS: list[Key] = [
    (topic, partition)
    for topic, keys in TOPICS.items()
    for partition in range(int(keys["numPartitions"]))
]
LARGE_BYTES = 400_000


def messages(tag: bytes) -> list[tuple[int, bytes]]:
    """(flag, payload) of every kind: empty, small, with attributes, odd flags, large
    (below the half megabyte from which on the Java broker loses track, D-2)."""
    attribute = struct.pack(">i", 3) + b"tag" + tag
    found = [
        (0, b""),
        (1, attribute),
        (1, struct.pack(">i", 0) + tag),
        (-2147483648, tag),
        (0, bytes(range(256)) * (LARGE_BYTES // 256)),
        (0, bytes(500)),
    ]
    found += [(0, tag + b"%d" % number + bytes(number % 900)) for number in range(400)]
    return found


class JavaInTurn(SynchronousTestCase):
    """Both brokers on `self.data_dir`, never at once. `self.stored` holds what either
    has acknowledged, by partition and in order."""

    def setUp(self) -> None:
        """Make both, start none."""
        why_not = find_java()
        if why_not is not None:
            raise SkipTest(why_not)
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        system = {"maxSegmentSize": SEGMENT_BYTES}
        self.own = OwnBroker(self.directory / "own", TOPICS, system)
        self.addCleanup(self.own.kill)
        self.data_dir = self.own.data_dir
        self.stored: dict[Key, list[Read]] = {key: [] for key in KEYS}
        self.java_starts = 0

    def start_java(self) -> JavaBroker:
        """A Java broker with a ZooKeeper of its own, both running."""
        self.java_starts += 1
        work_dir = self.directory / f"java-{self.java_starts}"
        zookeeper = JavaZooKeeper(work_dir / "zk")
        settings = JavaBrokerSettings(
            work_dir, system={"maxSegmentSize": SEGMENT_BYTES}, topics=TOPICS
        )
        java = JavaBroker(self.data_dir, settings, zookeeper)
        self.addCleanup(zookeeper.kill)
        self.addCleanup(java.kill)
        zookeeper.start()
        java.start()
        return java

    def put(self, port: int, tag: bytes) -> None:
        """Put every kind of message into every partition of the broker on a port."""
        with WireClient(port) as client:
            for key in KEYS:
                sent = messages(tag)
                for begin in range(0, len(sent), 50):
                    self._put_some(client, key, sent[begin : begin + 50])

    def _put_some(
        self, client: WireClient, key: Key, sent: list[tuple[int, bytes]]
    ) -> None:
        # The Java broker answers, and stores, in any order.
        for opaque, (flag, payload) in enumerate(sent):
            client.send(put_request(*key, payload, opaque, flag))
        answers: dict[int, Stored] = {}
        for _ in sent:
            reply = client.reply()
            answers[reply.opaque] = reply.stored
        self.assertEqual(sorted(answers), list(range(len(sent))))
        found = [
            Read(answers[opaque].offset, answers[opaque].message_id, *one)
            for opaque, one in enumerate(sent)
        ]
        self.stored[key] += sorted(found)

    def bytes_of(self, port: int) -> dict[Key, bytes]:
        """All bytes of all partitions, as the broker on a port serves them."""
        with WireClient(port) as client:
            return {
                key: b"".join(data for _, data in chunks(client, *key)) for key in KEYS
            }

    def assert_serves(self, port: int) -> None:
        """The broker on a port serves what was acknowledged, record by record, and
        every byte that the segments hold."""
        with WireClient(port) as client:
            for key in KEYS:
                self.assertEqual(list(read_all(client, *key)), self.stored[key], key)
        for (topic, partition), data in self.bytes_of(port).items():
            paths = sorted((self.data_dir / f"{topic}-{partition}").glob("*.meta"))
            self.assertGreater(len(paths), 2)
            self.assertEqual(data, b"".join(path.read_bytes() for path in paths))

    def stop_own(self) -> None:
        """Stop ours in order; no file of ours may stay in the data root, where it
        would hide partitions from the Java broker (spec storage 19, D-1)."""
        self.own.stop()
        names = sorted(f"{topic}-{partition}" for topic, partition in KEYS)
        self.assertEqual(sorted(os.listdir(self.data_dir)), names)

    def test_in_order(self) -> None:
        """Ours writes, Java serves it all and appends, ours serves both and appends,
        Java serves the whole; each was stopped in order."""
        self.own.start()
        self.put(self.own.port, b"own-1")
        self.assert_serves(self.own.port)
        before = self.bytes_of(self.own.port)
        self.stop_own()
        java = self.start_java()
        self.assertEqual(self.bytes_of(java.port), before)
        self.assert_serves(java.port)
        self.put(java.port, b"java-1")
        java.stop()
        self.own.start()
        self.assert_serves(self.own.port)
        self.assert_nothing_repaired()
        self.put(self.own.port, b"own-2")
        self.assert_serves(self.own.port)
        self.stop_own()
        java = self.start_java()
        self.assert_serves(java.port)
        java.stop()

    def test_killed(self) -> None:
        """The same after a kill of ours and our restart, and after a kill of Java."""
        self.own.start()
        self.put(self.own.port, b"own-1")
        self.own.kill()
        self.own.start()
        self.assert_serves(self.own.port)
        self.put(self.own.port, b"own-2")
        self.stop_own()
        java = self.start_java()
        self.assert_serves(java.port)
        self.put(java.port, b"java-1")
        java.kill()
        self.own.start()
        self.assert_serves(self.own.port)
        self.assert_nothing_repaired()
        self.put(self.own.port, b"own-2")
        self.assert_serves(self.own.port)
        self.stop_own()
        self.own.start()
        self.assert_serves(self.own.port)

    def assert_nothing_repaired(self) -> None:
        """Our last start found nothing to cut and nothing damaged."""
        found = self.own.cli_json("recovery")
        summary, notable = found["summary"], found["partitions"]
        self.assertEqual(summary["partitions"], len(KEYS))
        self.assertEqual((summary["problems"], notable), ([], []))
