"""Delivery to a listener: outcomes, pauses, rejection, time-outs, holds, seeks."""

from __future__ import annotations

import asyncio
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.delivery.rejection import StopPartition
from metatwist.client.errors import ClientError, ListenerFailed, ListenerTimedOut
from metatwist.client.events import (
    DeliveryFailed,
    FilterFailed,
    PartitionStopped,
    Rejected,
    RejectionFailed,
)
from metatwist.client.message import ReceivedMessage
from tests.client.delivery.scripted import AT, SIZE, Bench, message, number_of


class Calls:
    """A listener that keeps the numbers of its messages, and does what `outcomes` says
    for a number: raise an exception, or answer what it is."""

    def __init__(self, outcomes: dict[int, Any] | None = None) -> None:
        self.numbers: list[int] = []
        self.outcomes = outcomes or {}

    def __call__(self, one: ReceivedMessage) -> Any:
        number = number_of(one)
        self.numbers.append(number)
        outcome = self.outcomes.get(number)
        if callable(outcome):
            outcome = outcome()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class PlainTest(SynchronousTestCase):
    """Listeners that work."""

    def test_in_order(self) -> None:
        """All messages come once and in order, and progress and memory follow."""
        bench, calls = Bench(10), Calls()
        bench.deliver(calls)
        self.assertEqual(list(range(10)), calls.numbers)
        self.assertEqual((1000, 1009), _record(bench))
        self.assertEqual(10, bench.progress.done_count)
        self.assertEqual([], bench.feed.in_use)
        bench.feed.add(3)
        self.assertEqual(13, bench.done)

    def test_any_answer_is_done(self) -> None:
        """A listener may answer anything, also a Deferred that has fired."""
        answers = {0: 7, 1: succeed(None), 2: [], 3: False}
        bench, calls = Bench(5), Calls(answers)
        bench.deliver(calls)
        self.assertEqual(5, bench.done)

    def test_deferred_is_waited_for(self) -> None:
        """The next message comes when the Deferred of the one before has fired."""
        running: Deferred[None] = Deferred()
        bench, calls = Bench(5), Calls({2: running})
        bench.deliver(calls)
        self.assertEqual(([0, 1, 2], 2), (calls.numbers, bench.done))
        running.callback(None)
        self.assertEqual(5, bench.done)

    def test_coroutine_is_waited_for(self) -> None:
        """A listener may be a coroutine function, or answer any awaitable."""
        gates: list[Deferred[None]] = [Deferred(), Deferred()]

        class Awaitable:
            def __await__(self) -> Any:
                return gates[1].__await__()

        async def wait() -> None:
            await gates[0]

        bench = Bench(3)
        bench.deliver(Calls({0: wait, 1: Awaitable}))
        self.assertEqual(0, bench.done)
        gates[0].callback(None)
        self.assertEqual(1, bench.done)
        gates[1].callback(None)
        self.assertEqual(3, bench.done)

    def test_future_is_waited_for(self) -> None:
        """Futures of asyncio are waited for too, however they end."""
        loop = asyncio.new_event_loop()
        self.addCleanup(loop.close)
        future: asyncio.Future[None] = loop.create_future()
        bench, calls = Bench(2), Calls({0: future})
        bench.deliver(calls)
        self.assertEqual(0, bench.done)
        future.set_result(None)
        loop.run_until_complete(asyncio.sleep(0))
        self.assertEqual(2, bench.done)
        future = loop.create_future()
        bench, calls = Bench(2), Calls({0: future})
        bench.deliver(calls, most_deliveries=1)
        future.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        self.assertEqual((2, 1), (bench.done, len(bench.told(Rejected))))

    def test_many_answers_at_once(self) -> None:
        """Any number of Deferreds that have fired, in any number of batches, is no
        problem."""
        bench = Bench(5000, batch_size=1)
        bench.deliver(lambda _: succeed(None))
        self.assertEqual(5000, bench.done)

    def test_others_get_their_turn(self) -> None:
        """After a slice of time the rest waits for the next turn of the reactor, with
        listeners that answer at once too."""
        for answer in (None, succeed(None)):
            bench, calls = Bench(10, 10), Calls()

            def listen(one: ReceivedMessage, bench: Bench = bench) -> Any:
                bench.clock.rightNow += 0.002
                return calls(one) or answer  # noqa: B023

            bench.deliver(listen, slice_s=0.005)
            self.assertEqual((3, 3), (len(calls.numbers), bench.done))
            seen: list[int] = []
            bench.clock.callLater(0, lambda: seen.append(bench.done))  # noqa: B023
            bench.clock.advance(0)
            self.assertEqual(([6], 10), (seen, bench.done))

    def test_more_than_an_exception(self) -> None:
        """Whatever a listener raises is a failure of its message, and no more."""
        for kind in (KeyboardInterrupt, SystemExit, asyncio.CancelledError):

            def listen(one: ReceivedMessage, kind: Any = kind) -> None:
                if number_of(one) == 2:
                    raise kind

            bench = Bench(4)
            bench.deliver(listen, most_deliveries=1)
            self.assertEqual(4, bench.done)
            self.assertEqual(1, len(bench.told(Rejected)))

    def test_not_ours_any_more(self) -> None:
        """Nothing is handed over while the claim cannot be proven, also in the middle
        of a batch; when it can be again it goes on."""
        running: Deferred[None] = Deferred()
        bench, calls = Bench(5, 5), Calls({2: running})
        bench.deliver(calls)
        bench.feed.is_ours = lambda: False
        running.callback(None)
        bench.clock.pump([1, 1])
        self.assertEqual(([0, 1, 2], 3), (calls.numbers, bench.done))
        bench.feed.is_ours = lambda: True
        bench.clock.advance(1)
        self.assertEqual(5, bench.done)

    def test_feed_that_stops(self) -> None:
        """The end of the feed is the end of the delivery, without complaint."""
        bench = Bench(2)
        bench.deliver(Calls())
        bench.feed.stop()
        self.assertEqual([], bench.events)
        self.successResultOf(bench.delivery.stop(1))

    def test_batch_that_ends_behind_its_messages(self) -> None:
        """What could not be read at the end of a batch is passed."""
        bench = Bench(2)
        batch = bench.feed._batch()
        object.__setattr__(batch, "next_offset", 777)
        bench.feed._batch = lambda: batch  # type: ignore[method-assign]
        bench.feed.next_number = 0

        def listen(one: ReceivedMessage) -> None:
            if number_of(one) == 1:
                bench.feed.count = 0

        bench.deliver(listen)
        self.assertEqual((777, 1001), _record(bench))


