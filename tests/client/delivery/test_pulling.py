"""Pull mode: batches, loops, what counts as done, and partitions that go away."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable
from threading import Thread
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from metatwist.client.delivery.pulled import Lot, PulledPartition
from metatwist.client.delivery.pulling import Pull, PulledBatch
from metatwist.client.errors import ClientStopped, NotOwner, OffsetStorageFailed
from metatwist.client.events import FilterFailed
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.settings import FetchSettings
from metatwist.coordination.names import PartitionName
from tests.client.delivery.scripted import AT, SIZE, Bench, number_of
from tests.client.reading.fakes import LogBroker, World, log_of

OTHER = TopicPartition("orders", PartitionName(0, 4))


@implementer(IReactorFromThreads)
class ThreadedClock(Clock):
    """A clock like a reactor; `from_threads` is what threads want to be called."""

    def __init__(self) -> None:
        super().__init__()
        self.from_threads: list[Callable[[], object]] = []

    def callFromThread(self, call: Callable[[], object]) -> None:
        """See IReactorFromThreads."""
        self.from_threads.append(call)


class PullCase(SynchronousTestCase):
    """A Pull over benches; `committed` are the partitions of commits, with how far
    their progress was."""

    def setUp(self) -> None:
        self.committed: list[int] = []
        self.commit_answer: Any = None
        self.pull = Pull(self._commit)
        self.bench = Bench(10)

    def _commit(self, partition: TopicPartition) -> Any:
        self.committed.append(self.bench.done)
        return self.commit_answer

    def _sink(self, bench: Bench | None = None, **options: Any) -> PulledPartition:
        bench = bench or self.bench
        sink = self.pull.sink(bench.feed, bench.progress, bench.context(**options))
        sink.start()
        return sink

    def _next(self, most: int = 1000) -> PulledBatch:
        return self.successResultOf(self.pull.next_batch(most))


async def _next_of(messages: AsyncIterator[ReceivedMessage]) -> ReceivedMessage:
    return await anext(messages)


def numbers_of(batch: PulledBatch) -> list[int]:
    """The numbers of its messages."""
    return [number_of(one) for one in batch.messages]


class BatchTest(PullCase):
    """Explicit batches."""

    def test_as_much_as_wanted(self) -> None:
        """A batch has at most as many messages as asked for, of one fetch, in order."""
        self._sink()
        self.assertEqual([0, 1, 2], numbers_of(self._next(3)))
        last = self._next(3)
        self.assertEqual(([3], AT), (numbers_of(last), last.partition))
        self.assertEqual([4, 5, 6, 7], numbers_of(self._next()))
        self.assertEqual([8, 9], numbers_of(self._next()))
        self.assertRaises(ValueError, self.pull.next_batch, 0)

    def test_waiting(self) -> None:
        """Those who wait are served in order; a cancelled one takes nothing."""
        first, second, third = (self.pull.next_batch(1) for _ in range(3))
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self._sink()
        self.assertEqual([0], numbers_of(self.successResultOf(second)))
        self.assertEqual([1], numbers_of(self.successResultOf(third)))
        self.assertEqual([2, 3], numbers_of(self._next()))

    def test_fair(self) -> None:
        """Partitions take turns."""
        other = Bench(8, at=OTHER)
        self._sink()
        self._sink(other)
        turns = [self._next(2).partition for _ in range(6)]
        self.assertEqual([AT, OTHER] * 3, turns)

    def test_done(self) -> None:
        """Progress moves when a batch is done, and never past one that is not."""
        self._sink()
        first, second, third = self._next(2), self._next(2), self._next(2)
        second.done()
        third.done()
        self.assertEqual(0, self.bench.done)
        first.done()
        first.done()
        self.assertEqual((6, 6), (self.bench.done, self.bench.progress.done_count))

    def test_commit(self) -> None:
        """`commit` is `done`, then the consumer's commit, whose failure it has."""
        self._sink()
        committing: Deferred[None] = Deferred()
        self.commit_answer = committing
        committed = self._next(2).commit()
        self.assertNoResult(committed)
        committing.callback(None)
        self.successResultOf(committed)
        self.commit_answer = fail(OffsetStorageFailed("no"))
        self.failureResultOf(self._next(2).commit(), OffsetStorageFailed)

        async def coroutine() -> None:
            await succeed(None)

        self.commit_answer = coroutine()
        self.successResultOf(self._next(2).commit())
        self.assertEqual([2, 4, 6], self.committed)

    def test_filter_and_duplicates(self) -> None:
        """What is filtered out, or was consumed before, is never seen, and is passed
        in order, whole batches of it too."""
        window = self.bench.duplicates.window(AT)
        window.record(self.bench.feed._batch().messages[:1])
        self.bench.feed.in_use.clear()
        self.bench.feed.next_number = 0

        def accepts(one: ReceivedMessage) -> bool:
            if number_of(one) == 2:
                raise ValueError
            return number_of(one) not in (3, 4, 5, 6, 7, 9)

        self._sink(accepts=accepts)
        first, second = self._next(), self._next()
        self.assertEqual(([1], [8]), (numbers_of(first), numbers_of(second)))
        second.done()
        self.assertEqual(0, self.bench.done)
        first.done()
        self.assertEqual(10, self.bench.done)
        self.assertEqual(1, len(self.bench.told(FilterFailed)))
        self.assertEqual([], self.bench.feed.in_use)

    def test_nothing_wanted_for_long(self) -> None:
        """Any number of batches in a row may be filtered out."""
        bench = Bench(5000, batch_size=1)
        self._sink(bench, accepts=lambda one: number_of(one) == 4999)
        self.assertEqual([4999], numbers_of(self._next()))
        self.assertEqual(4999, bench.done)

    def test_hold(self) -> None:
        """Nothing of a held partition is handed out, and nobody waits for nothing when
        it goes on."""
        sink = self._sink()
        sink.hold("paused")
        waiting = self.pull.next_batch(1)
        self.assertNoResult(waiting)
        sink.unhold("paused")
        self.assertEqual([0], numbers_of(self.successResultOf(waiting)))
        self.assertEqual([1], numbers_of(self._next(1)))

    def test_seek(self) -> None:
        """A seek drops what was fetched; batches from before count for nothing."""
        sink = self._sink()
        before = self._next(2)
        sink.seek(6 * SIZE)
        before.done()
        self.assertEqual(6, self.bench.done)
        self.failureResultOf(before.commit(), NotOwner)
        self.assertEqual([6, 7, 8, 9], numbers_of(self._next()))


