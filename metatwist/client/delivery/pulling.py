"""Pull mode: the user asks for messages instead of being called with them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.interfaces import IReactorFromThreads

from metatwist.client.delivery.interface import DeliveryContext
from metatwist.client.delivery.outcomes import deferred_from
from metatwist.client.delivery.pulled import Lot, PulledPartition
from metatwist.client.errors import ClientStopped, NotOwner, Where
from metatwist.client.interfaces import IFeed
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.progress import Progress

Commit = Callable[[TopicPartition], object]


class PulledBatch:
    """Messages of one partition, in order.

    They are done when the user says so, with `done` or `commit`; a batch counts as done
    only when all earlier batches of its partition are, so that progress never covers
    what was not processed. Until then it counts in `FetchSettings.prefetch_bytes`.
    """

    def __init__(self, lot: Lot, commit: Commit) -> None:
        self._lot = lot
        self._commit = commit

    def __repr__(self) -> str:
        first, last = self.messages[0], self.messages[-1]
        count = len(self.messages)
        return (
            f"<PulledBatch of {self.partition}: {count} message{'s' * (count > 1)},"
            f" offsets {first.offset} to {last.next_offset}>"
        )

    @property
    def messages(self) -> list[ReceivedMessage]:
        """One at least."""
        return self._lot.messages

    @property
    def partition(self) -> TopicPartition:
        """Whose they are."""
        return self._lot.owner.partition

    def done(self) -> None:
        """They are processed: the next commit may cover them. Idempotent; means nothing
        when the partition was given up: they will come again somewhere."""
        self._lot.owner.done(self._lot)

    def commit(self) -> Deferred[None]:
        """Done, and commit now. Fails with NotOwner when the partition was given up or
        sought meanwhile, or as the offset storage does. Cancelling stops the wait
        alone."""
        if self._lot.is_void:
            where = Where(None, self.partition.topic, self.partition.partition)
            return fail(NotOwner("the partition was given up or sought", where))
        self.done()
        return _committed(self._commit, self.partition)


class Pull:
    """Gathers the messages of all partitions of a consumer, each in its turn.

    `commit` commits what is done of a partition, now or later (a Deferred or an
    awaitable). `async for message in pull` iterates until it is stopped; a message
    counts as done when the next one is asked for, not before. The one at which a loop
    is left is handed out again, before all others.
    """

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._ready: deque[PulledPartition] = deque()
        self._waiting: deque[tuple[Deferred[PulledBatch], int]] = deque()
        self._left: deque[Lot] = deque()
        self._is_serving = False
        self._is_stopped = False

    def sink(
        self, feed: IFeed, progress: Progress, context: DeliveryContext
    ) -> PulledPartition:
        """The ISink for a partition that the consumer was given."""
        return PulledPartition(feed, progress, context, self._offer)

    def next_batch(self, most_messages: int = 1000) -> Deferred[PulledBatch]:
        """The next messages of some partition, `most_messages` at most, as soon as
        there are any. Several may be asked for at once. Fails with ClientStopped once
        stopped. Cancelling leaves the messages for the next call.

        Batches that are not done count in `FetchSettings.prefetch_bytes`. When they
        fill it, this waits until some are done: who gathers more than that before it
        calls `done` waits for ever. A partition of which nothing is fetched may always
        have one batch."""
        if most_messages < 1:
            raise ValueError(f"most_messages must be at least 1, not {most_messages}")
        if self._is_stopped:
            return fail(_stopped())
        waiting: Deferred[PulledBatch] = Deferred()
        batch = None if self._waiting else self._take(most_messages)
        if batch is not None:
            waiting.callback(batch)
        else:
            self._waiting.append((waiting, most_messages))
        return waiting

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self.messages()

    def messages(self) -> AsyncIterator[ReceivedMessage]:
        """See the class."""
        return _Loop(self)

    async def next_lot(self) -> Lot:
        """The next message of a loop; raises ClientStopped."""
        batch = None if self._waiting else self._take(1)
        if batch is None:
            batch = await self.next_batch(1)
        return batch._lot

    def left(self, lot: Lot) -> None:
        """A loop was left at this message. It is put back in a turn of its own: this
        may be called in the midst of anything and, unlike all else here, on any thread,
        by the garbage collector."""
        self._left.append(lot)
        clock = lot.owner.clock
        if IReactorFromThreads.providedBy(clock):
            clock.callFromThread(self._put_back_and_serve)
        else:  # a Clock, which is for one thread
            clock.callLater(0, self._put_back_and_serve)

    def stop(self) -> None:
        """Those who wait fail with ClientStopped, loops end. Idempotent; the sinks are
        stopped by who asked for them."""
        self._is_stopped = True
        waiting, self._waiting = self._waiting, deque()
        for one, _ in waiting:
            if not one.called:
                one.errback(_stopped())

    def _offer(self, partition: PulledPartition) -> None:
        """A partition has messages that it had not before, or may hand out again."""
        if partition not in self._ready:
            self._ready.append(partition)
        self._serve_once()

    def _put_back_and_serve(self) -> None:
        if self._left:
            self._put_back()
            self._serve_once()

    def _put_back(self) -> None:
        while self._left:
            lot = self._left.popleft()
            partition = lot.owner
            if partition.put_back(lot):
                if partition in self._ready:
                    self._ready.remove(partition)
                self._ready.appendleft(partition)

    def _serve_once(self) -> None:
        if not self._is_serving:
            self._is_serving = True
            try:
                self._serve()
            finally:
                self._is_serving = False

    def _serve(self) -> None:
        """Those who wait, in order. Taking a batch may make a partition offer its next
        one at once."""
        while self._waiting:
            waiting, most = self._waiting[0]
            batch = None if waiting.called else self._take(most)
            if batch is None and not waiting.called:
                return
            self._waiting.popleft()
            if batch is not None:
                waiting.callback(batch)

    def _take(self, most: int) -> PulledBatch | None:
        """Of the partition that was longest not asked."""
        if self._is_stopped:
            return None
        if self._left:
            self._put_back()
        while self._ready:
            partition = self._ready.popleft()
            lot = partition.take(most)
            if partition.has_more and partition not in self._ready:
                self._ready.append(partition)
            if lot is not None:
                return PulledBatch(lot, self._commit)
        return None


class _Loop(AsyncIterator[ReceivedMessage]):
    """One `async for`, which has one message at a time.

    It is left when it goes away: by `break`, `return` or an error, as `async for` keeps
    it to itself. One that is kept elsewhere goes on where it was, and its message
    counts as being processed as long.
    """

    __slots__ = ("_lot", "_pull")

    def __init__(self, pull: Pull) -> None:
        self._pull = pull
        self._lot: Lot | None = None

    async def __anext__(self) -> ReceivedMessage:
        before, self._lot = self._lot, None
        if before is not None:
            before.owner.done(before)
        try:
            lot = self._lot = await self._pull.next_lot()
        except ClientStopped:
            raise StopAsyncIteration from None
        return lot.messages[0]

    def __del__(self) -> None:
        if self._lot is not None:
            self._pull.left(self._lot)


def _committed(commit: Commit, partition: TopicPartition) -> Deferred[None]:
    def call() -> Any:
        answer = commit(partition)
        return deferred_from(answer) or answer

    return maybeDeferred(call)


def _stopped() -> ClientStopped:
    return ClientStopped("the consumer was stopped")
