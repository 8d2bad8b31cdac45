"""Consumer groups: members, owners, offsets, lag, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from metatwist.coordination.formats import OffsetRecord
from metatwist.coordination.group_view import (
    GroupSummary,
    Lag,
    MemberView,
    OffsetState,
    Position,
    Trouble,
)
from tests.coordination.group_case import GroupsCase

FIXTURE = Path(__file__).parent.parent / "fixtures/java-1.4.6.2/zookeeper/tree.json"


class JavaTreeTest(GroupsCase):
    """The tree that the released Java programs made."""

    def setUp(self) -> None:
        super().setUp()
        self.manifest = json.loads(FIXTURE.read_text())
        self.nodes = {}
        for node in self.manifest["nodes"]:
            path, data = node["path"], node["data"]
            self.nodes[path] = data
            if path != "/":
                made = self.tree.create(
                    path, None if data is None else data.encode(), node["ephemeral"]
                )
                self.successResultOf(made)

    def test_groups(self) -> None:
        """There is the one group of the manifest."""
        names = self.successResultOf(self.groups.names())
        self.assertEqual(names, [self.manifest["group"]])
        views = self.successResultOf(self.groups.all())
        self.assertEqual(views, [self.view("billing")])

    def test_members(self) -> None:
        """Two consumers want both topics, and share five partitions 3 to 2."""
        one, two = self.view("billing").members
        for member, owned in ((one, 3), (two, 2)):
            self.assertEqual(member.topics, ("chat-log", "orders"))
            self.assertEqual(member.owned_partitions, owned)
            self.assertIn(f"/meta/consumers/billing/ids/{member.id}", self.nodes)

    def test_partitions(self) -> None:
        """Each partition of the manifest has the owner and the record of its nodes."""
        view = self.view("billing")
        self.assertEqual([one.topic for one in view.topics], ["chat-log", "orders"])
        for topic in view.topics:
            count = self.manifest["topics"][topic.topic]["numPartitions"]
            names = [f"0-{number}" for number in range(count)]
            self.assertEqual([one.name for one in topic.partitions], names)
            self.assertEqual(topic.offered_by, ("0-m",))
            self.assertEqual(topic.subscribers, tuple(one.id for one in view.members))
            for one in topic.partitions:
                base, end = "/meta/consumers/billing", f"{topic.topic}/{one.name}"
                record = one.position.record
                assert record is not None
                self.assertEqual(one.owner, self.nodes[f"{base}/owners/{end}"])
                self.assertEqual(
                    record.encode().decode(), self.nodes[f"{base}/offsets/{end}"]
                )
                self.assertTrue(one.registered and one.owner_is_member)

    def test_lag(self) -> None:
        """All was consumed: against the ends of the logs there is no lag, and nothing
        to look at."""
        for topic, ends in {"orders": (387, 416, 387), "chat-log": (595, 595)}.items():
            for number, end in enumerate(ends):
                self.logs.table[0, topic, number] = (0, end)
        view = self.view("billing")
        self.assertEqual(view.lag, Lag(0, 0, 0))
        self.assertEqual(view.findings, ())
        lag = Lag(0, 0, 0)
        self.assertEqual(view.summary(), GroupSummary("billing", 2, 2, 5, 0, lag))


class LagTest(GroupsCase):
    """Positions and sums."""

    def setUp(self) -> None:
        super().setUp()
        self.offer("t", 2)
        self.put("consumers/g/offsets/t/0-0", "-7-400")
        self.logs.table[0, "t", 0] = (100, 1000)

    def position(self) -> Position:
        """Of partition 0-0, without the time of its record."""
        position = self.partition("0-0").position
        return attrs.evolve(position, committed_ms=None)

    def test_within(self) -> None:
        """The lag is what lies between the record and the end."""
        record = OffsetRecord(400, -7)
        expected = Position(
            OffsetState.WITHIN, record, log_start=100, log_end=1000, lag_bytes=600
        )
        self.assertEqual(self.position(), expected)

    def test_at_the_edges(self) -> None:
        """Start and end of the log themselves are within."""
        for offset, lag in ((100, 900), (1000, 0)):
            self.put("consumers/g/offsets/t/0-0", f"-1-{offset}")
            self.assertEqual(self.position().state, OffsetState.WITHIN)
            self.assertEqual(self.position().lag_bytes, lag)

    def test_below_the_start(self) -> None:
        """What was deleted unread is told apart from what can still be read."""
        for text, skipped in (("-1-40", 60), ("-5", 100)):
            self.put("consumers/g/offsets/t/0-0", text)
            position = self.position()
            self.assertEqual(position.state, OffsetState.BELOW_START)
            self.assertEqual(position.lag_bytes, 900)
            self.assertEqual(position.skipped_bytes, skipped)
            self.assertEqual(
                self.troubles(), [(Trouble.OFFSET_BELOW_START, "0-0", None)]
            )

    def test_above_the_end(self) -> None:
        """Past the end the lag is not known: the consumer waits for nothing."""
        self.put("consumers/g/offsets/t/0-0", "-1-1001")
        self.assertEqual(self.position().state, OffsetState.ABOVE_END)
        self.assertIsNone(self.position().lag_bytes)
        self.assertEqual(self.troubles(), [(Trouble.OFFSET_ABOVE_END, "0-0", None)])

    def test_unreadable(self) -> None:
        """Garbage is kept as it stands."""
        self.put("consumers/g/offsets/t/0-0", "12-x")
        position = self.position()
        self.assertEqual(position.state, OffsetState.UNREADABLE)
        self.assertEqual(position.raw, "12-x")
        self.assertIsNone(position.lag_bytes)
        self.assertEqual(self.troubles(), [(Trouble.OFFSET_UNREADABLE, "0-0", None)])

    def test_of_another_broker(self) -> None:
        """Where the log is not known the lag is not either."""
        self.logs.table.clear()
        expected = Position(OffsetState.UNCHECKED, OffsetRecord(400, -7))
        self.assertEqual(self.position(), expected)

    def test_nothing_committed(self) -> None:
        """Without a record the lag is not known, unless there is nothing to read."""
        self.logs.table[0, "t", 1] = (0, 50)
        position = self.partition("0-1").position
        expected = Position(OffsetState.ABSENT, log_start=0, log_end=50)
        self.assertEqual(position, expected)
        self.logs.table[0, "t", 1] = (50, 50)
        self.assertEqual(self.partition("0-1").position.lag_bytes, 0)

    def test_blank_record(self) -> None:
        """A blank record is none."""
        self.put("consumers/g/offsets/t/0-0", " ")
        self.assertEqual(self.position().state, OffsetState.ABSENT)

    def test_committed_when(self) -> None:
        """The time of the record is that of its node's last change."""
        _, stat = self.successResultOf(self.tree.get("/meta/consumers/g/offsets/t/0-0"))
        position = self.partition("0-0").position
        self.assertEqual(position.committed_ms, stat.mtime)

    def test_sums(self) -> None:
        """A sum with an unknown part has no total, only a known part."""
        self.offer("u", 1)
        self.put("consumers/g/offsets/u/0-0", "-1-5")
        self.logs.table[0, "u", 0] = (0, 7)
        view = self.view()
        t, u = view.topics
        self.assertEqual(t.lag, Lag(None, 600, 1))
        self.assertEqual(u.lag, Lag(2, 2, 0))
        self.assertEqual(view.lag, Lag(None, 602, 1))
        self.logs.table[0, "t", 1] = (0, 0)
        self.assertEqual(self.view().lag, Lag(602, 602, 0))

    def test_no_partitions_to_add_up(self) -> None:
        """A topic that no broker offers, or no topic at all, is not a lag of 0."""
        self.put("consumers/h/ids/h_1", "missing")
        self.put("consumers/empty")
        self.assertEqual(self.view("h").lag, Lag(None, 0, 0))
        self.assertEqual(self.view("empty").lag, Lag(None, 0, 0))


