"""How much a feed asks for, and what it does about records that are not intact."""

from __future__ import annotations

from itertools import pairwise

from metatwist.client.errors import (
    MessageTooLarge,
)
from metatwist.client.events import OffsetJumped, PartitionStopped
from metatwist.client.reading.cursor import MOST_SHORT_ANSWERS
from metatwist.client.settings import FetchSettings
from metatwist.wire.records import encode, pack_header
from tests.client.reading.fakes import (
    LogBroker,
    World,
    log_of,
    partition,
    payloads,
)
from tests.client.reading.loop_case import LoopCase


class SizeTests(LoopCase):
    """How much is asked for."""

    def test_exactly_enough(self) -> None:
        """A message over the size is asked for by its header, then the size is the
        usual one; nothing is paused or lost."""
        bodies = [b"a" * 30, b"b" * 400, b"c", b"d" * 3000]
        self.serve(LogBroker(log_of(*bodies)))
        self.assertEqual(self.drain(), bodies)
        self.assertEqual(
            self.link.gets[:6],
            [(0, 64), (50, 64), (50, 420), (470, 64), (491, 64), (491, 3020)],
        )
        self.assertEqual(self.link.gets[6][1], 64)
        self.assertEqual(self.clock.seconds(), 0)

    def test_size_below_a_header(self) -> None:
        """Where not even a header fits, more is asked for."""
        settings = FetchSettings(size_bytes=4, prefetch_bytes=10_000)
        world = World(settings)
        world.link.auto = LogBroker(log_of(b"hello"))
        batch = self.successResultOf(world.feed().next())
        self.assertEqual(payloads(batch.messages), [b"hello"])
        self.assertEqual(world.link.gets[:3], [(0, 4), (0, 20), (0, 25)])

    def test_capped(self) -> None:
        """A broker that never sends enough stops the partition after a few tries, with
        an error that says what to change; a seek goes on."""
        self.serve(LogBroker(log_of(b"a" * 700, b"b"), cap=500))
        self.assertEqual(self.drain(), [])
        self.clock.pump([1, 2, 4, 8, 100, 100])
        (stopped,) = self.world.told(PartitionStopped)
        error = stopped.error
        self.assertIsInstance(error, MessageTooLarge)
        self.assertEqual(
            (error.topic, error.partition, error.offset, error.size_bytes),
            (*partition(), 0, 720),
        )
        for part in ("maxTransferSize", "720", "500", "orders", "offset 0"):
            self.assertIn(part, str(error))
        self.assertEqual(self.link.gets, [(0, 64)] + [(0, 720)] * MOST_SHORT_ANSWERS)
        self.feed.seek(720)
        self.assertEqual(self.drain(), [b"b"])

    def test_over_the_bound(self) -> None:
        """A message over `most_message_bytes` stops the partition, at once."""
        self.serve(LogBroker(log_of(b"a") + encode(2, 0, bytes(5001))))
        self.assertEqual(self.drain(), [b"a"])
        (stopped,) = self.world.told(PartitionStopped)
        self.assertIsInstance(stopped.error, MessageTooLarge)
        self.assertEqual((stopped.error.offset, stopped.error.size_bytes), (21, 5021))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_growing_tail(self) -> None:
        """The front of a header at the end is waited for, as long as it takes."""
        data = log_of(b"hello")
        self.serve(LogBroker(data[:9]))
        for _ in range(20):
            self.clock.advance(8)
        self.assertEqual(self.world.events, [])
        self.broker.data = data
        self.clock.advance(8)
        self.assertEqual(self.drain(), [b"hello"])


class DamageTests(LoopCase):
    """Records that are not intact."""

    def read_all(self, data: bytes) -> list[bytes]:
        self.serve(LogBroker(data))
        found = self.drain()
        for _ in range(60):
            self.clock.advance(8)
            found += self.drain()
        return found

    def jumps(self) -> list[tuple[int | None, int]]:
        told = self.world.told(OffsetJumped)
        self.assertEqual({jump.reason for jump in told}, {"corrupt"})
        return [(jump.from_offset, jump.to_offset) for jump in told]

    def test_bad_payload(self) -> None:
        """A record with a bad checksum is looked at twice, passed over and told; those
        around it come."""
        bad = encode(2, 0, b"bad")[:-1] + b"?"
        data = log_of(b"a", b"b") + bad + log_of(b"c")
        self.assertEqual(self.read_all(data), [b"a", b"b", b"c"])
        self.assertEqual(self.jumps(), [(42, 65)])

    def test_healed(self) -> None:
        """What is intact when looked at again is no damage."""
        good = log_of(b"good")
        self.serve(LogBroker(good[:-1] + b"?"))
        self.broker.data = good
        self.clock.advance(1)
        self.assertEqual(self.drain(), [b"good"])
        self.assertEqual(self.world.events, [])

    def test_bad_length(self) -> None:
        """With a damaged length the next intact record is found, with no offset
        command that would lead back to a segment's start."""
        for length in (-1, 1, 7):
            bad = pack_header(length, 5, 9, 0) + b"bad"
            data = log_of(b"a") + bad + log_of(b"b", b"c")
            self.assertEqual(self.read_all(data), [b"a", b"b", b"c"])
            self.assertEqual(self.jumps()[0][0], 21)
            self.assertEqual(self.jumps()[-1][1], 44)

    def test_large_damage(self) -> None:
        """Damage over many fetches is crossed, always forward, and told."""
        data = log_of(b"a") + b"\xff" * 300 + log_of(b"b")
        self.assertEqual(self.read_all(data), [b"a", b"b"])
        jumps = self.jumps()
        self.assertEqual((jumps[0][0], jumps[-1][1]), (21, 321))
        for (_, end), (begin, _) in pairwise(jumps):
            self.assertEqual(end, begin)

    def test_every_bit(self) -> None:
        """Whichever bit flips in the middle record's length or payload, its neighbours
        come, or the partition is stopped at it; nothing else."""
        first, bad, last = (encode(at, 0, b"body%d" % at) for at in (1, 2, 3))
        for bit in range(len(bad) * 8):
            if 64 <= bit < 160:
                continue  # id and flag are not covered by the checksum
            flipped = bytearray(bad)
            flipped[bit // 8] ^= 1 << bit % 8
            found = self.read_all(first + bytes(flipped) + last)
            stopped = self.world.told(PartitionStopped)
            if stopped:
                self.assertEqual(found, [b"body1"])
                self.assertEqual(stopped[0].error.offset, 25)
            else:
                self.assertEqual(found, [b"body1", b"body3"])
