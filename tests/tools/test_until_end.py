"""When `consume --until-end` is at the end."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import MessageTooLarge
from metatwist.client.events import Assigned, PartitionStopped
from metatwist.client.message import TopicPartition
from metatwist.coordination.errors import ConnectionLost
from metatwist.coordination.names import PartitionName
from metatwist.tools.ending import ToolError
from metatwist.tools.group_sight import Sight
from metatwist.tools.notes import ConsumerNotes
from metatwist.tools.running import Scene, Stop
from metatwist.tools.target import Target
from metatwist.tools.until_end import UntilEnd

ONE, TWO = (TopicPartition("t", PartitionName(0, number)) for number in (0, 1))


class Reading:
    """Stands for a consumer, and for what is seen of its group; None cannot be seen."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int | None] = {}
        self.sight: Sight | None = None

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """See Consumer."""
        return tuple(self.positions)

    def position(self, one: TopicPartition) -> int | None:
        """See Consumer."""
        return self.positions[one]

    async def look(self, _partitions: object) -> Sight:
        """See GroupSight."""
        if self.sight is None:
            raise ConnectionLost("away")
        return self.sight


class UntilEndTest(SynchronousTestCase):
    """Two partitions of 10 bytes, patience of 5 s."""

    def setUp(self) -> None:
        """Nothing is assigned yet."""
        self.clock = Clock()
        self.reading: Any = Reading()
        self.said: list[str] = []
        self.patch(Scene, "say", lambda _, text: self.said.append(text))
        self.notes = ConsumerNotes(self.said.append)
        client: Any = None
        scene = Scene(self.clock, client, None, Stop(), Target(timeout_s=5))
        ends = {ONE: 10, TWO: 10}
        reading = self.reading
        self.until_end = UntilEnd(scene, reading, self.notes, ends, reading)

    def is_reached(self) -> Any:
        """The answer after another second."""
        self.clock.advance(1)
        return Deferred.fromCoroutine(self.until_end.is_reached())

    def check(self, reached: bool) -> None:
        """Whether the end is reached."""
        self.assertIs(self.successResultOf(self.is_reached()), reached)

    def assign(self, **positions: int | None) -> None:
        """Give us partitions `one` and `two`."""
        names = {"one": ONE, "two": TWO}
        self.reading.positions = {names[name]: at for name, at in positions.items()}
        self.notes.told(Assigned(self.reading.assigned))

    def see(self, *share: TopicPartition, **owners: str) -> None:
        """What the tree says; members are `me` and `other`."""
        names = {"one": ONE, "two": TWO}
        found = {names[name]: owner for name, owner in owners.items()}
        self.reading.sight = Sight("me", share, found, ("me", "other"))

    def test_all_ours(self) -> None:
        """With all partitions it is when all have been read."""
        for positions in ({"one": 10, "two": None}, {"one": 10, "two": 9}):
            self.assign(**positions)
            self.check(False)
        self.assign(one=10, two=12)
        self.check(True)

    def test_stopped_and_new(self) -> None:
        """What is not read any more, or was not there at the beginning, is not waited
        for."""
        self.assign(one=10, two=None)
        self.notes.told(PartitionStopped(TWO, MessageTooLarge("too large")))
        new = TopicPartition("t", PartitionName(0, 2))
        self.reading.positions[new] = None
        self.check(True)

    def test_others(self) -> None:
        """Another member's share is not waited for; our share in its hands, what nobody
        has, and what one has who is no member, is."""
        self.assign(one=10)
        for share, owner in (
            ((ONE, TWO), "other"),
            ((ONE,), "stranger"),
            ((ONE,), "me"),
        ):
            self.see(*share, two=owner)
            self.check(False)
        self.see(ONE)
        self.check(False)
        self.reading.sight = None
        self.check(False)
        self.see(ONE, two="other")
        self.check(True)

    def test_a_note(self) -> None:
        """One that has read something is told, once, what it waits for."""
        self.assign(one=10)
        self.see(ONE, TWO, two="other")
        for _ in range(10):
            self.check(False)
        self.assertEqual(self.said, ["waits for partitions: t:0-1 held by other"])

    def test_nothing_assigned(self) -> None:
        """One that never had a partition gives up, and says who has them."""
        self.see(ONE, one="other")
        for _ in range(5):
            self.check(False)
        error = self.failureResultOf(self.is_reached(), ToolError).value
        self.assertEqual(
            str(error),
            "no partition was assigned within 5 s: "
            "t:0-0 held by other; t:0-1 held by nobody",
        )