class FailureTest(SynchronousTestCase):
    """Listeners that do not."""

    def test_deliveries_and_pauses(self) -> None:
        """A failing message comes 6 times with doubling pauses, then is rejected; those
        before it come once, those behind it go on; progress waits in front of it."""
        error = ValueError("bad")
        bench, calls = Bench(6, 6), Calls({2: error})
        bench.deliver(calls)
        self.assertEqual([0, 1, 2], calls.numbers)
        for pause_s in (0.5, 1, 2, 4, 5):
            self.assertEqual(2, bench.done)
            count = len(calls.numbers)
            bench.clock.advance(pause_s - 0.01)
            self.assertEqual(count, len(calls.numbers))
            bench.clock.advance(0.02)
            self.assertEqual(2, calls.numbers[count])
        self.assertEqual([0, 1, 2, 2, 2, 2, 2, 2, 3, 4, 5], calls.numbers)
        self.assertEqual(6, bench.done)
        failed = bench.told(DeliveryFailed)
        self.assertEqual([1, 2, 3, 4, 5], [one.failures for one in failed])
        self.assertIs(error, failed[0].error.__cause__)
        self.assertEqual(
            (AT.topic, 200), (failed[0].error.topic, failed[0].error.offset)
        )
        self.assertEqual([Rejected(message(2), "dropped")], bench.told(Rejected))
        self.assertEqual([], bench.clock.getDelayedCalls())

    def test_every_kind_of_failure(self) -> None:
        """Raising, a failed Deferred and a raising coroutine are the same."""

        async def broken() -> None:
            raise ValueError("bad")

        kinds = (ValueError("bad"), lambda: fail(ValueError("bad")), broken)
        for kind in kinds:
            bench, calls = Bench(3), Calls({1: kind})
            bench.deliver(calls)
            self.assertEqual(1, bench.done)
            calls.outcomes.clear()
            bench.clock.advance(0.5)
            self.assertEqual(([0, 1, 1, 2], 3), (calls.numbers, bench.done))

    def test_failures_of_one_do_not_count_for_the_next(self) -> None:
        """Each message has its own count of failures."""
        calls = Calls({0: ValueError(), 1: ValueError()})
        bench = Bench(3)
        bench.deliver(calls, most_deliveries=2)
        bench.clock.advance(0.5)
        self.assertEqual([0, 0, 1], calls.numbers)
        bench.clock.advance(0.5)
        self.assertEqual([0, 0, 1, 1, 2], calls.numbers)

    def test_poison_among_good_ones(self) -> None:
        """Every third message fails always: all others arrive exactly once."""
        bench, rejected = Bench(30, 7), []
        calls = Calls({n: ValueError() for n in range(0, 30, 3)})
        bench.deliver(calls, rejection=lambda one, *_: rejected.append(number_of(one)))
        for _ in range(200):
            bench.clock.advance(1)
        self.assertEqual(30, bench.done)
        self.assertEqual(list(range(0, 30, 3)), rejected)
        good = [n for n in calls.numbers if n % 3]
        self.assertEqual([n for n in range(30) if n % 3], good)

    def test_timed_out(self) -> None:
        """A Deferred that never fires is cancelled in time and counts as a failure."""
        cancelled: list[Deferred[None]] = []
        bench = Bench(2)
        calls = Calls({0: lambda: Deferred(cancelled.append)})
        bench.deliver(calls, listener_timeout_s=3, most_deliveries=2)
        bench.clock.advance(3)
        self.assertEqual(1, len(cancelled))
        (failed,) = bench.told(DeliveryFailed)
        self.assertIsInstance(failed.error, ListenerTimedOut)
        bench.clock.advance(0.5)
        bench.clock.advance(3)
        self.assertEqual(([0, 0, 1], 2), (calls.numbers, bench.done))

    def test_deaf_to_cancelling(self) -> None:
        """A coroutine that will not be cancelled is left behind, and its late success
        means nothing."""
        late: Deferred[None] = Deferred()

        async def deaf() -> None:
            try:
                await Deferred()
            except CancelledError:
                await late

        bench, calls = Bench(2), Calls({0: deaf})
        bench.deliver(calls, listener_timeout_s=3)
        bench.clock.advance(3)
        late.callback(None)
        self.assertEqual(0, bench.done)
        calls.outcomes.clear()
        bench.clock.advance(0.5)
        self.assertEqual(([0, 0, 1], 2), (calls.numbers, bench.done))

    def test_in_time(self) -> None:
        """A listener that is in time leaves no timer."""
        running: Deferred[None] = Deferred()
        bench = Bench(1)
        bench.deliver(Calls({0: running}), listener_timeout_s=3)
        running.callback(None)
        self.assertEqual([], bench.clock.getDelayedCalls())

    def test_raising_canceller(self) -> None:
        """A canceller that raises is logged, and changes nothing else."""

        def canceller(_: object) -> None:
            raise ValueError("cannot")

        bench = Bench(1)
        bench.deliver(Calls({0: Deferred(canceller)}))
        stopped = bench.delivery.stop(1)
        bench.clock.advance(1)
        self.successResultOf(stopped)
        self.assertEqual(1, len(self.flushLoggedErrors(ValueError)))

    def test_a_failure_as_answer(self) -> None:
        """A Failure that is answered is a failure."""
        bench = Bench(1)
        bench.deliver(lambda _: Failure(ValueError()), most_deliveries=1)
        self.assertEqual(1, len(bench.told(Rejected)))

    def test_cancelled_by_the_user(self) -> None:
        """A Deferred that the user cancels himself is a failure, not an end."""
        running: Deferred[None] = Deferred()
        bench, calls = Bench(2), Calls({0: running})
        bench.deliver(calls)
        running.cancel()
        calls.outcomes.clear()
        bench.clock.advance(0.5)
        self.assertEqual(2, bench.done)

    def test_rejection_that_fails(self) -> None:
        """The message waits for as long as the policy fails, and is never lost."""
        bench, outcomes = Bench(2), [OSError("full")] * 8 + ["gone"]

        def reject(*_: object) -> str:
            outcome = outcomes.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        calls = Calls({0: ValueError()})
        bench.deliver(calls, rejection=reject, most_deliveries=1)
        for pause_s in (0.5, 1, 2, 4, 5, 5, 5, 5):
            self.assertEqual(0, bench.done)
            bench.clock.advance(pause_s)
        self.assertEqual(2, bench.done)
        self.assertEqual([0, 1], calls.numbers)
        counts = [one.failures for one in bench.told(RejectionFailed)]
        self.assertEqual([1, 2, 3, 4, 5, 6, 7, 8], counts)
        self.assertEqual("gone", bench.told(Rejected)[0].outcome)

    def test_rejection_gets_all_there_is(self) -> None:
        """A policy is given message, error, group and consumer."""
        bench, given = Bench(1), []
        bench.deliver(
            Calls({0: ValueError("bad")}),
            rejection=lambda *arguments: given.append(arguments),
            most_deliveries=1,
        )
        one, error, group, consumer = given[0]
        self.assertEqual((message(0), "billing", bench), (one, group, consumer))
        self.assertIsInstance(error, ListenerFailed)

    def test_partition_that_is_stopped(self) -> None:
        """The policy may stop the partition: told once, nothing is delivered or kept in
        memory, until a seek."""
        bench, calls = Bench(9, 3), Calls({4: ValueError()})
        bench.deliver(calls, rejection=StopPartition(), most_deliveries=1)
        bench.clock.advance(1000)
        self.assertEqual(([0, 1, 2, 3, 4], 4), (calls.numbers, bench.done))
        (stopped,) = bench.told(PartitionStopped)
        self.assertEqual((AT, 400), (stopped.partition, stopped.error.offset))
        self.assertEqual([], bench.feed.in_use)
        bench.delivery.seek(5 * SIZE)
        self.assertEqual([0, 1, 2, 3, 4, 5, 6, 7, 8], calls.numbers)
        self.assertEqual(9, bench.done)


