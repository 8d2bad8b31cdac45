"""SIGHUP and `metatwist admin reload` on a real broker."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.wire_client import put_request

from .broker_case import BrokerCase

pytestmark = pytest.mark.process


class Reload(BrokerCase):
    """A broker with a topic `test` of four partitions."""

    def setUp(self) -> None:
        """Start it."""
        super().setUp()
        self.broker = self.own_broker()
        self.broker.start()
        self.wire = self.client(self.broker)

    def hang_up(self, expected: str) -> None:
        """SIGHUP, then wait for what the log must say."""
        os.kill(self.broker.pid, signal.SIGHUP)
        self.wait_until(
            lambda: expected in self.broker.output(), f"{expected!r} is logged"
        )

    def put_code(self, topic: str, partition: int) -> int:
        """The code of the answer to a put."""
        return self.wire.ask(put_request(topic, partition, b"x")).code

    def test_good_file(self) -> None:
        """A new topic and more partitions are there at once, without a restart."""
        self.assertEqual(self.put_code("fresh", 0), 500)
        self.assertEqual(self.put_code("test", 5), 500)
        self.broker.topics = {"test": {"numPartitions": 6}, "fresh": {}}
        self.broker.write_ini()
        self.hang_up("topic fresh: added")
        self.wait_until(
            lambda: "numPartitions 4 -> 6" in self.broker.output(), "it is logged"
        )
        self.assertEqual(self.put_code("fresh", 0), 200)
        self.assertEqual(self.put_code("test", 5), 200)

    def test_wrong_file(self) -> None:
        """One wrong key and nothing changes; the log and the verb name the key."""
        self.broker.topics = {"test": {"numPartitions": "many"}, "fresh": {}}
        self.broker.write_ini()
        self.hang_up("nothing was changed")
        self.assertIn("numPartitions", self.broker.output())
        self.assertEqual(self.put_code("fresh", 0), 500)
        done = self.broker.cli("reload")
        self.assertEqual(done.returncode, 1)
        self.assertIn("numPartitions", done.stderr)
        self.assertIn(str(self.broker.ini_path), done.stderr)
        self.broker.topics = {"test": {}, "fresh": {}}
        self.broker.write_ini()
        self.hang_up("topic fresh: added")
        self.assertEqual(self.put_code("fresh", 0), 200)

    def test_file_gone(self) -> None:
        """A file that is not there changes nothing."""
        self.broker.ini_path.unlink()
        self.hang_up("nothing was changed")
        self.assertEqual(self.put_code("test", 0), 200)

    def test_partly(self) -> None:
        """What may change does, what may not is reported and stays, and both are as
        written after a restart."""
        self.assertEqual(self.put_code("test", 0), 200)
        self.broker.system["maxSegmentSize"] = 1000
        self.broker.topics = {"test": {"unflushThreshold": 5}, "fresh": {}}
        self.broker.write_ini()
        told = self.broker.cli_json("reload")
        self.assertTrue(any("topic fresh: added" in one for one in told["changed"]))
        needs = " ".join(told["needs_restart"])
        self.assertIn("maxSegmentSize", needs)
        self.assertIn("unflushThreshold", needs)
        self.assertIn("needs a restart", self.broker.output())
        self.assertEqual(self.put_code("fresh", 0), 200)
        for _ in range(60):
            self.put_code("test", 0)
        self.assertEqual(self.segments(), 1)
        self.terminate(self.broker)
        self.broker.start()
        self.wire = self.client(self.broker)
        self.put_code("test", 0)
        self.assertEqual(self.segments(), 2)

    def segments(self) -> int:
        """How many segments the first partition of `test` has."""
        return len(list((self.broker.data_dir / "test-0").glob("*.meta")))

    def test_filters(self) -> None:
        """Filters that cannot be loaded are logged at start and reload; edited ones
        hold from the reload on, and one that ends the process at import ends none."""
        self.broker.topics = {"test": {"group.g": "reloaded.accept"}}
        self.broker.write_ini()
        self.hang_up("filters of test are not used")
        self.terminate(self.broker)
        self.broker.filter_dir.mkdir()
        module = self.broker.filter_dir / "reloaded.py"
        module.write_text("import sys\nsys.exit(5)\n")
        self.broker.start()
        self.wire = self.client(self.broker)
        self.assertIn("cannot load filter reloaded.accept", self.broker.output())
        self.assertEqual(self.put_code("test", 0), 200)
        request = b"get test g 0 0 1000 1\r\n"
        self.assertEqual(self.wire.ask(request).code, 500)
        for verdict, code in ((False, 301), (True, 0)):
            module.write_text(f"def accept(group, record):\n    return {verdict}\n")
            self.broker.cli_json("reload")
            self.assertEqual(self.wire.ask(request).code, code)

    def test_without_a_change(self) -> None:
        """An unchanged file is reported as that."""
        self.hang_up("nothing has changed")
        told = self.broker.cli_json("reload")
        self.assertEqual((told["changed"], told["needs_restart"]), ([], []))
