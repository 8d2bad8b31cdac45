"""When passes begin."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.passes import RETRY_S, Passes

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
