"""`metatwist admin groups` on real brokers, over a tree that kazoo has written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.own_broker import OwnBroker

from .test_coordination import CoordinationCase

pytestmark = pytest.mark.process
MEMBER = "billing_host-1-1700000000000-1"
STEERING = "gar\x1b[2Jbage"


class ConsumerGroups(CoordinationCase):
    """Group `billing` has one member. It owns test-0 and test-1, has committed there
    and, at another time, on test-2 and on a broker 7 that is not there; test-3 is
    neither owned nor committed. All offsets have negative message ids."""

    def setUp(self) -> None:
        """Start a broker with a message in test-0 and test-3, and write the group."""
        super().setUp()
        self.own = self.embedded()
        self.own.start()
        wire = self.client(self.own)
        first = wire.put("test", 0, b"one")
        second = wire.put("test", 0, b"two")
        wire.put("test", 3, b"three")
        self.assertEqual(first.offset, 0)
        self.record_bytes = second.offset
        self.tree = self.zookeeper()
        self.wait_until(
            lambda: self.tree.exists("/meta/brokers/topics-sub/test/0-m") is not None,
            "the topic is registered",
        )
        self.write_group()

    def write(self, path: str, data: bytes, ephemeral: bool = False) -> None:
        """Make a node of the group."""
        whole = f"/meta/consumers/billing/{path}"
        self.tree.create(whole, data, ephemeral=ephemeral, makepath=True)

    def write_group(self) -> None:
        """As Java consumers write it."""
        self.write(f"ids/{MEMBER}", b"test", ephemeral=True)
        for partition in (0, 1):
            self.write(f"owners/test/0-{partition}", MEMBER.encode(), ephemeral=True)
        self.write("offsets/test/0-0", b"-77-%d" % self.record_bytes)
        self.write("offsets/test/0-1", STEERING.encode())
        self.write("offsets/test/0-2", b"-9223372036854775808-5000")
        self.write("offsets/test/7-0", b"-1-12")

    def printed(self, *arguments: str) -> str:
        """What the command prints for people."""
        done = self.own.cli("groups", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def line(self, text: str, partition: str) -> list[str]:
        """The words of the line of a partition."""
        (found,) = [
            words
            for words in map(str.split, text.splitlines())
            if words[:2] == ["test", partition]
        ]
        return found

    def refused(self, broker: OwnBroker, *arguments: str) -> str:
        """Why the command is refused, in one line."""
        done = broker.cli("groups", *arguments)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_all(self) -> None:
        """A line with counts and lag: what is unknown is left out of it, and that is
        said."""
        header, row = map(str.split, self.printed().splitlines())
        self.assertEqual(header[:2], ["name", "members"])
        self.assertEqual(row[:5], ["billing", "1", "1", "5", str(self.findings())])
        lag = " ".join(row[5:])
        self.assertEqual(lag, f"{self.record_bytes} B and 4 unknown")

    def findings(self) -> int:
        """How many there are, of the answer for scripts."""
        found: Any = self.own.cli_json("groups", "billing")
        return len(found["findings"])

    def test_one(self) -> None:
        """Members, and for each partition owner, offset, end, lag and state."""
        text = self.printed("billing")
        self.assertIn(MEMBER, text)
        size = str(self.record_bytes)
        end = str(2 * self.record_bytes)
        within = [MEMBER, size, end, size, "B", "within"]
        self.assertEqual(self.line(text, "0-0")[2:], within)
        garbage = [MEMBER, "gar\\x1b[2Jbage", "0", "?", "unreadable"]
        self.assertEqual(self.line(text, "0-1")[2:], garbage)
        above = ["-", "5000", "0", "?", "above", "end"]
        self.assertEqual(self.line(text, "0-2")[2:], above)
        self.assertEqual(self.line(text, "0-3")[2:4], ["-", "-"])
        self.assertEqual(self.line(text, "0-3")[5:], ["?", "absent"])
        foreign = ["-", "12", "?", "?", "unchecked"]
        self.assertEqual(self.line(text, "7-0")[2:], foreign)
        self.assertNotIn("\x1b", text)

    def test_findings(self) -> None:
        """What is wrong stands below the partitions, a line each."""
        _, _, below = self.printed("billing").partition("findings:\n")
        for words in (
            "committed offset cannot be read: test 0-1",
            "committed offset above the end of the log: test 0-2: 5000 is committed",
            "partition without an owner: test 0-3",
            "no broker offers the partition: test 7-0",
        ):
            self.assertIn(words, below)
        self.assertEqual(len(below.splitlines()), self.findings())

    def test_json(self) -> None:
        """For scripts there are numbers, and null for what is not known."""
        (row,) = self.own.cli_json("groups")
        lag = {
            "total_bytes": None,
            "known_bytes": self.record_bytes,
            "unknown_partitions": 4,
        }
        self.assertEqual((row["name"], row["lag"]), ("billing", lag))
        found = self.own.cli_json("groups", "billing")
        (topic,) = found["topics"]
        by_name = {one["name"]: one["position"] for one in topic["partitions"]}
        record = {"offset": 5000, "message_id": -(2**63)}
        self.assertEqual(by_name["0-2"]["record"], record)
        self.assertEqual(by_name["0-1"]["raw"], STEERING)
        self.assertIsNone(by_name["7-0"]["lag_bytes"])

    def test_unknown(self) -> None:
        """An unknown group is refused, with those that there are."""
        said = self.refused(self.own, "nope")
        self.assertIn("no group 'nope'; there are: billing", said)

    def test_metrics(self) -> None:
        """The coordinator's own numbers are among the metrics, and `mntr` says the
        same."""
        lines = self.own.cli("metrics").stdout.splitlines()
        found = dict(line.split() for line in lines if line.startswith("metatwist_c"))
        told = {
            "sessions": 2,
            "connections": 1,
            "stalled": 0,
            "failed": 0,
        }
        for name, value in told.items():
            self.assertEqual(float(found[f"metatwist_coordinator_{name}"]), value)
        self.assertEqual(
            float(found["metatwist_coordinator_znodes"]),
            float(self.monitored()["zk_znode_count"]),
        )

    def monitored(self) -> dict[str, str]:
        """What `mntr` says."""
        text = self.tree.command(b"mntr")
        return dict(line.split("\t") for line in text.splitlines())


class WithoutTree(CoordinationCase):
    """A broker without a coordinator, and one that cannot reach its ensemble."""

    def refused(self, broker: OwnBroker, *arguments: str) -> str:
        """Why, in one line."""
        broker.start()
        done = broker.cli("groups", *arguments)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_none(self) -> None:
        """Without one the setting is named, and `status` says what that means."""
        broker = self.broker("alone")
        self.assertIn("coordinator=none", self.refused(broker))
        self.assertIn("coordinator=none", broker.cli("groups", "g").stderr)
        status = broker.cli("status").stdout
        self.assertIn("coordination  none: clients must know the address", status)
        self.assertNotIn("problem", status)

    def test_unreachable(self) -> None:
        """Without a connection the reason is told, and `status` begins with it."""
        broker = self.joining("second", 1)
        self.assertIn("groups cannot be read now", self.refused(broker, "g"))
        first = broker.cli("status").stdout.splitlines()[0]
        self.assertRegex(first, "^problem +ZooKeeper 127.0.0.1")
        self.assertIn("nothing can be registered", first)
