"""A disk without space, met by a real broker: puts fail, nothing else does."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from tests.crash.own_broker import OwnBroker
from tests.support.wire_client import Read, Stored, WireClient, put_request

from .broker_case import BrokerCase

pytestmark = pytest.mark.process
TOPICS = {"grouped": {}, "direct": {"unflushThreshold": 100}}
MEGABYTE = 1 << 20
BODY = bytes(range(256)) * 40
IN_FLIGHT = 16


class FullDisk(BrokerCase):
    """A group-commit topic and a direct one, before, while and after there is no
    space."""

    def setUp(self) -> None:
        """No message yet."""
        super().setUp()
        self.stored: dict[str, list[tuple[Stored, bytes]]] = {
            topic: [] for topic in TOPICS
        }
        self.sent = 0

    def put_some(self, client: WireClient, topic: str, count: int) -> set[int]:
        """Put distinct messages at once; returns the codes of the answers."""
        bodies = []
        for _ in range(count):
            self.sent += 1
            bodies.append(b"%d:" % self.sent + BODY)
        client.send(b"".join(put_request(topic, 0, body) for body in bodies))
        replies = [client.reply() for _ in bodies]
        for body, reply in zip(bodies, replies, strict=True):
            if reply.code == 200:
                self.stored[topic].append((reply.stored, body))
        return {reply.code for reply in replies}

    def fill(self, client: WireClient) -> None:
        """Put into both topics until each refuses, with 500, even a single put."""
        for topic in TOPICS:
            for count in (IN_FLIGHT, 1):
                codes: set[int] = set()
                for _ in range(200):
                    codes |= self.put_some(client, topic, count)
                    if codes != {200}:
                        break
                self.assertLessEqual(codes, {200, 500}, topic)
                self.assertIn(500, codes, topic)

    def assert_all_stored(self, broker: OwnBroker) -> None:
        """What was acknowledged is there, where and as it was acknowledged, and
        nothing else is."""
        for topic, stored in self.stored.items():
            expected = [
                Read(one.offset, one.message_id, 0, body) for one, body in stored
            ]
            self.assertEqual(self.read(broker, topic, 0), expected)

    def assert_recovers(self, broker: OwnBroker, client: WireClient) -> None:
        """With space again puts succeed without a restart, and all of it lasts."""
        for topic in TOPICS:
            self.assertEqual(self.put_some(client, topic, IN_FLIGHT), {200}, topic)
        self.assert_all_stored(broker)
        self.assertEqual(broker.cli_json("status")["failed"], {})
        self.terminate(broker)
        broker.start()
        self.assert_all_stored(broker)
        self.assert_clean(broker, partitions=len(TOPICS))

    def test_file_size_limit(self) -> None:
        """Writes that fail with EFBIG refuse their puts; a raised limit is enough."""
        broker = self.own_broker(TOPICS)
        broker.start()
        client = self.client(broker)
        limit = (MEGABYTE, resource.RLIM_INFINITY)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, limit)
        self.fill(client)
        self.assert_all_stored(broker)
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, unlimited)
        self.assert_recovers(broker, client)

    def test_killed_while_full(self) -> None:
        """A kill while writes fail loses nothing that was acknowledged."""
        broker = self.own_broker(TOPICS)
        broker.start()
        limit = (MEGABYTE, resource.RLIM_INFINITY)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, limit)
        self.fill(self.client(broker))
        broker.kill()
        broker.start()
        self.assert_recovers(broker, self.client(broker))

    def test_file_system_without_space(self) -> None:
        """ENOSPC refuses puts, rolls included; removed files are enough.

        Without the right to mount a small file system, a file size limit below the
        segment size takes its place.
        """
        broker = self.own_broker(TOPICS, system={"maxSegmentSize": 300_000})
        disk = SmallDisk(broker)
        self.addCleanup(disk.release)
        self.addCleanup(broker.kill)
        disk.prepare()
        broker.start()
        disk.limit()
        client = self.client(broker)
        self.fill(client)
        self.assert_all_stored(broker)
        disk.make_space()
        self.assert_recovers(broker, client)


class SmallDisk:
    """Four megabytes for a broker's data, half of them taken; or a limit instead."""

    _SIZE_BYTES = 4 * MEGABYTE
    _LIMIT_BYTES = 250_000

    def __init__(self, broker: OwnBroker) -> None:
        self._broker = broker
        self._ballast: Path = broker.data_dir / "ballast"
        self._mounted = False

    def prepare(self) -> None:
        """Mount a file system on the data directory if that is allowed."""
        directory = self._broker.data_dir
        directory.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={self._SIZE_BYTES}"]
        try:
            done = subprocess.run(
                [*command, "metatwist-test", str(directory)], capture_output=True
            )
        except FileNotFoundError:
            return
        self._mounted = done.returncode == 0
        if self._mounted:
            self._ballast.write_bytes(bytes(self._SIZE_BYTES // 2))

    def limit(self) -> None:
        """Where nothing is mounted, limit the running broker."""
        if not self._mounted:
            self._set_limit(self._LIMIT_BYTES)

    def _set_limit(self, size_bytes: int) -> None:
        limits = (size_bytes, resource.RLIM_INFINITY)
        resource.prlimit(self._broker.pid, resource.RLIMIT_FSIZE, limits)

    def make_space(self) -> None:
        """Give the broker room again."""
        if self._mounted:
            os.unlink(self._ballast)
        else:
            self._set_limit(resource.RLIM_INFINITY)

    def release(self) -> None:
        """Unmount."""
        if self._mounted:
            subprocess.run(["umount", str(self._broker.data_dir)], check=True)
