"""The verb `groups`: what the tree says, measured by this broker's own logs."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.group_queries import GroupQueries, OwnBounds, groups_over
from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.errors import ConnectionLost
from metatwist.errors import AdminError
from tests.support.broker_parts import INI, BrokerParts, put

# A record's header has 20 bytes.
RECORD_BYTES = 20 + len(b"four")


class Forgetful(LocalCoordinator):
    """A tree to which the connection breaks after the first look at a node."""

    def get_children(self, path: str) -> Any:
        """Broken."""
        return fail(ConnectionLost())


class OwnBoundsTests(SynchronousTestCase):
    """Where the logs of this broker begin and end; its id is 5."""

    def setUp(self) -> None:
        """One record in test-0, acknowledged, and one in lazy-0, not synced."""
        self.parts = BrokerParts(self)
        self.bounds = OwnBounds(self.parts.topics)
        peer = self.parts.connect()
        peer.ask(put(b"four"), put(b"four", topic="lazy"))

    def test_own_logs(self) -> None:
        """The start and the end of what consumers may read."""
        for topic in ("test", "lazy"):
            self.assertEqual(self.bounds.bounds(5, topic, 0), (0, RECORD_BYTES))

    def test_not_yet_readable(self) -> None:
        """What is not on disk yet is no lag: nobody could read it."""
        self.parts.connect().send(put(b"four"))
        self.parts.turn()
        self.assertEqual(self.bounds.bounds(5, "test", 0), (0, RECORD_BYTES))
        self.parts.settle()
        self.assertEqual(self.bounds.bounds(5, "test", 0), (0, 2 * RECORD_BYTES))

    def test_nothing_stored(self) -> None:
        """A partition that never got a message is known to be empty."""
        self.assertEqual(self.bounds.bounds(5, "test", 1), (0, 0))
        self.assertEqual(self.bounds.bounds(5, "never", 7), (0, 0))

    def test_not_known(self) -> None:
        """Those of other brokers, those that could not be loaded and those that are
        being moved are not known."""
        topics = self.parts.topics
        topics.catalog.failed["test", 1] = "the disk is broken"
        topics.busy["test", 2] = "being moved"
        for broker_id, partition in ((4, 0), (5, 1), (5, 2)):
            self.assertIsNone(self.bounds.bounds(broker_id, "test", partition))


class GroupQueriesTests(SynchronousTestCase):
    """Answers of the verb, in the shape that the control socket sends."""

    def setUp(self) -> None:
        """Group `g` consumes test-0 of this broker and test-0 of broker 6."""
        self.parts = BrokerParts(self)
        self.parts.connect().ask(*(put(b"four") for _ in range(3)))
        self.clock = Clock()
        self.tree = LocalCoordinator.in_memory(self.clock)
        groups = groups_over(self.clock, self.tree, self.parts.topics)
        self.queries = GroupQueries(groups)

    def write(self, path: str, data: str) -> None:
        """Make a node below /meta."""
        made = self.tree.create(f"/meta/{path}", data.encode(), make_parents=True)
        self.successResultOf(made)

    def offer(self, broker_id: int, count: int) -> None:
        """Register partitions of `test` for consumers."""
        node = f"{broker_id}-m"
        value = json.dumps({"numParts": count, "broker": node})
        self.write(f"brokers/topics-sub/test/{node}", value)

    def consume(self, group: str = "g") -> None:
        """One member that owns test-0 of brokers 5 and 6 and has read one record."""
        member = f"{group}_host-1"
        self.write(f"consumers/{group}/ids/{member}", "test")
        for broker_id in (5, 6):
            partition = f"test/{broker_id}-0"
            self.write(f"consumers/{group}/owners/{partition}", member)
            offset = f"-77-{RECORD_BYTES}"
            self.write(f"consumers/{group}/offsets/{partition}", offset)

    def settled(self, answer: Deferred[Any]) -> Deferred[Any]:
        """The same, after turns enough for all that gives way in between."""
        self.clock.pump([0] * 100)
        return answer

    def ask(self, group: str | None = None) -> Any:
        """The answer as a client reads it."""
        answer = self.successResultOf(self.settled(self.queries.groups(group)))
        return json.loads(json.dumps(answer))

    def refusal(self, group: str | None = None) -> str:
        """Why it was refused."""
        asked = self.settled(self.queries.groups(group))
        return str(self.failureResultOf(asked, AdminError).value)

    def test_none_yet(self) -> None:
        """A tree without groups has an empty answer."""
        self.assertEqual(self.ask(), [])
        self.assertIn("there are: none", self.refusal("g"))

    def test_summaries(self) -> None:
        """A line for each group, by name."""
        self.offer(5, 1)
        for group in ("g", "a"):
            self.consume(group)
        lag = {"total_bytes": None, "known_bytes": 48, "unknown_partitions": 1}
        expected = {"members": 1, "topics": 1, "partitions": 2, "lag": lag}
        found = self.ask()
        self.assertEqual([one.pop("name") for one in found], ["a", "g"])
        for one in found:
            one.pop("findings")
            self.assertEqual(one, expected)

    def test_one_group(self) -> None:
        """A group in full: own partitions with lag, those of others with null."""
        self.offer(5, 1)
        self.offer(6, 1)
        self.consume()
        found = self.ask("g")
        self.assertEqual((found["name"], found["findings"]), ("g", []))
        (topic,) = found["topics"]
        own, other = topic["partitions"]
        self.assertEqual((own["name"], other["name"]), ("5-0", "6-0"))
        self.assertEqual(own["position"]["lag_bytes"], 2 * RECORD_BYTES)
        self.assertEqual(own["position"]["state"], "within")
        record = {"offset": RECORD_BYTES, "message_id": -77}
        self.assertEqual(own["position"]["record"], record)
        self.assertEqual(other["position"]["state"], "unchecked")
        for name in ("lag_bytes", "log_end", "log_start"):
            self.assertIsNone(other["position"][name])

    def test_all_known(self) -> None:
        """With partitions of this broker only, the total is known."""
        self.offer(5, 1)
        self.write("consumers/g/offsets/test/5-0", f"-77-{RECORD_BYTES}")
        lag = self.ask("g")["lag"]
        self.assertEqual((lag["total_bytes"], lag["unknown_partitions"]), (48, 0))

    def test_garbage(self) -> None:
        """An offset that nobody can read is a finding with its text; no lag is made of
        it."""
        self.offer(5, 1)
        self.write("consumers/g/offsets/test/5-0", "gar\x1bbage")
        found = self.ask("g")
        (trouble,) = found["findings"]
        self.assertEqual(trouble["trouble"], "committed offset cannot be read")
        (partition,) = found["topics"][0]["partitions"]
        position = partition["position"]
        self.assertEqual(
            (position["raw"], position["lag_bytes"]), ("gar\x1bbage", None)
        )
        self.assertIsNone(found["lag"]["total_bytes"])

    def test_unknown_group(self) -> None:
        """An unknown group is refused with those that there are; what is no name is
        unknown as well."""
        self.consume()
        for name in ("nope", "", "g/ids", ".."):
            self.assertIn(f"no group {name!r}; there are: g", self.refusal(name))

    def test_many_names(self) -> None:
        """A refusal lists so many names and says how many more there are; long ones
        are cut."""
        long = "a" * 5000
        for name in (long, *(f"b{number:02}" for number in range(29))):
            self.write(f"consumers/{name}/ids", "")
        said = self.refusal("nope")
        self.assertTrue(said.endswith(", b18, and 10 more"), said)
        self.assertLess(len(said), 300)

    def test_gives_way(self) -> None:
        """The reactor has turns of its own while many groups are read."""
        self.offer(5, 1)
        for number in range(200):
            self.write(f"consumers/g{number}/offsets/test/5-0", "1-0")
        asked = self.queries.groups(None)
        self.assertNoResult(asked)
        self.assertEqual(len(self.successResultOf(self.settled(asked))), 200)

    def test_without_coordinator(self) -> None:
        """Without a coordinator it is refused, by the name of the setting."""
        self.queries = GroupQueries(None)
        for name in (None, "g"):
            self.assertIn("coordinator=none", self.refusal(name))

    def test_without_connection(self) -> None:
        """While there is no connection it is refused with the reason."""
        self.consume()
        self.tree.suspend()
        for name in (None, "g", "nope"):
            self.assertIn("groups cannot be read now", self.refusal(name))

    def test_connection_lost_meanwhile(self) -> None:
        """One that breaks before the names of all groups are read is no defect."""
        broken = Forgetful(self.clock)
        assert self.tree.realm is not None
        broken.open(self.tree.realm)
        self.queries = GroupQueries(groups_over(self.clock, broken, self.parts.topics))
        self.assertIn("groups cannot be read now", self.refusal("nope"))

    def test_other_root(self) -> None:
        """Groups are read below `zk.zkRoot`."""
        ini = "[zookeeper]\nzk.zkRoot=/else\n[metatwist]\ncoordinator=embedded\n"
        parts = BrokerParts(self, INI + ini)
        self.queries = GroupQueries(groups_over(self.clock, self.tree, parts.topics))
        self.consume("not-there")
        made = self.tree.create("/else/consumers/h/ids", make_parents=True)
        self.successResultOf(made)
        self.assertEqual([one["name"] for one in self.ask()], ["h"])