class OwnersTest(GroupsCase):
    """Who consumes what."""

    def setUp(self) -> None:
        super().setUp()
        self.offer("t", 2)
        self.put("consumers/g/ids/g_1", "t")
        self.put("consumers/g/owners/t/0-0", "g_1")
        self.put("consumers/g/owners/t/0-1", "g_1")

    def test_all_is_well(self) -> None:
        """Each partition has an owner who is a member: nothing to look at."""
        (one,) = self.view().members
        _, stat = self.successResultOf(self.tree.get("/meta/consumers/g/ids/g_1"))
        self.assertEqual(one, MemberView("g_1", ("t",), stat.ctime, 2))
        self.assertEqual(self.troubles(), [])
        self.assertTrue(self.partition("0-1").owner_is_member)

    def test_without_owner(self) -> None:
        """A partition that no member of a group with members owns is told."""
        self.successResultOf(self.tree.delete("/meta/consumers/g/owners/t/0-1"))
        self.assertEqual(self.troubles(), [(Trouble.NO_OWNER, "0-1", None)])
        self.assertIsNone(self.partition("0-1").owner)
        self.assertIsNone(self.partition("0-1").owner_is_member)

    def test_group_at_rest(self) -> None:
        """Without subscribers no owner is missing."""
        for path in ("owners/t/0-0", "owners/t/0-1", "ids/g_1"):
            self.successResultOf(self.tree.delete(f"/meta/consumers/g/{path}"))
        self.assertEqual(self.troubles(), [])

    def test_owner_who_is_no_member(self) -> None:
        """An owner who is not registered is told."""
        self.put("consumers/g/owners/t/0-1", "g_gone")
        self.assertEqual(self.troubles(), [(Trouble.UNKNOWN_OWNER, "0-1", "g_gone")])
        self.assertIs(self.partition("0-1").owner_is_member, False)

    def test_garbage_owner(self) -> None:
        """An owner that is no text is no member."""
        self.put("consumers/g/owners/t/0-1", b"\xff")
        self.assertEqual(self.troubles(), [(Trouble.UNKNOWN_OWNER, "0-1", "\\xff")])

    def test_idle_member(self) -> None:
        """A member without partitions is told; members sort as rebalancing does."""
        self.put("consumers/g/ids/g_0", "t")
        self.assertEqual(self.troubles(), [(Trouble.IDLE_MEMBER, None, "g_0")])
        self.assertEqual([one.id for one in self.view().members], ["g_0", "g_1"])

    def test_missing_topic(self) -> None:
        """A topic that is subscribed to and that no broker offers is told, even one
        whose name cannot be a node."""
        self.put("consumers/g/ids/g_1", "t,a/b,missing")
        wanted = [(Trouble.NO_SUCH_TOPIC, None, None)] * 2
        self.assertEqual(self.troubles(), wanted)
        topics = [one.topic for one in self.view().topics]
        self.assertEqual(topics, ["a/b", "missing", "t"])
        self.assertEqual(self.view().topics[0].offered_by, ())

    def test_unreadable_member(self) -> None:
        """A member whose topics are no text is kept, with the reason."""
        self.put("consumers/g/ids/g_1", b"\xff")
        (one,) = self.view().members
        self.assertEqual((one.topics, one.problem), ((), "is not UTF-8"))
        self.assertEqual(self.troubles(), [(Trouble.MEMBER_UNREADABLE, None, "g_1")])

    def test_replication(self) -> None:
        """Slave brokers own nothing, and are not blamed for it."""
        self.put("consumers/meta-slave-group_1/ids/meta-slave-group_1_x", "t")
        self.assertTrue(self.view("meta-slave-group_1").replication)
        self.assertEqual(self.troubles("meta-slave-group_1"), [])
        self.assertFalse(self.view().replication)

    def test_json(self) -> None:
        """A view is JSON once it is a dict."""
        self.put("consumers/g/offsets/t/0-0", "-7-400")
        found = json.loads(json.dumps(attrs.asdict(self.view())))
        position = found["topics"][0]["partitions"][0]["position"]
        self.assertEqual(position["state"], "unchecked")
        self.assertEqual(position["record"], {"offset": 400, "message_id": -7})


