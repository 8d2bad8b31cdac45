"""Reading a group: what is left out, and what it costs."""

from __future__ import annotations

from typing import Any

from metatwist.client.group.view import GroupPicture, GroupReader
from metatwist.coordination.layout import TopicTree
from metatwist.coordination.names import PartitionName
from tests.client.group.group_case import GROUP, LAYOUT, GroupCase


class ViewCase(GroupCase):
    """A reader of topics t and u, and members that the test registers."""

    def setUp(self) -> None:
        super().setUp()
        self.connection = self.world.connect()
        self.changes: list[None] = []
        self.reader = GroupReader(
            self.connection,
            LAYOUT,
            GROUP,
            ["t", "u"],
            lambda: self.changes.append(None),
        )

    def register(self, consumer: str, data: bytes) -> None:
        path = LAYOUT.member(GROUP, consumer)
        made = self.world.admin.create(path, data, ephemeral=True, make_parents=True)
        self.successResultOf(made)

    def offer(self, node: str, data: bytes) -> None:
        path = LAYOUT.topic_node(TopicTree.SUBSCRIBE, "t", node)
        self.successResultOf(self.world.admin.create(path, data, ephemeral=True))

    def read(self) -> GroupPicture:
        found: Any = self.successResultOf(self.reader.read())
        assert isinstance(found, GroupPicture)
        return found


class ReadingTests(ViewCase):
    """What a picture shows."""

    def test_picture(self) -> None:
        """Members with topics, partitions of my topics; a missing topic is made so that
        it can be watched, as Java does."""
        self.register("g_a", b"t,v")
        self.register("g_b", b"")
        picture = self.read()
        self.assertEqual(picture.members, {"g_a": {"t", "v"}, "g_b": frozenset()})
        four = {PartitionName(0, n) for n in range(4)}
        self.assertEqual(picture.partitions, {"t": four, "u": frozenset()})
        path = LAYOUT.topic_dir(TopicTree.SUBSCRIBE, "u")
        stat = self.successResultOf(self.world.admin.exists(path))
        self.assertEqual(stat.ephemeral_owner, 0)

    def test_unreadable(self) -> None:
        """What cannot be read is left out, with one warning each."""
        self.register("g_a", b"t")
        self.register("g_bad", b"\xff")
        self.offer("1-m", b"garbage")
        self.offer("2-m", b" ")
        self.offer("stray", b'{"numParts":3}')
        for _ in range(3):
            picture = self.read()
            self.reader.forget()
        self.assertEqual(set(picture.members), {"g_a"})
        self.assertEqual(len(picture.partitions["t"]), 4)

    def test_no_group(self) -> None:
        """A group that is not there yet has no members."""
        self.assertEqual(self.read().members, {})


class CostTests(ViewCase):
    """What reading costs (W10)."""

    def setUp(self) -> None:
        super().setUp()
        for number in range(50):
            self.register(f"g_{number}", b"t")
        self.read()

    def cost(self) -> int:
        """Requests of one more reading."""
        before = self.connection.requests
        self.read()
        return self.connection.requests - before

    def test_unchanged(self) -> None:
        """What has not changed is not read again."""
        self.assertEqual(self.cost(), 0)
        self.assertEqual(self.changes, [])

    def test_one_more(self) -> None:
        """A new member costs two reads, however many there are."""
        self.register("g_new", b"t")
        self.clock.advance(0)
        self.assertEqual(len(self.changes), 1)
        self.assertEqual(self.cost(), 2)

    def test_again_under_the_same_name(self) -> None:
        """A member that comes again with other topics is read again."""
        path = LAYOUT.member(GROUP, "g_7")
        self.successResultOf(self.world.admin.delete(path))
        self.register("g_7", b"u")
        self.clock.advance(0)
        self.assertEqual(self.read().members["g_7"], {"u"})

    def test_gone(self) -> None:
        """Who has gone is not watched any more."""
        watched = len(self.connection.watching)
        for number in range(20):
            path = LAYOUT.member(GROUP, f"g_{number}")
            self.successResultOf(self.world.admin.delete(path))
        self.clock.advance(0)
        self.read()
        self.assertEqual(len(self.connection.watching), watched - 20)

    def test_forget(self) -> None:
        """After `forget` all is read anew, without a watch too many."""
        watched = len(self.connection.watching)
        self.reader.forget()
        self.assertEqual(self.connection.watching, {})
        self.assertEqual(self.cost(), watched)
        self.assertEqual(len(self.connection.watching), watched)

    def test_forget_while_reading(self) -> None:
        """An answer that was under way at `forget` is not remembered."""
        self.reader.forget()
        self.connection.latency_s = 1
        reading = self.reader.read()
        self.reader.forget()
        self.clock.pump([1, 1, 1, 1])
        self.assertEqual(len(self.successResultOf(reading).members), 50)
        self.connection.latency_s = 0
        self.assertGreater(self.cost(), 0)
