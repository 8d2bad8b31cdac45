"""What is done once at the end of a turn."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.broker_parts import BrokerParts, get, opaques, put


class TurnTests(SynchronousTestCase):
    """`Turn`, with connections and partitions around it."""

    def setUp(self) -> None:
        """A broker without peers."""
        self.parts = BrokerParts(self)

    def test_one_write_for_all_connections(self) -> None:
        """Puts of one turn from several connections are one batch of a partition."""
        peers = [self.parts.connect() for _ in range(3)]
        for peer in peers:
            peer.send(put(b"x"))
        self.parts.settle()
        self.assertEqual(self.parts.numbers.flushes, 1)
        for peer in peers:
            self.assertEqual(opaques(peer.taken()), [1])

    def test_turn_ends_by_itself(self) -> None:
        """Outside of a lane the end is scheduled, once however much happens."""
        peer = self.parts.connect()
        peer.send(put(b"x", partition=0), put(b"x", partition=1))
        peer.send(put(b"x", partition=2))
        self.assertEqual(len(self.parts.clock.getDelayedCalls()), 1)
        self.parts.turn()
        self.assertEqual(len(self.parts.syncer.waiting), 3)

    def test_lane_ends_the_turn(self) -> None:
        """Within a lane nothing is scheduled; the lane calls `end`."""
        self.parts.turns.in_lane = True
        self.parts.connect().send(put(b"x"))
        self.assertEqual(self.parts.clock.getDelayedCalls(), [])
        self.parts.turns.end()
        self.assertEqual(len(self.parts.syncer.waiting), 1)

    def test_what_the_end_begins(self) -> None:
        """What a settled answer lets happen is done in the same end."""
        peer = self.parts.connect()
        peer.send(put(b"x", 1, topic="lazy"), get(0, 2, topic="lazy"))
        self.parts.turn()
        self.assertEqual(opaques(peer.taken()), [1, 2])

    def test_several_batches_of_one_read(self) -> None:
        """A connection is answered when the last batch of its read has settled."""
        peer = self.parts.connect()
        peer.send(*(put(b"x", number, partition=number) for number in range(3)))
        self.parts.turn()
        self.parts.sync()
        self.parts.sync()
        self.parts.sync()
        self.assertEqual(opaques(peer.taken()), [0, 1, 2])

    def test_idle_broker_has_nothing_to_do(self) -> None:
        """When all is answered nothing is scheduled and nothing waits."""
        self.parts.connect().ask(put(b"x"), get(0))
        self.assertEqual(self.parts.clock.getDelayedCalls(), [])
        self.assertEqual(self.parts.numbers.pending_bytes, 0)
