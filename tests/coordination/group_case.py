"""A tree in memory and the reader of its groups, for tests."""

from __future__ import annotations

import json

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.group_view import GroupView, PartitionView, Trouble
from metatwist.coordination.groups import Groups
from metatwist.coordination.layout import Layout

Ends = dict[tuple[int, str, int], tuple[int, int]]


class KnownLogs:
    """Bounds of logs from a table; what is not in it is not known."""

    def __init__(self, table: Ends) -> None:
        self.table = table

    def bounds(
        self, broker_id: int, topic: str, partition: int
    ) -> tuple[int, int] | None:
        return self.table.get((broker_id, topic, partition))


class GroupsCase(SynchronousTestCase):
    """A tree in memory and the reader of its groups."""

    def setUp(self) -> None:
        self.tree = LocalCoordinator.in_memory(Clock())
        self.logs = KnownLogs({})
        self.groups = Groups(self.tree, Layout(), self.logs)

    def put(self, path: str, data: str | bytes = "") -> None:
        """Make a node below /meta with its parents, or replace its data."""
        found = data.encode() if isinstance(data, str) else data
        whole = f"/meta/{path}"
        if self.successResultOf(self.tree.exists(whole)) is None:
            made = self.tree.create(whole, found or None, make_parents=True)
            self.successResultOf(made)
        else:
            self.successResultOf(self.tree.set(whole, found))

    def offer(self, topic: str, count: int, name: str = "0-m") -> None:
        """Register partitions of a topic for consuming."""
        value = json.dumps({"numParts": count, "broker": name})
        self.put(f"brokers/topics-sub/{topic}/{name}", value)

    def view(self, name: str = "g") -> GroupView:
        """The view of a group."""
        found = self.successResultOf(self.groups.group(name))
        assert found is not None
        return found

    def partition(self, name: str, topic: str = "t") -> PartitionView:
        """The view of a partition of group g."""
        (topic_view,) = [one for one in self.view().topics if one.topic == topic]
        (found,) = [one for one in topic_view.partitions if one.name == name]
        return found

    def troubles(self, name: str = "g") -> list[tuple[Trouble, str | None, str | None]]:
        """What is found of a group, with partition and member."""
        findings = self.view(name).findings
        return [(one.trouble, one.partition, one.member) for one in findings]