class MemoryTest(PullCase):
    """What the user has counts as being in memory, for as long as it is not done."""

    @property
    def _in_use(self) -> list[int]:
        """The first numbers of the batches that need memory."""
        return [number_of(batch.messages[0]) for batch in self.bench.feed.in_use]

    def test_until_done(self) -> None:
        """Memory is given back when all of a batch, and all before it, is done."""
        self._sink()
        parts = [self._next(3) for _ in range(4)]
        self.assertEqual([[0, 1, 2], [3], [4, 5, 6], [7]], [*map(numbers_of, parts)])
        for part, in_use in ((3, [0, 4, 8]), (0, [0, 4, 8]), (1, [4, 8]), (2, [8])):
            parts[part].done()
            parts[part].done()
            self.assertEqual(in_use, self._in_use)
        self._next().done()
        self.assertEqual([], self._in_use)

    def test_put_back(self) -> None:
        """What is handed out again needs memory all the while."""
        sink = self._sink(Bench(1))
        messages = aiter(self.pull)
        self.successResultOf(Deferred.fromCoroutine(_next_of(messages)))
        del messages
        self.assertEqual(1, len(sink._feed.in_use))
        self._next().done()
        self.assertEqual([], sink._feed.in_use)

    def test_void(self) -> None:
        """After a seek, a stop or the loss of the partition nothing needs memory."""
        sink = self._sink()
        for _ in range(3):
            self._next(3)
        sink.seek(600)
        self.assertEqual([6], self._in_use)
        self._next(3)
        stopped = sink.stop(10)
        self.assertEqual([6], self._in_use)
        self.bench.clock.advance(10)
        self.successResultOf(stopped)
        self.assertEqual([], self._in_use)
        other = Bench(9, at=OTHER)
        sink = self._sink(other)
        self._next(3)
        sink.abandon()
        self.assertEqual([], other.feed.in_use)

    def test_stopped_with_a_part_out(self) -> None:
        """What a stop does not hand out any more is in memory until the rest of its
        batch is done."""
        sink = self._sink()
        first, second = self._next(4), self._next(1)
        stopped = sink.stop(10)
        first.done()
        self.assertEqual([4], self._in_use)
        second.done()
        self.successResultOf(stopped)
        self.assertEqual([], self._in_use)

    def test_filtered_batches_leave_nothing(self) -> None:
        """However many batches are filtered out behind one that is not done, nothing of
        them is kept, and they are passed with it."""
        bench = Bench(2001, batch_size=1)
        self._sink(bench, accepts=lambda one: number_of(one) in (0, 2000))
        first = self._next()
        lots = sum(isinstance(one, Lot) for one in gc.get_objects())
        self.assertLess(lots, 100)
        first.done()
        self.assertEqual(2000, bench.done)
        self._next().done()
        self.assertEqual(2001, bench.done)

    def _fetching(self, prefetch_bytes: int) -> World:
        """A log of 100 messages of 23 bytes, fetched by twos and pulled."""
        settings = FetchSettings(size_bytes=46, prefetch_bytes=prefetch_bytes)
        world = World(settings)
        world.link.auto = LogBroker(log_of(*(b"%03d" % at for at in range(100))))
        sink = self.pull.sink(world.feed(), self.bench.progress, self.bench.context())
        sink.start()
        return world

    def test_bounded(self) -> None:
        """A user who does nothing of it gets as much as may be fetched ahead, and the
        next batch when one is done."""
        world = self._fetching(4 * 46)
        batches = [self._next() for _ in range(4)]
        waiting = self.pull.next_batch()
        self.assertNoResult(waiting)
        self.assertEqual(4 * 46, world.budget.used_bytes)
        batches[0].done()
        self.assertEqual(8, number_of(self.successResultOf(waiting).messages[0]))
        self.assertEqual(4 * 46, world.budget.used_bytes)

    def test_bound_below_one_batch(self) -> None:
        """It is one batch at a time then, to the end."""
        world = self._fetching(1)
        for at in range(50):
            batch = self._next(1)
            self.assertEqual(2 * at, number_of(batch.messages[0]))
            batch.done()
            self.assertEqual(46, world.budget.used_bytes)
            self._next(1).done()
        self.assertEqual(0, world.budget.used_bytes)