class FilterTest(SynchronousTestCase):
    """The user's filter."""

    def test_false_is_consumed(self) -> None:
        """What the filter does not accept counts as consumed."""
        bench, calls = Bench(6), Calls()
        bench.deliver(calls, accepts=lambda one: number_of(one) % 2)
        self.assertEqual(([1, 3, 5], 6), (calls.numbers, bench.done))

    def test_raising_is_consumed(self) -> None:
        """A filter that raises accepts nothing, which is told once."""

        def accepts(one: ReceivedMessage) -> bool:
            if number_of(one) < 4:
                raise KeyError(number_of(one))
            return True

        bench, calls = Bench(6), Calls()
        bench.deliver(calls, accepts=accepts)
        self.assertEqual(([4, 5], 6), (calls.numbers, bench.done))
        (failed,) = bench.told(FilterFailed)
        self.assertEqual(message(0), failed.message)
        self.assertIsInstance(failed.error, ClientError)


class StopTest(SynchronousTestCase):
    """Stopping, at each place where a delivery can be."""

    def test_while_waiting_for_messages(self) -> None:
        """It ends at once; a batch is left to the feed."""
        bench, calls = Bench(1), Calls()
        stopped = bench.deliver(calls).stop(10)
        self.successResultOf(stopped)
        bench.feed.add(1)
        self.assertEqual([0], calls.numbers)
        self.assertEqual([], bench.clock.getDelayedCalls())

    def test_before_the_start(self) -> None:
        """Without a start there is nothing to wait for."""
        bench = Bench(1)
        delivery = bench.deliver(Calls())
        self.successResultOf(delivery.stop(0))
        self.successResultOf(delivery.stop(0))

    def test_while_a_listener_runs(self) -> None:
        """It waits for the listener, whose success counts; nothing new comes."""
        running: Deferred[None] = Deferred()
        bench, calls = Bench(4), Calls({1: running})
        delivery = bench.deliver(calls)
        first, second = delivery.stop(10), delivery.stop(20)
        self.assertNoResult(first)
        running.callback(None)
        self.successResultOf(first)
        self.successResultOf(second)
        self.assertEqual(([0, 1], 2), (calls.numbers, bench.done))
        self.assertEqual([], bench.clock.getDelayedCalls())
        self.assertEqual([], bench.feed.in_use)

    def test_a_listener_that_fails_then(self) -> None:
        """A failure while stopping ends it, without another delivery."""
        running: Deferred[None] = Deferred()
        bench = Bench(4)
        stopped = bench.deliver(Calls({1: running}), most_deliveries=1).stop(10)
        running.errback(ValueError())
        self.successResultOf(stopped)
        self.assertEqual((1, []), (bench.done, bench.events))

    def test_a_listener_that_takes_too_long(self) -> None:
        """It is cancelled when the time is up; what it says then does not count, nor
        does the later one of two limits."""
        late: Deferred[None] = Deferred(lambda one: one.callback(None))
        bench = Bench(4)
        delivery = bench.deliver(Calls({1: late}))
        stopped, earlier = delivery.stop(10), delivery.stop(4)
        bench.clock.advance(3.9)
        self.assertNoResult(stopped)
        bench.clock.advance(0.2)
        self.successResultOf(stopped)
        self.successResultOf(earlier)
        self.assertTrue(late.called)
        self.assertEqual(1, bench.done)
        self.assertEqual([], bench.clock.getDelayedCalls())

    def test_during_a_pause(self) -> None:
        """Pauses end at once."""
        bench, calls = Bench(4), Calls({1: ValueError()})
        self.successResultOf(bench.deliver(calls).stop(10))
        self.assertEqual(([0, 1], 1), (calls.numbers, bench.done))
        self.assertEqual([], bench.clock.getDelayedCalls())

    def test_during_a_rejection(self) -> None:
        """A rejection that ends in time counts, another one does not."""
        for in_time, done in ((True, 2), (False, 1)):
            storing: Deferred[str] = Deferred()
            bench = Bench(4)
            delivery = bench.deliver(
                Calls({1: ValueError()}),
                most_deliveries=1,
                rejection=lambda *_: storing,  # noqa: B023
            )
            stopped = delivery.stop(10)
            if in_time:
                storing.callback("there")
            bench.clock.advance(10)
            self.successResultOf(stopped)
            self.assertEqual(done, bench.done)

    def test_while_held_and_between_slices(self) -> None:
        """A held delivery, or one that waits for its turn, ends at once."""
        bench = Bench(4)
        bench.deliver(Calls()).hold("paused")
        bench.feed.add(1)
        self.successResultOf(bench.delivery.stop(10))
        self.assertEqual(4, bench.done)

        def slow(_: ReceivedMessage) -> None:
            bench.clock.rightNow += 1

        bench = Bench(4)
        self.successResultOf(bench.deliver(slow).stop(10))
        self.assertEqual(1, bench.done)
        self.assertEqual([], bench.clock.getDelayedCalls())

    def test_from_inside_the_listener(self) -> None:
        """A listener that stops its own delivery has still done its message."""
        stopped: list[Deferred[None]] = []
        bench = Bench(4)
        bench.feed.hold("not yet")
        calls = Calls({1: lambda: stopped.append(bench.delivery.stop(10))})
        bench.deliver(calls)
        bench.feed.unhold("not yet")
        self.successResultOf(stopped[0])
        self.assertEqual(([0, 1], 2), (calls.numbers, bench.done))

    def test_cancelling_the_wait(self) -> None:
        """Who stops waiting does not disturb the end."""
        running: Deferred[None] = Deferred()
        bench = Bench(1)
        bench.deliver(Calls({0: running}))
        impatient, patient = bench.delivery.stop(10), bench.delivery.stop(10)
        impatient.cancel()
        self.failureResultOf(impatient, CancelledError)
        running.callback(None)
        self.successResultOf(patient)

    def test_abandoned(self) -> None:
        """The claim is gone: the listener is cancelled, and whatever it says, progress
        stays."""
        for running in (Deferred(), Deferred(lambda one: one.callback(None))):
            bench, calls = Bench(4), Calls({1: running})
            bench.deliver(calls).abandon()
            self.assertEqual(([0, 1], 1), (calls.numbers, bench.done))
            self.successResultOf(bench.delivery.stop(10))
            self.assertEqual([], bench.feed.in_use)

    def test_abandoned_from_inside(self) -> None:
        """Also when that happens in the listener, which then answers a Deferred that
        never fires."""
        for answer in (Deferred(), None):
            bench = Bench(4)
            bench.feed.hold("not yet")

            def lose(answer: Any = answer, bench: Bench = bench) -> Any:
                bench.delivery.abandon()
                return answer

            bench.deliver(Calls({1: lose}))
            bench.feed.unhold("not yet")
            self.successResultOf(bench.delivery.stop(10))
            self.assertLess(bench.done, 2)

    def test_abandoned_during_pause(self) -> None:
        """No timer stays."""
        bench = Bench(2)
        bench.deliver(Calls({0: ValueError()})).abandon()
        self.assertEqual([], bench.clock.getDelayedCalls())


