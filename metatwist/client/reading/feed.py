"""The messages of one partition: what is fetched ahead, and who waits for it.

A feed is, as far as fetching goes,

    new -> fetching -> stopped
    fetching -> fetching elsewhere (seek), also after it gave up at a message

and holds, the prefetch budget and the batches at hand decide whether it fetches now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from metatwist.client.errors import ClientStopped, Where
from metatwist.client.events import OffsetJumped
from metatwist.client.interfaces import Batch, IFeed
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.reading.context import ReadingContext
from metatwist.client.reading.fetch_loop import FetchLoop
from metatwist.client.reading.source import PartitionSource


def _always() -> bool:
    return True


@implementer(IFeed)
class PartitionFeed:
    """One partition; see `IFeed`.

    `stored` is the offset to begin at, None to let the start policy find one, which is
    told as an OffsetJumped with the reason `start`. Nothing happens before `begin`.

    While it is held nothing is handed over either. A partition none of whose batches
    are about may always fetch one, whatever the budget says: so none starves, and a
    budget below one batch works.
    """

    def __init__(
        self, partition: TopicPartition, stored: int | None, context: ReadingContext
    ) -> None:
        self.partition = partition
        self._context = context
        broker_id = partition.partition.broker_id
        self._source = PartitionSource(broker_id, context.brokers, context.discovery)
        self._loop = self._loop_from(stored)
        self._ready: deque[Batch] = deque()
        self._handed: dict[int, Batch] = {}
        self._holds: set[str] = set()
        self._waiter: Deferred[Batch] | None = None
        self._begun = False
        self._stopped = False
        self.is_ours: Callable[[], bool] = _always

    @property
    def position(self) -> int | None:
        """Of the next batch to be handed out; None before the start is known."""
        if self._ready:
            return self._ready[0].messages[0].offset
        return self._loop.position

    def begin(self) -> None:
        """Start fetching. Idempotent."""
        if not self._begun and not self._stopped:
            self._begun = True
            self._loop.begin()

    def next(self) -> Deferred[Batch]:
        """The next batch; see `IFeed.next`. Raises RuntimeError while another call
        waits."""
        if self._waiter is not None:
            raise RuntimeError("one next() at a time")
        if self._stopped:
            return fail(self._stopped_error())
        if self._ready and not self._holds:
            return succeed(self._hand_out())
        self._waiter = Deferred(self._forget_waiter)
        return self._waiter

    def done(self, batch: Batch) -> None:
        """The batch needs no memory any more. Idempotent."""
        if self._handed.pop(id(batch), None) is not None:
            self._context.budget.give(batch.size_bytes)
            self._loop.wake()

    def seek(self, offset: int) -> None:
        """Go on at that offset; what was fetched ahead is dropped, and a late answer
        ignored. Told as an OffsetJumped. Raises ValueError for a negative offset."""
        if offset < 0:
            raise ValueError(f"{offset} is no offset")
        if self._stopped:
            return
        before = self.position
        self._loop.end()
        loop = self._loop = self._loop_from(offset)
        self._give_back_ready()
        self._context.tell(OffsetJumped(self.partition, before, offset, "sought"))
        if self._begun and self._loop is loop and not self._stopped:
            loop.begin()

    def hold(self, reason: str) -> None:
        """Fetch and hand over nothing while any reason holds; a fetch under way is
        kept for later."""
        self._holds.add(reason)
        self._context.budget.forget(self._wake)

    def unhold(self, reason: str) -> None:
        """The opposite."""
        self._holds.discard(reason)
        self._hand_over()
        self._loop.wake()

    def stop(self) -> None:
        """For good: the waiting `next` fails, all memory counts as given back, the link
        is let go. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        self._loop.end()
        self._source.close()
        self._context.budget.forget(self._wake)
        self._give_back_ready()
        handed, self._handed = self._handed, {}
        for batch in handed.values():
            self._context.budget.give(batch.size_bytes)
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.errback(self._stopped_error())

    # -- the loop's side ----------------------------------------------------------

    def wants(self, size_bytes: int) -> bool:
        """Whether to fetch that much now."""
        if self._holds:
            return False
        budget = self._context.budget
        is_alone = not self._ready and not self._handed
        if is_alone or budget.has_room(size_bytes):
            budget.forget(self._wake)
            return True
        budget.when_room(size_bytes, self._wake)
        return False

    def take(self, messages: list[ReceivedMessage], next_offset: int) -> None:
        """A fetch brought messages, at least one."""
        size_bytes = next_offset - messages[0].offset
        self._context.budget.take(size_bytes)
        self._ready.append(Batch(self.partition, messages, next_offset, size_bytes))
        self._hand_over()

    # -- inside -------------------------------------------------------------------

    def _loop_from(self, position: int | None) -> FetchLoop:
        return FetchLoop(self.partition, position, self._context, self._source, self)

    def _wake(self) -> None:
        self._loop.wake()

    def _hand_over(self) -> None:
        if self._ready and self._waiter is not None and not self._holds:
            waiter, self._waiter = self._waiter, None
            waiter.callback(self._hand_out())

    def _hand_out(self) -> Batch:
        batch = self._ready.popleft()
        self._handed[id(batch)] = batch
        return batch

    def _forget_waiter(self, _waiter: Deferred[Batch]) -> None:
        self._waiter = None

    def _give_back_ready(self) -> None:
        ready, self._ready = self._ready, deque()
        for batch in ready:
            self._context.budget.give(batch.size_bytes)

    def _stopped_error(self) -> ClientStopped:
        text = "the partition is not read any more"
        return ClientStopped(text, Where(None, *self.partition))