class EndTest(PullCase):
    """Partitions that go away."""

    def test_stop_waits_for_what_is_out(self) -> None:
        """It fires when the last batch that the user has is done; what was not handed
        out is dropped."""
        sink = self._sink()
        batch = self._next(2)
        stopped = sink.stop(10)
        self.assertNoResult(stopped)
        self.assertNoResult(self.pull.next_batch())
        batch.done()
        self.successResultOf(stopped)
        self.assertEqual((2, []), (self.bench.done, self.bench.feed.in_use))
        self.assertEqual([], self.bench.clock.getDelayedCalls())
        self.assertIsNone(self.bench.feed.waiter)

    def test_stop_in_bounded_time(self) -> None:
        """What is not done in time is lost: done means nothing, commit fails."""
        sink = self._sink()
        batch = self._next(2)
        stopped = sink.stop(10)
        self.bench.clock.advance(10)
        self.successResultOf(stopped)
        batch.done()
        self.assertEqual(0, self.bench.done)
        self.failureResultOf(batch.commit(), NotOwner)
        self.assertEqual([], self.committed)

    def test_stop_with_nothing_out(self) -> None:
        """It fires at once."""
        self.successResultOf(self._sink().stop(10))
        self.assertEqual([], self.bench.feed.in_use)

    def test_waiting_ones_get_all_that_comes(self) -> None:
        """Several who wait are served as soon as there is something, in order."""
        waiting = [self.pull.next_batch() for _ in range(4)]
        self._sink()
        firsts = [numbers_of(self.successResultOf(one))[0] for one in waiting[:3]]
        self.assertEqual([0, 4, 8], firsts)
        self.assertNoResult(waiting[3])
        self.bench.feed.add(1)
        self.assertEqual([10], numbers_of(self.successResultOf(waiting[3])))

    def test_abandon(self) -> None:
        """The progress stays as it is from then on."""
        sink = self._sink()
        batch = self._next(2)
        sink.abandon()
        batch.done()
        self.assertEqual(0, self.bench.done)
        self.failureResultOf(batch.commit(), NotOwner)
        self.successResultOf(sink.stop(10))

    def test_pull_stopped(self) -> None:
        """Those who wait, and those who come later, fail with ClientStopped."""
        waiting = self.pull.next_batch()
        self.pull.stop()
        self.pull.stop()
        self.failureResultOf(waiting, ClientStopped)
        self.failureResultOf(self.pull.next_batch(), ClientStopped)

    def test_feed_that_stops(self) -> None:
        """Its end is quiet."""
        sink = self._sink(Bench(0, at=OTHER))
        sink._feed.stop()
        self.successResultOf(sink.stop(1))


