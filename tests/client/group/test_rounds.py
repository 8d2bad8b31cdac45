"""When a round comes."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.group.rounds import GATHER_S, PERIOD_S, Rounds
from metatwist.coordination.errors import ConnectionLost


class RoundsTests(SynchronousTestCase):
    """Rounds whose ends the test decides."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.begun: list[bool] = []
        self.current: Deferred[Any] = Deferred()
        self.rounds = Rounds(self.clock, self.run_one)
        self.rounds.start()
        self.clock.advance(GATHER_S)

    def run_one(self, full: bool) -> Deferred[Any]:
        self.begun.append(full)
        self.current = Deferred()
        return self.current

    def test_gathered(self) -> None:
        """Many requests at once are one round; the first of all is a full one."""
        self.current.callback(None)
        for _ in range(1000):
            self.rounds.request()
        self.clock.advance(1)
        self.assertEqual(self.begun, [True, False])

    def test_while_under_way(self) -> None:
        """What is asked during a round is one more after it, never beside it (W11)."""
        for _ in range(10):
            self.rounds.request()
            self.clock.advance(1)
        self.assertEqual(self.begun, [True])
        self.current.callback(None)
        self.clock.advance(1)
        self.assertEqual(self.begun, [True, False])

    def test_taken_up(self) -> None:
        """Unless the round takes it up itself."""
        self.rounds.request()
        self.assertTrue(self.rounds.asked)
        self.rounds.take_up()
        self.assertFalse(self.rounds.asked)
        self.current.callback(None)
        self.clock.advance(1)
        self.assertEqual(self.begun, [True])

    def test_full_is_not_taken_up(self) -> None:
        """A full one that is asked for meanwhile comes in any case."""
        self.rounds.request(full=True)
        self.rounds.take_up()
        self.current.callback(None)
        self.clock.advance(1)
        self.assertEqual(self.begun, [True, True])

    def test_period(self) -> None:
        """Without any request a full one comes, again and again."""
        for _ in range(3):
            self.current.callback(None)
            self.clock.pump([1.2 * PERIOD_S, 1])
        self.assertEqual(self.begun, [True] * 4)

    def test_failures(self) -> None:
        """A failed round is tried again, also one that never should fail."""
        self.current.errback(ConnectionLost())
        self.clock.advance(1)
        self.assertEqual(len(self.begun), 2)
        self.current.errback(ZeroDivisionError())
        self.clock.advance(1)
        self.assertEqual(len(self.begun), 3)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_stopped(self) -> None:
        """After `stop` none begins, whatever was asked."""
        self.rounds.request()
        self.rounds.stop()
        self.current.errback(ConnectionLost())
        self.rounds.request()
        self.clock.advance(2 * PERIOD_S)
        self.assertEqual(self.begun, [True])
        self.assertEqual(self.clock.getDelayedCalls(), [])
