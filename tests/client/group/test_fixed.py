"""Partitions that are given by hand, or found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.client.errors import ClientStopped, GroupError, NotConnected
from metatwist.client.group.fixed import (
    PERIOD_S,
    FixedAssignment,
    Partitions,
    all_partitions,
)
from metatwist.client.group.membership import MembershipState
from metatwist.client.interfaces import IAssignment
from metatwist.coordination.names import PartitionName
from tests.client.group.group_case import Holder, tp

TWO = {"t": [PartitionName(0, 1), PartitionName(0, 0)], "v": [PartitionName(1, 0)]}
ONE = {"t": [PartitionName(0, 0)]}
TOPICS = frozenset({"t", "u"})


class FixedCase(SynchronousTestCase):
    """A holder and a clock; `answers` are what the finder says, the last one again and
    again."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.holder = Holder()
        self.answers: list[Callable[[], Deferred[Any]]] = []
        self.asked: list[frozenset[str]] = []

    def find(self, topics: frozenset[str]) -> Deferred[Partitions]:
        """The finder."""
        self.asked.append(topics)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer()

    def fixed(self, partitions: Any) -> FixedAssignment:
        """An assignment of the consumer g_a."""
        return FixedAssignment(partitions, "g_a", self.clock)

    def finding(self, *answers: object) -> FixedAssignment:
        """One that looks; an answer is what is found, a failure, or a Deferred."""

        def answer(one: Any) -> Callable[[], Deferred[Any]]:
            if isinstance(one, Exception):
                return lambda: fail(one)
            return lambda: one if isinstance(one, Deferred) else succeed(one)

        self.answers = list(map(answer, answers))
        return self.fixed(self.find)


class GivenTests(FixedCase):
    """Partitions given by hand."""

    def test_given(self) -> None:
        """The partitions of the wanted topics are taken, with claims that hold."""
        fixed = self.fixed(TWO)
        verifyObject(IAssignment, fixed)
        self.successResultOf(fixed.start(self.holder, TOPICS))
        self.assertEqual(self.holder.log, [("take", ("t:0-0", "t:0-1"))])
        claim = self.holder.claims[tp("t:0-0")]
        self.assertEqual((claim.consumer, claim.session_id), ("g_a", 0))
        self.assertTrue(claim.holds())
        self.assertEqual(fixed.held, {tp("t:0-0"), tp("t:0-1")})
        self.failureResultOf(fixed.start(self.holder, TOPICS), GroupError)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_for_every_topic(self) -> None:
        """A plain sequence goes for all topics."""
        fixed = self.fixed([PartitionName(0, 1)])
        self.successResultOf(fixed.start(self.holder, TOPICS))
        self.assertEqual(self.holder.log, [("take", ("t:0-1", "u:0-1"))])

    def test_nothing(self) -> None:
        """With nothing to read it has begun at once, and left at once."""
        fixed = self.fixed({})
        self.successResultOf(fixed.start(self.holder, TOPICS))
        self.successResultOf(fixed.stop())
        self.assertEqual(self.holder.log, [])

    def test_slow(self) -> None:
        """It has begun when the holder has."""
        self.holder.slow_takes = {tp("t:0-0")}
        started = self.fixed(ONE).start(self.holder, TOPICS)
        self.assertNoResult(started)
        self.holder.begin()
        self.successResultOf(started)

    def test_stop(self) -> None:
        """Stopping waits for the holder, in each call of it."""
        fixed = self.fixed(ONE)
        self.successResultOf(fixed.start(self.holder, TOPICS))
        self.holder.slow_stops = {tp("t:0-0")}
        first, second = fixed.stop(), fixed.stop()
        first.cancel()
        self.failureResultOf(first)
        self.assertNoResult(second)
        self.holder.finish(tp("t:0-0"))
        self.successResultOf(second)
        self.successResultOf(fixed.stop())
        self.assertIs(fixed.state, MembershipState.LEFT)
        self.assertEqual(fixed.held, frozenset())