class PartitionsTest(GroupsCase):
    """Which partitions a topic has."""

    def names(self) -> list[tuple[str, bool]]:
        """Partitions of the only topic of g, and whether they are registered."""
        (topic,) = self.view().topics
        return [(one.name, one.registered) for one in topic.partitions]

    def test_union(self) -> None:
        """Masters and slaves of a broker offer the same partitions, the larger count
        wins; brokers add up, by number."""
        self.put("consumers/g/ids/g_1", "t")
        self.offer("t", 1, "10-m")
        self.offer("t", 1, "2-m")
        self.offer("t", 2, "2-s0")
        self.assertEqual(self.names(), [("2-0", True), ("2-1", True), ("10-0", True)])
        self.assertEqual(self.view().topics[0].offered_by, ("10-m", "2-m", "2-s0"))

    def test_left_over(self) -> None:
        """A partition that only has an offset or an owner is there, not registered."""
        self.put("consumers/g/ids/g_1", "t")
        self.offer("t", 1)
        self.put("consumers/g/offsets/t/7-0", "-1-5")
        self.put("consumers/g/owners/t/8-0", "g_1")
        names = [("0-0", True), ("7-0", False), ("8-0", False)]
        self.assertEqual(self.names(), names)
        wanted = [
            (Trouble.NO_OWNER, "0-0", None),
            (Trouble.NO_SUCH_PARTITION, "7-0", None),
            (Trouble.NO_SUCH_PARTITION, "8-0", "g_1"),
        ]
        self.assertEqual(self.troubles(), wanted)
        self.assertEqual(self.view().topics[0].lag.unknown_partitions, 3)

    def test_left_over_of_a_group_at_rest(self) -> None:
        """What nobody subscribes to is missed by nobody."""
        self.offer("t", 1)
        self.put("consumers/g/offsets/t/7-0", "-1-5")
        self.assertEqual(self.names(), [("0-0", True), ("7-0", False)])
        self.assertEqual(self.troubles(), [])

    def test_strays(self) -> None:
        """Names that are no brokers and no partitions are passed over."""
        self.put("consumers/g/ids/g_1", "t")
        self.offer("t", 1)
        self.offer("t", 5, "what")
        self.put("consumers/g/offsets/t/what", "-1-5")
        self.put("consumers/g/owners/t/0", "g_1")
        self.put("consumers/g/else")
        self.assertEqual(self.names(), [("0-0", True)])

    def test_unreadable_registration(self) -> None:
        """A broker whose registration Java cannot read offers nothing, which is told;
        the lag of the topic has no total then."""
        self.put("consumers/g/offsets/t/0-0", "-1-5")
        self.logs.table[0, "t", 0] = (0, 7)
        self.offer("t", 1)
        self.assertEqual(self.view().lag, Lag(2, 2, 0))
        self.put("brokers/topics-sub/t/1-m", "4")
        self.assertEqual(self.names(), [("0-0", True)])
        self.assertEqual(self.view().lag, Lag(None, 2, 0))
        wanted = [(Trouble.REGISTRATION_UNREADABLE, None, None)]
        self.assertEqual(self.troubles(), wanted)