class HoldTest(SynchronousTestCase):
    """Holding and seeking."""

    def test_all_reasons_count(self) -> None:
        """Nothing is handed over until the last reason is gone."""
        bench, calls = Bench(0), Calls()
        delivery = bench.deliver(calls)
        delivery.hold("paused")
        delivery.hold("paused")
        delivery.hold("doubted")
        bench.feed.add(3)
        delivery.unhold("paused")
        self.assertEqual([], calls.numbers)
        delivery.unhold("doubted")
        self.assertEqual(3, bench.done)

    def test_held_in_the_middle(self) -> None:
        """A listener that pauses its partition gets no further message of the batch."""
        bench = Bench(0)
        calls = Calls({1: lambda: bench.delivery.hold("paused")})
        bench.deliver(calls)
        bench.feed.add(4)
        self.assertEqual(([0, 1], 2), (calls.numbers, bench.done))
        bench.delivery.unhold("paused")
        self.assertEqual([0, 1, 2, 3], calls.numbers)

    def test_held_during_a_pause(self) -> None:
        """After the pause of a failure the message waits as well."""
        bench, calls = Bench(2), Calls({0: ValueError()})
        bench.deliver(calls).hold("paused")
        bench.clock.advance(10)
        self.assertEqual([0], calls.numbers)
        calls.outcomes.clear()
        bench.delivery.unhold("paused")
        self.assertEqual([0, 0, 1], calls.numbers)

    def test_seek_back(self) -> None:
        """What was consumed comes again when the user wishes."""
        bench, calls = Bench(4), Calls()
        bench.deliver(calls).seek(2 * SIZE)
        self.assertEqual(([0, 1, 2, 3, 2, 3], 4), (calls.numbers, bench.done))

    def test_seek_during_listener(self) -> None:
        """A listener that runs meanwhile moves nothing any more."""
        running: Deferred[None] = Deferred()
        bench, calls = Bench(8), Calls({1: running})
        bench.deliver(calls).seek(6 * SIZE)
        self.assertEqual(6, bench.done)
        running.callback(None)
        self.assertEqual(([0, 1, 6, 7], 8), (calls.numbers, bench.done))

    def test_seek_from_inside(self) -> None:
        """A listener may seek."""
        bench = Bench(0)
        calls = Calls({1: lambda: bench.delivery.seek(6 * SIZE)})
        bench.deliver(calls)
        bench.feed.add(8)
        self.assertEqual(([0, 1, 6, 7], 8), (calls.numbers, bench.done))

    def test_seek_past_poison(self) -> None:
        """A seek ends the pause of a failing message."""
        bench, calls = Bench(8), Calls({1: ValueError()})
        bench.deliver(calls).seek(2 * SIZE)
        self.assertEqual(8, bench.done)
        self.assertEqual([], bench.clock.getDelayedCalls())

    def test_nothing_moves_once_stopped(self) -> None:
        """A seek of a stopped delivery changes nothing."""
        bench = Bench(4)
        self.successResultOf(bench.deliver(Calls()).stop(1))
        bench.delivery.seek(0)
        self.assertEqual(4, bench.done)


class RedeliveryTest(SynchronousTestCase):
    """Messages that come again."""

    def test_known_ones_are_skipped(self) -> None:
        """A partition that is regained with an older offset repeats nothing that this
        process has consumed, filtered messages included; they count as consumed."""
        bench, calls = Bench(5), Calls()
        bench.deliver(calls, accepts=lambda one: number_of(one) != 2)
        self.successResultOf(bench.delivery.stop(1))
        bench.feed.next_number = 1
        bench.progress.move(SIZE)
        bench.feed.add(2)
        bench.deliver(calls)
        self.assertEqual(([0, 1, 3, 4, 5, 6], 7), (calls.numbers, bench.done))

    def test_what_failed_comes_again(self) -> None:
        """Only what was done is known."""
        bench, calls = Bench(5), Calls({2: ValueError()})
        self.successResultOf(bench.deliver(calls).stop(1))
        calls.outcomes.clear()
        bench.feed.next_number = 0
        bench.deliver(calls)
        self.assertEqual([0, 1, 2, 2, 3, 4], calls.numbers)


def _record(bench: Bench) -> tuple[int, int | None]:
    record = bench.progress.record
    assert record is not None
    # Offsets in these tests begin at 0.
    return record.offset, record.message_id