class FoundTests(FixedCase):
    """Partitions that are looked for."""

    def test_found(self) -> None:
        """The start waits until they are found, for the topics that are wanted."""
        looking: Deferred[Partitions] = Deferred()
        fixed = self.finding(looking)
        started = fixed.start(self.holder, TOPICS)
        self.assertNoResult(started)
        looking.callback(TWO)
        self.successResultOf(started)
        self.assertEqual(self.asked, [TOPICS])
        self.assertEqual(fixed.held, {tp("t:0-0"), tp("t:0-1")})

    def test_new(self) -> None:
        """New ones are taken in the next period, and only these."""
        fixed = self.finding(ONE, ONE, TWO)
        self.successResultOf(fixed.start(self.holder, TOPICS))
        self.clock.advance(PERIOD_S)
        self.assertEqual(len(self.holder.log), 1)
        self.clock.advance(PERIOD_S)
        self.assertEqual(self.holder.log, [("take", ("t:0-0",)), ("take", ("t:0-1",))])
        self.assertEqual(fixed.held, {tp("t:0-0"), tp("t:0-1")})

    def test_nothing_at_first(self) -> None:
        """With none yet it has begun, and takes them when they come."""
        fixed = self.finding({}, {}, ONE)
        self.successResultOf(fixed.start(self.holder, TOPICS))
        self.clock.pump([PERIOD_S] * 2)
        self.assertEqual(self.holder.log, [("take", ("t:0-0",))])

    def test_vanished(self) -> None:
        """What is found no more is kept, and not taken twice when it comes back."""
        fixed = self.finding(TWO, {}, TWO)
        self.successResultOf(fixed.start(self.holder, TOPICS))
        self.clock.pump([PERIOD_S] * 4)
        self.assertEqual(len(self.asked), 5)
        self.assertEqual(self.holder.log, [("take", ("t:0-0", "t:0-1"))])
        self.assertEqual(len(fixed.held), 2)

    def test_slow_holder(self) -> None:
        """A slow take neither ends with the round nor keeps others from being taken."""
        self.holder.slow_takes = {tp("t:0-0")}
        fixed = self.finding(ONE, TWO)
        started = fixed.start(self.holder, TOPICS)
        self.clock.advance(PERIOD_S)
        self.assertEqual(len(self.holder.log), 2)
        self.holder.begin()
        self.successResultOf(started)


class TroubleTests(FixedCase):
    """Looking that fails."""

    def test_may_pass(self) -> None:
        """While it fails with what may pass the start waits, and tells of it once."""
        away = NotConnected("away")
        started = self.finding(away, away, away, ONE).start(self.holder, TOPICS)
        self.assertNoResult(started)
        self.clock.pump([0.1] * 50)
        self.successResultOf(started)
        self.assertEqual(self.holder.log, [("take", ("t:0-0",))])
        self.assertEqual(self.holder.troubles, ["partitions cannot be found: away"])

    def test_for_good(self) -> None:
        """A failure that will not pass is the start's, and the end."""
        for error in (ClientStopped("gone"), LookupError("bad finder")):
            fixed = self.finding(error)
            started = fixed.start(self.holder, TOPICS)
            self.failureResultOf(started, type(error))
            self.assertIs(fixed.state, MembershipState.LEFT)
            self.successResultOf(fixed.stop())
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_for_good_in_the_end(self) -> None:
        """So is one that comes after others."""
        fixed = self.finding(NotConnected("away"), ClientStopped("gone"))
        started = fixed.start(self.holder, TOPICS)
        self.clock.advance(1)
        self.failureResultOf(started, ClientStopped)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_not_what_was_promised(self) -> None:
        """A finder that finds what is no mapping fails the start."""
        started = self.finding(7).start(self.holder, TOPICS)
        self.failureResultOf(started, AttributeError)

    def test_later(self) -> None:
        """Once it has begun no failure ends it: each is told, until it has passed."""
        away, bad = NotConnected("away"), LookupError("bad")
        fixed = self.finding(ONE, away, away, bad, ONE, away, TWO)
        self.successResultOf(fixed.start(self.holder, TOPICS))
        self.clock.pump([0.1] * 250)
        told = [text.rpartition(": ")[2] for text in self.holder.troubles]
        self.assertEqual(told, ["away", "bad", "away"])
        self.assertEqual(len(self.flushLoggedErrors(LookupError)), 1)
        self.assertEqual(len(fixed.held), 2)


