"""Every admin verb through the real command, on a real broker."""

from __future__ import annotations

import time

import pytest

from tests.crash.own_broker import OwnBroker
from tests.support.wire_client import put_request

from .broker_case import BrokerCase

pytestmark = pytest.mark.process
TOPICS = {"test": {}, "other": {"unflushThreshold": 1_000_000}}


class AdminVerbs(BrokerCase):
    """One broker with a message in each of four partitions of `test`."""

    def setUp(self) -> None:
        """Start it and put."""
        super().setUp()
        self.broker = self.own_broker(TOPICS, system={"maxSegmentSize": 5000})
        self.broker.start()
        self.wire = self.client(self.broker)
        for partition in range(4):
            self.wire.put("test", partition, b"in %d" % partition)

    def code(self, request: bytes) -> int:
        """The code of the answer to one request."""
        return self.wire.ask(request).code

    def payloads(self, partition: int, broker: OwnBroker | None = None) -> list[bytes]:
        """Payloads of a partition of `test`."""
        records = self.read(broker or self.broker, "test", partition)
        return [record.payload for record in records]

    def refused(self, *arguments: str) -> str:
        """What the command says when the broker refuses."""
        done = self.broker.cli(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr

    def test_close_and_open(self) -> None:
        """Closed partitions answer 403, until opened or until a restart."""
        closed = self.broker.cli_json("close-partitions", "test", "1", "2")
        self.assertEqual(closed, {"topic": "test", "closed": [1, 2]})
        self.assertEqual(self.code(put_request("test", 1, b"x")), 403)
        self.assertEqual(self.wire.get("test", 2, 0).code, 403)
        self.wire.put("test", 0, b"open")
        status = self.broker.cli_json("status")
        self.assertEqual(status["closed"], ["test-1", "test-2"])
        opened = self.broker.cli_json("open-partitions", "test", "1", "1")
        self.assertEqual(opened["closed"], [2])
        self.wire.put("test", 1, b"again")
        self.broker.cli_json("open-partitions", "test")
        self.assertEqual(self.payloads(2), [b"in 2"])
        self.broker.cli_json("close-partitions", "test", "0", "3")
        self.terminate(self.broker)
        self.broker.start()
        self.client(self.broker).put("test", 0, b"open after a restart")
        self.assertIn("no topic", self.refused("close-partitions", "nope", "0", "1"))
        beyond = self.refused("close-partitions", "test", "0", "4")
        self.assertIn("the last one of test is 3", beyond)
        self.refused("open-partitions", "test", "0", str(10**12))

    def test_delete(self) -> None:
        """Deleted partitions are gone, also after a restart, and can begin anew."""
        done = self.broker.cli_json("delete-partitions", "test", "1", "2", "--force")
        self.assertEqual(done, {"deleted": ["test-1", "test-2"]})
        self.assertEqual(self.wire.get("test", 1, 0).code, 404)
        self.assertEqual(self.wire.put("test", 1, b"new").offset, 0)
        self.terminate(self.broker)
        self.broker.start()
        self.assert_clean(self.broker, partitions=3)
        self.assertEqual(self.payloads(1), [b"new"])
        self.assertEqual(self.payloads(3), [b"in 3"])
        nothing = self.refused("delete-partitions", "test", "2", "2", "--force")
        self.assertIn("nothing is stored", nothing)

    def test_move(self) -> None:
        """Moved partitions keep their messages under new numbers; overlaps work."""
        done = self.broker.cli_json("move-partitions", "test", "1", "3", "1")
        self.assertEqual(done, {"moved": ["test-2", "test-3", "test-4"]})
        self.assertEqual(self.wire.get("test", 1, 0).code, 404)
        self.assertEqual(self.payloads(2), [b"in 1"])
        self.assertEqual(self.payloads(4), [b"in 3"])
        self.wire.put("test", 2, b"more")
        self.assertIn(
            "exists already", self.refused("move-partitions", "test", "0", "0", "2")
        )
        back = self.broker.cli_json("move-partitions", "test", "2", "4", "-1")
        self.assertEqual(back["moved"], ["test-1", "test-2", "test-3"])
        self.terminate(self.broker)
        self.broker.start()
        self.assert_clean(self.broker, partitions=4)
        self.assertEqual(self.payloads(1), [b"in 1", b"more"])
        self.assertEqual(self.payloads(3), [b"in 3"])

    def test_flush(self) -> None:
        """Flush leaves nothing unsynced of a topic in direct mode."""
        self.wire.put("other", 0, bytes(1000))
        self.assertEqual(self.broker.cli_json("status")["unsynced_bytes"], 1020)
        done = self.broker.cli_json("flush", "other")
        self.assertEqual(done, {"flushed": 1, "failed": {}})
        self.assertEqual(self.broker.cli_json("status")["unsynced_bytes"], 0)
        self.assertIn("nothing is stored", self.refused("flush", "nope"))

    def test_stats_and_status(self) -> None:
        """Both count what was put; stats says what the wire says."""
        self.assertEqual(self.wire.ask(b"stats test 1\r\n").code, 200)
        text = self.broker.cli_json("stats", "topics")
        self.assertEqual(text, self.wire.ask(b"stats topics 1\r\n").text)
        status = self.broker.cli_json("status")
        self.assertEqual(status["numbers"]["messages_in"], 4)
        self.assertEqual(status["pid"], self.broker.pid)
        names = {one["name"] for one in status["partitions"]}
        self.assertEqual(names, {f"test-{number}" for number in range(4)})
        for verb in ("status", "recovery", "stats"):
            done = self.broker.cli(verb)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.strip())

    def test_offset_at(self) -> None:
        """The first message at or after a time, also after a restart."""
        before_ms = int(time.time() * 1000)
        time.sleep(0.01)
        first = self.wire.put("test", 0, bytes(6000))
        time.sleep(0.01)
        between_ms = int(time.time() * 1000)
        time.sleep(0.01)
        second = self.wire.put("test", 0, bytes(6000))
        for _ in range(2):
            asked = ("offset-at", "test", "0")
            found = self.broker.cli_json(*asked, str(before_ms))
            self.assertEqual(found["offset"], first.offset)
            found = self.broker.cli_json(*asked, str(between_ms))
            self.assertEqual(found["offset"], second.offset)
            found = self.broker.cli_json(*asked, str(between_ms + 3_600_000))
            self.assertEqual(found["offset"], found["end"])
            self.terminate(self.broker)
            self.broker.start()
        self.assertIn(
            "nothing is stored", self.refused("offset-at", "test", "9", "12:00")
        )

    def test_retain(self) -> None:
        """Retain removes from the front what the policy lets go, and no more."""
        for _ in range(5):
            last = self.wire.put("test", 0, bytes(6000))
        nothing = dict.fromkeys(
            ("removed_segments", "deleted_segments", "archived_segments"), 0
        )
        self.assertEqual(self.broker.cli_json("retain"), {**nothing, "failed": []})
        self.broker.metatwist["retentionBytes"] = 7000
        self.broker.write_ini()
        self.broker.cli_json("reload")
        removed = self.broker.cli_json("retain", "test")["removed_segments"]
        self.assertGreaterEqual(removed, 4)
        moved = self.wire.get("test", 0, 0)
        self.assertEqual(moved.code, 301)
        records = self.read(self.broker, "test", 0)
        self.assertEqual(records[0].offset, int(moved.body))
        self.assertEqual(records[-1].offset, last.offset)
        self.terminate(self.broker)
        self.broker.start()
        self.assert_clean(self.broker, partitions=4)
        self.assertEqual(self.read(self.broker, "test", 0), records)

    def test_nobody_there(self) -> None:
        """Without a broker every verb ends with exit code 3 and says so."""
        self.terminate(self.broker)
        done = self.broker.cli("status")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no broker runs on", done.stderr)