class LoopTest(PullCase):
    """`async for`."""

    def test_done_when_the_next_is_asked_for(self) -> None:
        """While a message is processed it is not done; the one before is."""
        gates: list[Deferred[None]] = []
        seen: list[int] = []

        async def loop() -> None:
            async for one in self.pull:
                seen.append(number_of(one))
                gates.append(Deferred())
                await gates[-1]

        looping = Deferred.fromCoroutine(loop())
        sink = self._sink()
        self.assertEqual(([0], 0), (seen, self.bench.done))
        gates[0].callback(None)
        self.assertEqual(([0, 1], 1), (seen, self.bench.done))
        stopped = sink.stop(10)
        self.assertNoResult(stopped)
        gates[1].callback(None)
        self.successResultOf(stopped)
        self.assertEqual(([0, 1], 2), (seen, self.bench.done))
        self.pull.stop()
        self.successResultOf(looping)

    def _loop_to(self, last: int) -> Deferred[list[int]]:
        """What a loop sees that is left at this number."""

        async def loop() -> list[int]:
            seen = []
            async for one in self.pull:
                seen.append(number_of(one))
                if seen[-1] == last:
                    break
            return seen

        return Deferred.fromCoroutine(loop())

    def test_left(self) -> None:
        """The message at which a loop is left is not done: the next loop begins with
        it, and progress goes on."""
        self._sink()
        self.assertEqual([0, 1, 2], self.successResultOf(self._loop_to(2)))
        self.assertEqual(2, self.bench.done)
        self.assertEqual([2, 3, 4], self.successResultOf(self._loop_to(4)))
        self.assertEqual(4, self.bench.done)
        self.assertEqual([4], numbers_of(self._next()))
        self.bench.clock.advance(0)
        self.assertEqual([5, 6, 7], numbers_of(self._next()))

    def test_left_by_an_error(self) -> None:
        """An error in the loop leaves it, however long the error is kept."""

        async def loop() -> None:
            async for one in self.pull:
                if number_of(one) == 2:
                    raise ValueError

        self._sink()
        looping = Deferred.fromCoroutine(loop())
        failure = self.failureResultOf(looping, ValueError)
        self.assertEqual(2, self.bench.done)
        self.assertEqual([2], numbers_of(self._next()))
        self.assertIsNotNone(failure.value.__traceback__)

    def test_left_before_others(self) -> None:
        """What comes back goes before other partitions, and to whoever waits."""
        other = Bench(4, at=OTHER)
        self._sink(Bench(1))
        self.assertEqual([0], self.successResultOf(self._loop_to(0)))
        waiting = self.pull.next_batch()
        self._sink(other)
        batch = self.successResultOf(waiting)
        self.assertEqual((AT, [0]), (batch.partition, numbers_of(batch)))
        self.assertEqual(OTHER, self._next().partition)

    def test_left_while_somebody_waits(self) -> None:
        """Who waits gets what comes back, without another call."""
        gate: Deferred[None] = Deferred()

        async def loop() -> None:
            async for _ in self.pull:
                await gate
                break

        bench = Bench(1)
        self._sink(bench)
        looping = Deferred.fromCoroutine(loop())
        waiting = self.pull.next_batch()
        gate.callback(None)
        self.successResultOf(looping)
        self.assertNoResult(waiting)
        bench.clock.advance(0)
        self.assertEqual([0], numbers_of(self.successResultOf(waiting)))

    def test_left_and_stopped(self) -> None:
        """A stop does not wait for the message at which a loop was left, whether it is
        left before or after."""
        for first in (True, False):
            bench = Bench(3)
            pull = Pull(self._commit)
            sink = pull.sink(bench.feed, bench.progress, bench.context())
            sink.start()
            gate: Deferred[None] = Deferred()

            async def loop(pull: Pull, gate: Deferred[None]) -> None:
                async for _ in pull:
                    await gate
                    break

            looping = Deferred.fromCoroutine(loop(pull, gate))
            if first:
                gate.callback(None)
            stopped = sink.stop(10)
            if not first:
                bench.clock.advance(5)
                self.assertNoResult(stopped)
                gate.callback(None)
            bench.clock.advance(0)
            self.successResultOf(stopped)
            self.successResultOf(looping)
            self.assertEqual((0, []), (bench.done, bench.feed.in_use))
            self.assertEqual([], bench.clock.getDelayedCalls())

    def test_left_and_sought(self) -> None:
        """After a seek it does not come back."""
        sink = self._sink()
        self.successResultOf(self._loop_to(2))
        sink.seek(6 * SIZE)
        self.assertEqual([6], self.successResultOf(self._loop_to(6)))
        self._next(1)
        sink.seek(0)
        self.bench.clock.advance(0)
        self.assertEqual([0, 1, 2, 3], numbers_of(self._next()))

    def test_left_and_held(self) -> None:
        """It comes back when its partition is not held any more."""
        sink = self._sink()
        self.successResultOf(self._loop_to(2))
        sink.hold("paused")
        waiting = self.pull.next_batch(1)
        self.bench.clock.advance(0)
        self.assertNoResult(waiting)
        sink.unhold("paused")
        self.assertEqual([2], numbers_of(self.successResultOf(waiting)))

    def test_left_on_another_thread(self) -> None:
        """Where the garbage collector finds a loop on another thread, the reactor alone
        puts its message back, on its own thread."""
        bench = Bench(1)
        bench.clock = ThreadedClock()
        self._sink(bench)
        messages = [aiter(self.pull)]
        self.successResultOf(Deferred.fromCoroutine(_next_of(messages[0])))
        waiting = self.pull.next_batch()
        other = Thread(target=messages.clear)
        other.start()
        other.join()
        self.assertNoResult(waiting)
        self.assertEqual([], bench.clock.getDelayedCalls())
        (call,) = bench.clock.from_threads
        call()
        self.assertEqual([0], numbers_of(self.successResultOf(waiting)))

    def test_two_loops(self) -> None:
        """Loops side by side have a message each; the one does not take the other's."""
        gates: list[Deferred[None]] = []
        seen: list[int] = []

        async def loop() -> None:
            async for one in self.pull:
                seen.append(number_of(one))
                gates.append(Deferred())
                await gates[-1]

        for _ in range(2):
            Deferred.fromCoroutine(loop())
        self._sink()
        self.assertEqual([0, 1], seen)
        gates[1].callback(None)
        gates[0].callback(None)
        self.assertEqual(([0, 1, 2, 3], 2), (seen, self.bench.done))

    def test_kept_iterator(self) -> None:
        """An iterator that is kept goes on behind its message, which is done then."""
        self._sink()
        messages = aiter(self.pull)
        for number in range(3):
            one = self.successResultOf(Deferred.fromCoroutine(_next_of(messages)))
            self.assertEqual((number, number), (number_of(one), self.bench.done))

    def test_all(self) -> None:
        """Everything of all partitions arrives."""
        other = Bench(7, at=OTHER)
        self._sink()
        self._sink(other)
        seen: list[tuple[TopicPartition, int]] = []

        async def loop() -> None:
            async for one in self.pull:
                at = TopicPartition(one.topic, one.partition)
                seen.append((at, number_of(one)))

        looping = Deferred.fromCoroutine(loop())
        self.assertEqual(17, len(set(seen)))
        self.assertEqual((10, 7), (self.bench.done, other.done))
        self.pull.stop()
        self.successResultOf(looping)
