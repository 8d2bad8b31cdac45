"""One partition in pull mode: what was fetched, what the user has, what is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.delivery.accepting import CarefulFilter
from metatwist.client.delivery.interface import DeliveryContext, ISink
from metatwist.client.delivery.stopping import Gate, Stopping
from metatwist.client.errors import ClientStopped
from metatwist.client.interfaces import Batch, IFeed
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.progress import Progress


@define(eq=False)
class Lot:
    """Messages that were handed out together.

    Attributes:
        owner: the partition.
        messages: those the user gets, one at least.
        end: the offset behind them and behind what was left out after them, in bytes.
        last_of: the batch that needs no memory once this lot is done, and with it all
            before; None for one with more to come.
        is_done: the user says so.
        is_back: they are not out any more, and to be handed out again.
        is_void: the partition was given up or sought meanwhile.
    """

    owner: PulledPartition
    messages: list[ReceivedMessage]
    end: int
    last_of: Batch | None = None
    is_done: bool = False
    is_back: bool = False
    is_void: bool = False


@define(eq=False)
class _Rest:
    """What is still to be handed out of a batch."""

    batch: Batch
    wanted: list[ReceivedMessage]
    index: int = field(default=0)


@implementer(ISink)
class PulledPartition:
    """Has one batch ready at a time, and asks for the next when that is handed out.

    `offer` is called when messages can be taken. Progress goes as far as all that was
    handed out is done, in order, and a batch counts in the consumer's prefetch budget
    as long: with as much in the user's hands, no more is fetched. What comes back keeps
    its place, and is handed out again before anything else.
    """

    _log = Logger()

    def __init__(
        self,
        feed: IFeed,
        progress: Progress,
        context: DeliveryContext,
        offer: Callable[[PulledPartition], object],
    ) -> None:
        partition: TopicPartition = feed.partition
        self.partition = partition
        self.clock: Any = context.clock
        self._feed = feed
        self._progress = progress
        self._offer = offer
        self._window = context.duplicates.window(partition)
        accepts = context.accepts
        self._accepts = (
            None if accepts is None else CarefulFilter(accepts, context, partition)
        )
        self._gate = Gate()
        self._stopping = Stopping(context.clock, self._end)
        self._rest: _Rest | None = None
        self._lots: deque[Lot] = deque()
        self._back: list[Lot] = []
        self._asking: Deferred[Batch] | None = None
        self._is_asking = False

    # -- ISink ----------------------------------------------------------------------

    def start(self) -> None:
        """See ISink."""
        self._ask()

    def stop(self, within_s: float) -> Deferred[None]:
        """See ISink; what the user was handed may be done meanwhile."""
        stopped = self._stopping.ask(within_s)
        self._back.clear()
        self._drop_rest()
        self._end_if_done()
        return stopped

    def abandon(self) -> None:
        """See ISink."""
        self._stopping.wanted = True
        self._end()

    def hold(self, reason: str) -> None:
        """See ISink."""
        self._gate.shut(reason)

    def unhold(self, reason: str) -> None:
        """See ISink."""
        self._gate.open(reason)
        if self.has_more:
            self._offer(self)

    def seek(self, offset: int) -> None:
        """See ISink; what the user was handed before does not count any more."""
        if self._stopping.wanted:
            return
        voided = self._void()
        self._window.forget()
        self._progress.move(offset)
        self._feed.seek(offset)
        self._forget(voided)
        self._drop_rest()
        self._ask()

    # -- for Pull -------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """Whether messages can be taken now."""
        if self._gate.reasons or not self._feed.is_ours():
            return False
        return self._rest is not None or bool(self._back)

    def take(self, most: int) -> Lot | None:
        """The next messages, None for none now."""
        if self._gate.reasons or not self._feed.is_ours():
            return None
        if self._back:
            return self._take_again()
        rest = self._rest
        if rest is None:
            return None
        first = rest.index
        messages = rest.wanted[first : first + most]
        rest.index += len(messages)
        lot = Lot(self, messages, messages[-1].next_offset)
        self._lots.append(lot)
        if rest.index == len(rest.wanted):
            lot.end, lot.last_of = rest.batch.next_offset, rest.batch
            self._rest = None
            self._ask()
        return lot

    def _take_again(self) -> Lot:
        again = min(self._back, key=lambda lot: lot.end)
        self._back.remove(again)
        again.is_back = False
        return again

    def put_back(self, lot: Lot) -> bool:
        """Nobody has it any more; whether it can be handed out again."""
        if lot.is_void or lot.is_done:
            return False
        lot.is_back = True
        if self._stopping.wanted:
            self._end_if_done()
            return False
        self._back.append(lot)
        return True

    def done(self, lot: Lot) -> None:
        """See PulledBatch.done."""
        lot.is_done = True
        if lot.is_void:
            return
        while self._lots and self._lots[0].is_done:
            self._account(self._lots.popleft())
        self._end_if_done()

    # -- inside ---------------------------------------------------------------------

    def _account(self, lot: Lot) -> None:
        last = lot.messages[-1].message_id
        self._progress.advance(lot.end, last, len(lot.messages))
        self._window.record(lot.messages)
        self._forget([lot])

    def _pass(self, batch: Batch) -> None:
        """Nothing of it is wanted: it is done with what was handed out before."""
        if self._lots:
            self._lots[-1].end = batch.next_offset
        else:
            record = self._progress.record
            last = None if record is None else record.message_id
            self._progress.advance(batch.next_offset, last, 0)
        self._feed.done(batch)

    def _forget(self, lots: Iterable[Lot]) -> None:
        """The lots need no memory any more."""
        for lot in lots:
            batch, lot.last_of = lot.last_of, None
            if batch is not None:
                self._feed.done(batch)

    def _ask(self) -> None:
        """For the next batch, unless that is going on already."""
        if not self._is_asking:
            self._is_asking = True
            Deferred.fromCoroutine(self._fetch()).addErrback(self._broke)

    async def _fetch(self) -> None:
        """Until a batch is there of which something is wanted."""
        try:
            while self._rest is None and not self._stopping.wanted:
                asking = self._asking = self._feed.next()
                batch = await asking
                self._asking = None
                self._taken(batch)
        except (ClientStopped, CancelledError):
            self._asking = None
        finally:
            self._is_asking = False

    def _taken(self, batch: Batch) -> None:
        wanted = self._wanted(batch.messages)
        if not wanted:
            self._pass(batch)
            return
        self._rest = _Rest(batch, wanted)
        if not self._gate.reasons:
            self._offer(self)

    def _wanted(self, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """Those that are neither known nor filtered out."""
        known = self._window.known(messages)
        if known:
            messages = [
                one for one in messages if (one.offset, one.message_id) not in known
            ]
        if self._accepts is not None:
            messages = list(filter(self._accepts, messages))
        return messages

    def _broke(self, failure: Failure) -> None:
        self._log.failure(
            "pulling of {partition} broke", failure, partition=self.partition
        )

    def _drop_rest(self) -> None:
        """Hand out no more of the batch at hand."""
        rest, self._rest = self._rest, None
        if rest is None:
            return
        if rest.index and self._lots:  # some of it is out
            self._lots[-1].last_of = rest.batch
        else:
            self._feed.done(rest.batch)

    def _void(self) -> list[Lot]:
        """Nothing that is out counts; all of that, to be forgotten."""
        voided = list(self._lots)
        for lot in voided:
            lot.is_void = True
        self._lots.clear()
        self._back.clear()
        return voided

    def _end_if_done(self) -> None:
        if not self._stopping.wanted:
            return
        if all(lot.is_done or lot.is_back for lot in self._lots):
            self._end()

    def _end(self) -> None:
        self._forget(self._void())
        self._drop_rest()
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
        self._stopping.end()
