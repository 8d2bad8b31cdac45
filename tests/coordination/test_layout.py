"""Paths and names in the tree."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.layout import Layout, TopicTree, normalise_root
from metatwist.coordination.names import (
    NodeName,
    PartitionName,
    consumer_id,
    consumer_order,
    group_problem,
    is_path_element,
    producer_order,
    string_order,
)

FIXTURE = Path(__file__).parent.parent / "fixtures/java-1.4.6.2/zookeeper/tree.json"
NUMBERS = st.integers(min_value=0, max_value=2**31 - 1)


class LayoutTest(SynchronousTestCase):
    """Every path of the layout."""

    def test_roots_are_normalised(self) -> None:
        """A missing slash in front is added, one behind is removed."""
        for text in ("meta", "/meta", "/meta/", "meta/"):
            self.assertEqual(normalise_root(text), "/meta")
        self.assertEqual(normalise_root("/a/b"), "/a/b")
        self.assertEqual(normalise_root("/"), "")
        self.assertEqual(normalise_root(normalise_root("/")), "")

    def test_empty_root(self) -> None:
        """The root / gives paths without a prefix."""
        self.assertEqual(Layout("/").brokers_ids(), "/brokers/ids")
        self.assertEqual(Layout("/").group("g"), "/consumers/g")

    def test_impossible_roots(self) -> None:
        """A root that no znode can have is refused."""
        for root in ("//meta", "/meta//", "/a/../b", "/a\x00"):
            with self.assertRaises(ValueError):
                Layout(root)

    def test_paths_of_the_java_tree(self) -> None:
        """Each node that the released Java programs made has its method."""
        layout = Layout("meta")
        one = "billing_192.0.2.2-19014-1796044384496-1"
        two = "billing_192.0.2.2-19014-1796044384548-1"
        ours = {
            "/",
            layout.root,
            layout.brokers(),
            layout.brokers_ids(),
            layout.broker(0),
            layout.master(0),
            layout.checksum(0),
            layout.groups(),
            layout.group("billing"),
            layout.members("billing"),
            layout.member("billing", one),
            layout.member("billing", two),
            layout.owners("billing"),
            layout.offsets("billing"),
        }
        for tree in TopicTree:
            ours.add(layout.topics(tree))
        for topic, partitions in (("orders", 3), ("chat-log", 2)):
            ours.add(layout.owners_of("billing", topic))
            ours.add(layout.offsets_of("billing", topic))
            for tree in TopicTree:
                ours.add(layout.topic_dir(tree, topic))
                ours.add(layout.topic_node(tree, topic, NodeName(0)))
            for number in range(partitions):
                ours.add(layout.owner("billing", topic, PartitionName(0, number)))
                ours.add(layout.offset("billing", topic, f"0-{number}"))
        nodes = json.loads(FIXTURE.read_text())["nodes"]
        self.assertEqual(ours, {node["path"] for node in nodes})

    def test_slaves(self) -> None:
        """A slave has a node below its broker and names in the topic trees."""
        layout = Layout()
        self.assertEqual(layout.slave(3, 1), "/meta/brokers/ids/3/slave1")
        self.assertEqual(
            layout.topic_node(TopicTree.SUBSCRIBE, "t", NodeName(3, 1)),
            "/meta/brokers/topics-sub/t/3-s1",
        )

    def test_names_that_would_leave_their_place(self) -> None:
        """A name that is no path element raises ValueError instead of a wrong path."""
        layout = Layout()
        for name in ("", ".", "..", "a/b", "a\x00b"):
            with self.assertRaises(ValueError):
                layout.topic_dir(TopicTree.OLD, name)
            with self.assertRaises(ValueError):
                layout.offset("g", name, "0-0")


class NamesTest(SynchronousTestCase):
    """Names of nodes."""

    @given(NUMBERS, st.none() | NUMBERS)
    def test_node_names_read_back(self, broker_id: int, slave: int | None) -> None:
        """What names a broker in a topic tree reads back as the same."""
        name = NodeName(broker_id, slave)
        self.assertEqual(NodeName.parse(str(name)), name)

    def test_node_name_texts(self) -> None:
        """Masters end in -m, slaves in -s and their number."""
        self.assertEqual(str(NodeName(0)), "0-m")
        self.assertEqual(str(NodeName(12, 3)), "12-s3")

    def test_other_node_names(self) -> None:
        """A stray child of a topic names nobody."""
        strays = ("", "0", "0-", "0-x", "m-0", "0-m-m", "-1-m", "00-m", "0-s", "0-s-1")
        for text in (*strays, "0-m\n", "9999999999-m", "٣-m", "0-s9999999999"):
            self.assertIsNone(NodeName.parse(text), text)

    @given(NUMBERS, NUMBERS)
    def test_partition_names_read_back(self, broker_id: int, partition: int) -> None:
        """What names a partition reads back as the same."""
        name = PartitionName(broker_id, partition)
        self.assertEqual(PartitionName.parse(str(name)), name)

    def test_other_partition_names(self) -> None:
        """A stray name is no partition."""
        for text in ("", "0", "0-", "-1-0", "0--1", "0-01", "0-0-0", "a-0", "0-0 "):
            self.assertIsNone(PartitionName.parse(text), text)

    def test_orders(self) -> None:
        """Consumers sort partitions as strings, producers by their numbers."""
        names = [PartitionName(b, p) for b in (10, 2) for p in range(11)]
        by_number = [str(name) for name in producer_order(names)]
        by_text = [str(name) for name in consumer_order(names)]
        self.assertEqual(by_number[:3], ["2-0", "2-1", "2-2"])
        self.assertEqual(by_number[10:12], ["2-10", "10-0"])
        self.assertEqual(by_text[:4], ["10-0", "10-1", "10-10", "10-2"])
        self.assertEqual(by_text, sorted(by_number))

    def test_java_order_of_strings(self) -> None:
        """A character past U+FFFF sorts before U+FF01, as its surrogates do."""
        self.assertEqual(string_order(["\uff01", "\U0001f600", "1"])[1], "\U0001f600")

    def test_path_elements(self) -> None:
        """What ZooKeeper's servers and its Java client take in a path is taken."""
        for name in ("orders", "log-.*", "a b", "订单", "...", "zookeeper", "~"):
            self.assertTrue(is_path_element(name), name)
        unfit = ("\x00", "\x1f", "\x7f", "\x9f", "\ud800", "\ue000", "\uffff")
        for character in (*unfit, "\U0001f600", "/"):
            self.assertFalse(is_path_element(f"a{character}b"), ascii(character))
        for name in ("", ".", ".."):
            self.assertFalse(is_path_element(name), name)

    def test_group_names(self) -> None:
        """Each character that Java clients refuse in a group is refused."""
        for character in "~ !#$%^&*()+=`'\",;/?[]<>.:":
            self.assertIsNotNone(group_problem(f"a{character}b"), character)
        for group in ("billing", "meta-slave-group_1", "a@b", "订单", "a|b"):
            self.assertIsNone(group_problem(group), group)
        for group in ("", " ", "a\x00b"):
            self.assertIsNotNone(group_problem(group), group)

    def test_consumer_ids(self) -> None:
        """A consumer's id is made of its group and something unique."""
        self.assertEqual(consumer_id("g1", "c1"), "g1_c1")
        for group, unique in (("a.b", "c"), ("", "c"), ("g", ""), ("g", "a/b")):
            with self.assertRaises(ValueError):
                consumer_id(group, unique)