class EndTests(FixedCase):
    """Stopping one that looks."""

    def test_cancelled(self) -> None:
        """Cancelling the start stops it; what is found later is not taken."""
        looking: Deferred[Partitions] = Deferred(lambda _: None)
        fixed = self.finding(looking)
        started = fixed.start(self.holder, TOPICS)
        started.cancel()
        self.failureResultOf(started, GroupError)
        self.assertTrue(looking.called)
        self.assertEqual(self.holder.log, [])
        self.assertEqual(self.holder.troubles, [])
        self.successResultOf(fixed.stop())

    def test_between_tries(self) -> None:
        """So does a stop between two tries."""
        fixed = self.finding(NotConnected("away"))
        started = fixed.start(self.holder, TOPICS)
        self.successResultOf(fixed.stop())
        self.failureResultOf(started, GroupError)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_while_looking_again(self) -> None:
        """A stop during a later round cancels it and gives up all."""
        looking: Deferred[Partitions] = Deferred()
        fixed = self.finding(ONE, looking)
        self.successResultOf(fixed.start(self.holder, TOPICS))
        self.clock.advance(PERIOD_S)
        self.successResultOf(fixed.stop())
        self.assertTrue(looking.called)
        self.assertEqual(self.holder.log[-1], ("give_up", ("t:0-0",)))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_while_taking(self) -> None:
        """A stop before the holder has begun gives up all."""
        self.holder.slow_takes = {tp("t:0-0")}
        fixed = self.finding(ONE)
        started = fixed.start(self.holder, TOPICS)
        self.successResultOf(fixed.stop())
        self.failureResultOf(started, GroupError)
        self.holder.begin()
        self.assertEqual(self.holder.log[-1], ("give_up", ("t:0-0",)))

    def test_never_started(self) -> None:
        """One that was not started has left at once, and never starts."""
        fixed = self.finding(ONE)
        self.successResultOf(fixed.stop())
        self.failureResultOf(fixed.start(self.holder, TOPICS), GroupError)
        self.assertEqual(self.asked, [])


class Discovery:
    """Partitions of two topics; notes what it is told to look at again."""

    def __init__(self) -> None:
        self.refreshed: list[str] = []
        self.waiting: dict[str, Deferred[Any]] = {"t": Deferred(), "u": Deferred()}

    def partitions(self, topic: str) -> Deferred[Any]:
        return self.waiting[topic]

    def refresh(self, topic: str) -> None:
        self.refreshed.append(topic)


class AllPartitionsTests(SynchronousTestCase):
    """The finder that asks discovery."""

    def setUp(self) -> None:
        self.discovery: Any = Discovery()
        self.finding = all_partitions(self.discovery)(TOPICS)

    def test_found(self) -> None:
        """It finds all topics' partitions, and has brokers asked anew afterwards."""
        self.discovery.waiting["u"].callback(())
        self.assertNoResult(self.finding)
        self.assertEqual(self.discovery.refreshed, [])
        self.discovery.waiting["t"].callback((PartitionName(0, 0),))
        found = self.successResultOf(self.finding)
        self.assertEqual(found, {"t": (PartitionName(0, 0),), "u": ()})
        self.assertEqual(self.discovery.refreshed, ["t", "u"])

    def test_failed(self) -> None:
        """It fails as one of them does."""
        self.discovery.waiting["u"].errback(NotConnected("away"))
        self.discovery.waiting["t"].callback(())
        self.failureResultOf(self.finding, NotConnected)

    def test_cancelled(self) -> None:
        """Cancelling ends all of it."""
        self.finding.cancel()
        self.failureResultOf(self.finding)
        self.assertTrue(all(one.called for one in self.discovery.waiting.values()))
