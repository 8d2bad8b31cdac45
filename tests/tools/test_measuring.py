"""`bench consume` where a partition cannot be read to its end, and `ConsumerNotes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import (
    ClientError,
    DuplicateConsumer,
    MessageTooLarge,
    NotConnected,
)
from metatwist.client.events import FetchFailed, OffsetJumped, PartitionStopped
from metatwist.client.message import TopicPartition
from metatwist.client.reading.starting import KeptRange
from metatwist.coordination.names import PartitionName
from metatwist.tools.measuring import Limits, measure_consuming
from metatwist.tools.notes import ConsumerNotes
from metatwist.tools.running import Scene, Stop
from metatwist.tools.target import Target

ONE, TWO = (TopicPartition("t", PartitionName(0, number)) for number in (0, 1))


class TwoPartitions:
    """Stands for a client and for its consumer: partitions that hold 10 bytes each."""

    def __init__(self) -> None:
        self.failing: dict[TopicPartition, ClientError] = {}
        self.starting: Deferred[None] = succeed(None)
        self.assigned: tuple[TopicPartition, ...] = ()
        self.positions: dict[TopicPartition, int] = {}
        self.is_stopped = False
        self.tell: Any = None

    def partitions(self, topic: str) -> Deferred[Sequence[PartitionName]]:
        """See MetaClient."""
        return succeed([one.partition for one in (ONE, TWO) if one.topic == topic])

    def kept(self, one: TopicPartition) -> Deferred[KeptRange]:
        """See MetaClient."""
        error = self.failing.get(one)
        return succeed(KeptRange(0, 10)) if error is None else fail(error)

    def consumer(self, _settings: object, *, hooks: Any, **_more: Any) -> TwoPartitions:
        """See MetaClient."""
        self.tell = hooks.on_event
        self.assigned = tuple(one for one in (ONE, TWO) if one not in self.failing)
        return self

    def subscribe(self, *_subscription: object) -> None:
        """See Consumer."""

    def start(self) -> Deferred[None]:
        """See Consumer."""
        return self.starting

    def position(self, one: TopicPartition) -> int:
        """See Consumer."""
        return self.positions.get(one, 0)

    def stop(self) -> Deferred[None]:
        """See Consumer."""
        self.is_stopped = True
        return succeed(None)


class BenchConsumeTest(SynchronousTestCase):
    """It always ends, and says what it could not read."""

    def setUp(self) -> None:
        """A client that is not asked yet."""
        self.clock = Clock()
        self.client = TwoPartitions()
        self.said: list[str] = []
        self.patch(Scene, "say", lambda _, text: self.said.append(text))

    def begin(self) -> Deferred[Any]:
        """Measure, with a patience of 10 s."""
        client: Any = self.client
        target = Target(timeout_s=10, progress=False)
        scene = Scene(self.clock, client, None, Stop(), target)
        coroutine = measure_consuming(scene, "t", Limits(None))
        return Deferred.fromCoroutine(coroutine)

    def code(self, measuring: Deferred[Any]) -> int:
        """The exit code, after the next look."""
        self.clock.advance(1)
        code, _ = self.successResultOf(measuring)
        self.assertTrue(self.client.is_stopped)
        return int(code)

    def test_all_read(self) -> None:
        """It ends with 0 once all partitions are at their ends."""
        measuring = self.begin()
        self.client.positions[ONE] = 10
        self.clock.advance(1)
        self.assertNoResult(measuring)
        self.client.positions[TWO] = 10
        self.assertEqual(self.code(measuring), 0)
        self.assertEqual(self.said, [])

    def test_stopped(self) -> None:
        """A partition that stops is told and not waited for; the exit code is 1."""
        measuring = self.begin()
        self.client.tell(PartitionStopped(TWO, MessageTooLarge("too large")))
        self.clock.advance(1)
        self.assertNoResult(measuring)
        self.client.positions[ONE] = 10
        self.assertEqual(self.code(measuring), 1)
        self.assertEqual(self.said, ["t:0-1 is not read any more: too large"])

    def test_fails_on(self) -> None:
        """A partition that cannot be fetched is given up after the patience."""
        measuring = self.begin()
        self.client.positions[ONE] = 10
        self.client.tell(FetchFailed(TWO, NotConnected("refused"), 1))
        self.clock.advance(9)
        self.assertNoResult(measuring)
        self.clock.advance(1)
        self.client.tell(FetchFailed(TWO, NotConnected("refused"), 2))
        self.assertEqual(self.code(measuring), 1)
        self.assertEqual(
            self.said,
            [
                "t:0-1: tries again: refused",
                "t:0-1 is not read any more: refused",
            ],
        )

    def test_cannot_be_asked(self) -> None:
        """A partition of which nobody knows the end is told, and the exit code 1."""
        self.client.failing[TWO] = NotConnected("refused")
        measuring = self.begin()
        self.client.positions[ONE] = 10
        self.assertEqual(self.code(measuring), 1)
        self.assertEqual(self.said, ["t:0-1 cannot be read now: refused"])

    def test_cannot_start(self) -> None:
        """What keeps the consumer from starting is raised, and it is stopped."""
        self.client.starting = fail(DuplicateConsumer("there is one"))
        self.failureResultOf(self.begin(), DuplicateConsumer)
        self.assertTrue(self.client.is_stopped)


class NotesTest(SynchronousTestCase):
    """What of events is said."""

    def test_jumps(self) -> None:
        """Jumps are said that nobody asked for."""
        said: list[str] = []
        notes = ConsumerNotes(said.append)
        for reason in ("start", "sought", "deleted"):
            notes.told(OffsetJumped(ONE, 0, 5, reason))
        self.assertEqual(said, ["t:0-0: deleted, goes on at 5 instead of 0"])
