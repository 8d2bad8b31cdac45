"""Where a feed begins, and where it goes on from a position that is not kept."""

from __future__ import annotations

from metatwist.client.errors import (
    OffsetOutOfRange,
)
from metatwist.client.events import FetchFailed, OffsetJumped, PartitionStopped
from metatwist.client.reading.end_watch import BEYOND_S, END_CHECK_S
from metatwist.client.settings import Start
from metatwist.wire.commands import GetCommand, OffsetCommand
from tests.client.reading.fakes import (
    LogBroker,
    log_of,
    partition,
    result,
)
from tests.client.reading.loop_case import LoopCase


class StartTests(LoopCase):
    """Where a partition without a stored offset begins."""

    def test_policies(self) -> None:
        """The policy is asked once; the start is told and read from."""
        data = log_of(b"a", b"b")
        begins = {Start.EARLIEST: 1000, Start.LATEST: 1042, 1021: 1021}
        for start, offset in begins.items():
            self.serve(LogBroker(data, 1000), stored=None, start=start)
            (jump,) = self.world.told(OffsetJumped)
            self.assertEqual(jump, OffsetJumped(partition(), None, offset, "start"))
            self.assertEqual(self.link.gets[0][0], offset)

    def test_latest_of_a_new_partition(self) -> None:
        """LATEST where there is no log yet begins with its first message (W17)."""
        broker = LogBroker()
        broker.exists = False
        self.serve(broker, stored=None, start=Start.LATEST)
        self.clock.advance(5)
        broker.exists, broker.data = True, log_of(b"first", b"second")
        self.clock.advance(8)
        self.assertEqual(self.drain(), [b"first", b"second"])

    def test_error(self) -> None:
        """ERROR stops the partition."""
        self.serve(LogBroker(), stored=None, start=Start.ERROR)
        (stopped,) = self.world.told(PartitionStopped)
        self.assertIsInstance(stopped.error, OffsetOutOfRange)
        self.assertIsNone(self.feed.position)

    def test_failing(self) -> None:
        """A start that cannot be found is tried again."""
        self.begin(None)
        self.link.answer(result(500, "disk"))
        self.assertEqual(len(self.world.told(FetchFailed)), 1)
        self.clock.advance(2)
        self.link.answer(result(200, "10"))
        self.link.answer(result(200, "90"))
        self.assertEqual(self.feed.position, 10)
        self.assertEqual(self.link.gets, [(10, 64)])


class OutOfRangeTests(LoopCase):
    """Positions that are not kept."""

    def jump_of(self, policy: Start, stored: int) -> list[OffsetJumped]:
        broker = LogBroker(log_of(b"a", b"b"), 1000)
        self.serve(broker, stored=stored, out_of_range=policy)
        self.clock.pump([1.0] * 60)
        return self.world.told(OffsetJumped)

    def test_below(self) -> None:
        """Below the first kept message each policy does as it says, told."""
        ends = {Start.NEAREST: 1000, Start.EARLIEST: 1000, Start.LATEST: 1042}
        for policy, end in ends.items():
            jump = OffsetJumped(partition(), 7, end, "deleted")
            self.assertEqual(self.jump_of(policy, 7), [jump])
            expected = [b"a", b"b"] if end == 1000 else []
            self.assertEqual(self.drain(), expected)

    def test_beyond(self) -> None:
        """Beyond the end, where brokers say 404 for ever, the same (W34)."""
        ends = {Start.NEAREST: 1042, Start.EARLIEST: 1000, Start.LATEST: 1042}
        for policy, end in ends.items():
            jump = OffsetJumped(partition(), 5000, end, "beyond the end")
            self.assertEqual(self.jump_of(policy, 5000), [jump])

    def test_error(self) -> None:
        """ERROR stops the partition with what is kept; a seek goes on."""
        for stored in (7, 5000):
            self.assertEqual(self.jump_of(Start.ERROR, stored), [])
            (stopped,) = self.world.told(PartitionStopped)
            error = stopped.error
            self.assertIsInstance(error, OffsetOutOfRange)
            self.assertEqual(
                (error.offset, error.earliest, error.latest), (stored, 1000, 1042)
            )
            self.feed.seek(1021)
            self.assertEqual(self.drain(), [b"b"])

    def test_only_late(self) -> None:
        """An end that catches up in time is no reason to jump: a broker may show
        messages before they are synced."""
        data = log_of(b"a", b"b")
        self.serve(LogBroker(data[:21]), stored=21 + 21)
        self.clock.pump([0.5] * int(2 * BEYOND_S - 2))
        self.broker.data = data
        self.clock.pump([0.5] * 200)
        self.assertEqual(self.world.events, [])

    def test_lost_later(self) -> None:
        """A log that becomes shorter while nothing comes is seen within a while."""
        self.serve(LogBroker(log_of(b"a", b"b")))
        self.drain()
        self.broker.data = log_of(b"a")
        self.clock.pump([1.0] * int(END_CHECK_S + BEYOND_S + 20))
        self.assertEqual(
            self.world.events, [OffsetJumped(partition(), 42, 21, "beyond the end")]
        )

    def test_moved_back(self) -> None:
        """A 301 that leads back is followed only when it lasts."""
        self.begin(500)
        answers = {GetCommand: result(301, "42"), OffsetCommand: result(200, "42")}
        self.link.auto = lambda command: answers[type(command)]
        self.link.answer(result(301, "42"))
        self.clock.pump([1.0] * int(BEYOND_S - 1))
        self.assertEqual(self.world.events, [])
        self.clock.pump([1.0] * 10)
        self.assertEqual(self.feed.position, 42)
        self.assertEqual(self.world.events[0].reason, "beyond the end")

    def test_gap(self) -> None:
        """A 301 within what is kept is followed whatever the policy, and told."""
        self.begin(500, out_of_range=Start.ERROR)
        self.link.answer(result(301, "900"))
        self.link.answer(result(200, "0"))
        self.link.answer(result(200, "9000"))
        jump = OffsetJumped(partition(), 500, 900, "moved")
        self.assertEqual(self.world.events, [jump])
        self.assertEqual(self.link.gets[-1], (900, 64))
