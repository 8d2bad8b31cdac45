"""When passes begin."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.passes import (
    FULL_REST,
    LONGEST_REST_S,
    REST,
    RETRY_S,
    Passes,
)

INTERVAL_S = 10.0


class PassesTests(SynchronousTestCase):
    """`Passes`, its passes ended by the test."""

    def setUp(self) -> None:
        """Started, the first pass under way."""
        self.clock = Clock()
        self.begun: list[bool] = []
        self.running: list[Deferred[bool]] = []
        self.interval_s = INTERVAL_S
        self.passes = Passes(self.clock, self.run_pass, lambda: self.interval_s)
        self.passes.start()
        self.addCleanup(self.passes.stop)
        self.clock.advance(0)

    def run_pass(self, full: bool) -> Deferred[bool]:
        """Note it."""
        self.begun.append(full)
        self.running.append(Deferred())
        return self.running[-1]

    def end(self, again: bool = False) -> None:
        """End the pass that is under way, and the turn."""
        self.running.pop().callback(again)
        self.clock.advance(0)

    def test_first(self) -> None:
        """The first pass is a full one."""
        self.assertEqual(self.begun, [True])

    def test_coalesced(self) -> None:
        """What is asked for during a pass is one pass after it, full if any was."""
        self.passes.request()
        self.passes.request(full=True)
        self.passes.request()
        self.clock.advance(0)
        self.assertEqual(self.begun, [True])
        self.end()
        self.assertEqual(self.begun, [True, True])
        self.end()
        self.assertEqual(len(self.begun), 2)

    def test_quick(self) -> None:
        """A pass that is not asked to be full is not."""
        self.end()
        self.passes.request()
        self.passes.request()
        self.clock.advance(0)
        self.assertEqual(self.begun, [True, False])

    def test_period(self) -> None:
        """A full one comes with each period, whose length may change."""
        self.end()
        self.clock.advance(INTERVAL_S)
        self.assertEqual(self.begun, [True, True])
        self.end()
        self.interval_s = 2.0
        self.clock.advance(INTERVAL_S)
        self.end()
        self.clock.advance(2)
        self.assertEqual(self.begun, [True] * 4)

    def test_rest(self) -> None:
        """After a pass comes a rest, in proportion and not for long; what is asked for
        in it is one pass."""
        for took_s, rest_s in ((0.1, REST * 0.1), (3.0, LONGEST_REST_S)):
            count = len(self.begun)
            self.clock.advance(took_s)
            self.end()
            self.passes.request()
            self.clock.advance(rest_s - 0.01)
            self.passes.request()
            self.assertEqual(len(self.begun), count)
            self.clock.advance(0.02)
            self.assertEqual(len(self.begun), count + 1)

    def test_after_the_rest(self) -> None:
        """Later on a pass begins at once."""
        self.clock.advance(0.1)
        self.end()
        self.clock.advance(REST * 0.1)
        self.passes.request()
        self.clock.advance(0)
        self.assertEqual(len(self.begun), 2)

    def test_long_full_pass(self) -> None:
        """After a full one that took long, periods are left out; a short one that comes
        meanwhile ends that."""
        self.clock.advance(2)
        self.end()
        self.assertEqual(int(FULL_REST * 2 / INTERVAL_S), 1)
        self.clock.advance(INTERVAL_S)
        self.assertEqual(len(self.begun), 1)
        self.clock.advance(INTERVAL_S)
        self.assertEqual(len(self.begun), 2)
        self.clock.advance(2)
        self.end()
        self.clock.advance(LONGEST_REST_S)
        self.passes.request(full=True)
        self.clock.advance(0)
        self.end()
        self.assertEqual(len(self.begun), 3)
        self.clock.advance(INTERVAL_S)
        self.assertEqual(len(self.begun), 4)

    def test_long_failure(self) -> None:
        """One that failed in the end leaves no period out."""
        self.clock.advance(2)
        self.end(again=True)
        self.clock.advance(RETRY_S)
        self.end(again=False)
        self.clock.advance(INTERVAL_S - 2 - RETRY_S)
        self.assertEqual(len(self.begun), 3)

    def test_again(self) -> None:
        """One that asks for it is tried again in full, soon but not at once."""
        self.end(again=True)
        self.assertEqual(len(self.begun), 1)
        self.clock.advance(RETRY_S)
        self.assertEqual(self.begun, [True, True])

    def test_full_stays_due(self) -> None:
        """After a pass that asks to be tried again the next one is full, whatever
        begins it."""
        self.end(again=True)
        self.passes.request()
        self.clock.advance(0)
        self.assertEqual(self.begun, [True, True])

    def test_broken(self) -> None:
        """A pass that fails as none should is logged, and not the last one."""
        self.running.pop().errback(ZeroDivisionError())
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.clock.advance(INTERVAL_S)
        self.assertEqual(len(self.begun), 2)

    def test_stopped(self) -> None:
        """After a stop none begins, and nothing is left on the clock."""
        self.passes.request()
        self.passes.stop()
        idle = self.passes.idle()
        self.assertNoResult(idle)
        self.end(again=True)
        self.successResultOf(idle)
        self.passes.request()
        self.clock.advance(INTERVAL_S)
        self.assertEqual(len(self.begun), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.successResultOf(self.passes.idle())
