"""Waiting for what others promise to answer."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.bounded import at_most


class AtMostTest(SynchronousTestCase):
    """`at_most`."""

    def setUp(self) -> None:
        """Something takes its time."""
        self.clock = Clock()
        self.waiting: Deferred[None] = Deferred()

    def test_in_time(self) -> None:
        """It fires True once the thing has ended, and leaves no timer."""
        bounded = at_most(self.clock, 3, self.waiting, "it")
        self.assertNoResult(bounded)
        self.waiting.callback(None)
        self.assertIs(self.successResultOf(bounded), True)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_too_late(self) -> None:
        """It fires False when the time is up, and a late end is nothing."""
        late: Deferred[None] = Deferred(lambda _: None)
        bounded = at_most(self.clock, 3, late, "it")
        self.clock.advance(3)
        self.assertIs(self.successResultOf(bounded), False)
        self.assertTrue(late.called)

    def test_failure(self) -> None:
        """A failure is an end, and is logged."""
        bounded = at_most(self.clock, 3, self.waiting, "it")
        self.waiting.errback(ValueError())
        self.assertIs(self.successResultOf(bounded), True)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_cancelled(self) -> None:
        """Cancelling cancels the thing, logs nothing and leaves no timer."""
        bounded = at_most(self.clock, 3, self.waiting, "it")
        bounded.cancel()
        self.assertIs(self.successResultOf(bounded), True)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_what_ignores_its_cancellation(self) -> None:
        """It cannot hold up whoever cancels, and may end later."""

        async def stubborn() -> None:
            try:
                await self.waiting
            finally:
                await going_on

        going_on: Deferred[None] = Deferred()
        working = Deferred.fromCoroutine(stubborn())
        bounded = at_most(self.clock, 3, working, "it")
        bounded.addErrback(lambda _: None)
        bounded.cancel()
        self.successResultOf(bounded)
        going_on.callback(None)
        self.clock.advance(5)
        self.assertEqual(self.clock.getDelayedCalls(), [])
