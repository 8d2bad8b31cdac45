"""One partition to one listener: in order, again after failures, past poison.

Where a message is, by what the delivery waits for:

    feed        none is in hand
    gate, turn  the next one is held, or waits for its turn of the reactor
    asked       the listener or the rejection policy has one: `stop` waits for it
    pause       one has failed and is handed over again after that

`stop`, `abandon` and `seek` cut all of these waits short but `asked`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.delivery.accepting import accepting
from metatwist.client.delivery.hand import Call, Hand
from metatwist.client.delivery.interface import DeliveryContext, ISink
from metatwist.client.delivery.outcomes import listener_failed, unfinished
from metatwist.client.delivery.rejection import PartitionHalted
from metatwist.client.delivery.stopping import Gate, Stopping
from metatwist.client.delivery.waits import Waits
from metatwist.client.errors import ClientError, ClientStopped
from metatwist.client.events import (
    DeliveryFailed,
    PartitionStopped,
    Rejected,
    RejectionFailed,
)
from metatwist.client.interfaces import Batch, IFeed
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.progress import Progress

STOPPED = "stopped"
"""Why a feed is held after a policy has stopped the partition."""
_CLAIM_OVER_S = 0.1
MOST_UNLOOKED = 16
"""Messages at most between two looks at the clock."""


def _until_next_look(messages: int, took_s: float, left_s: float) -> int:
    """For how many more messages nobody need look at the clock: as many as should take
    a quarter of the time that is left, at the pace so far."""
    if took_s <= 0:
        return min(messages, MOST_UNLOOKED)
    return min(int(messages * left_s / took_s / 4), messages, MOST_UNLOOKED)


@implementer(ISink)
class Delivery:
    """Hands the messages of `feed` to `listener`, and advances `progress`.

    The listener may answer a Deferred or an awaitable, which is waited for; anything
    else it answers means done, and what it raises means failed. While it runs for
    several messages in one turn, `progress` is behind by these, never ahead.
    """

    _log = Logger()

    def __init__(
        self,
        feed: IFeed,
        progress: Progress,
        listener: Callable[..., object],
        context: DeliveryContext,
    ) -> None:
        partition: TopicPartition = feed.partition
        self.partition = partition
        self._feed = feed
        self._progress = progress
        self._context = context
        self._settings = context.settings
        self._backoff = context.settings.backoff
        self._clock: Any = context.clock
        self._window = context.duplicates.window(partition)
        self._call = accepting(listener, context, partition, self._skip)
        self._waits = Waits(context.clock, context.settings.slice_s)
        self._gate = Gate()
        self._stopping = Stopping(context.clock, self._waits.give_up)
        self._hand: Hand | None = None
        self._is_running = False
        self._is_frozen = False
        self._is_interrupted = False

    # -- ISink ----------------------------------------------------------------------

    def start(self) -> None:
        """See ISink."""
        self._is_running = True
        self._waits.begin_slice()
        Deferred.fromCoroutine(self._run()).addBoth(self._ended)

    def stop(self, within_s: float) -> Deferred[None]:
        """See ISink."""
        stopped = self._stopping.ask(within_s)
        self._interrupt()
        if not self._is_running:
            self._stopping.end()
        return stopped

    def abandon(self) -> None:
        """See ISink."""
        self._is_frozen = True
        self._stopping.wanted = True
        self._interrupt()
        self._waits.give_up()
        if not self._is_running:
            self._stopping.end()

    def hold(self, reason: str) -> None:
        """See ISink."""
        self._gate.shut(reason)
        self._is_interrupted = True

    def unhold(self, reason: str) -> None:
        """See ISink."""
        self._gate.open(reason)

    def seek(self, offset: int) -> None:
        """See ISink."""
        if self._stopping.wanted:
            return
        self._hand = None
        self._window.forget()
        self._progress.move(offset)
        self._feed.seek(offset)
        self._feed.unhold(STOPPED)
        self._interrupt()

    # -- the loop -------------------------------------------------------------------

    async def _run(self) -> None:
        while await self._wants_more():
            batch = await self._waits.until(self._feed.next())
            if batch is None:
                continue
            try:
                await self._deliver(batch)
            finally:
                self._feed.done(batch)

    async def _wants_more(self) -> bool:
        """Whether another batch is wanted; nothing is in hand."""
        return not self._stopping.wanted

    async def _deliver(self, batch: Batch) -> None:
        known = self._window.known(batch.messages)
        call = self._skipping(known) if known else self._call
        hand = self._hand = Hand(batch.messages, call)
        while self._may_go_on(hand) and not hand.is_done:
            if not await self._is_our_turn():
                continue
            running = self._hand_over(hand)
            if running is not None:
                await self._settle(hand, running)
        if self._may_go_on(hand):
            self._hand = None
            self._reach(batch.next_offset)

    def _may_go_on(self, hand: Hand) -> bool:
        return not self._stopping.wanted and hand is self._hand

    async def _is_our_turn(self) -> bool:
        """Whether a message may be handed over at once; otherwise, waits first."""
        ours = self._feed.is_ours()
        if self._gate.reasons:
            await self._waits.until(self._gate.opened())
            return False
        if not ours:  # it is about to be abandoned
            await self._waits.pause(_CLAIM_OVER_S)
            return False
        if self._clock.seconds() >= self._waits.slice_ends_s:
            await self._waits.pause(0)
            return False
        return True

    def _hand_over(self, hand: Hand) -> Deferred[Any] | None:
        """Call the listener for one message after the other, until one is not done at
        once (what to wait for), or something else is due (None)."""
        call, messages, seconds = hand.call, hand.messages, self._clock.seconds
        done = looks_at = hand.index
        began_s, ends_s = seconds(), self._waits.slice_ends_s
        self._is_interrupted = False
        try:
            for message in messages[done:] if done else messages:
                result = call(message)
                if result is not None:
                    running = unfinished(result)
                    if running is not None:
                        return running
                done += 1
                if self._is_interrupted:
                    break
                if done >= looks_at:
                    now_s = seconds()
                    if now_s >= ends_s:
                        break
                    looks_at = done + _until_next_look(
                        done - hand.index, now_s - began_s, ends_s - now_s
                    )
        except BaseException:
            # A listener that ends the process must say so to the reactor; and a
            # coroutine that raises it fails no other way.
            return fail()
        finally:
            self._advance(hand, done)
        return None

    async def _settle(self, hand: Hand, running: Deferred[Any]) -> None:
        """Wait for the outcome of the message at hand, and act on it."""
        timeout_s = self._settings.listener_timeout_s
        _, error = await self._waits.outcome(running, timeout_s)
        if self._is_frozen or hand is not self._hand:
            return
        if error is None or self._is_acknowledged(hand.message):
            self._advance(hand, hand.index + 1)
        elif self._may_go_on(hand):
            await self._failed(hand, listener_failed(hand.message, error))

    async def _failed(self, hand: Hand, error: ClientError) -> None:
        """Pause before the next delivery of the message at hand, or reject it."""
        hand.failures += 1
        if hand.failures >= self._settings.most_deliveries:
            await self._reject(hand, error)
            return
        self._context.emit(DeliveryFailed(hand.message, error, hand.failures))
        if self._may_go_on(hand):
            await self._waits.pause(self._backoff.pause_s(hand.failures))

    async def _reject(self, hand: Hand, error: ClientError) -> None:
        """Until the policy has taken the message; it is not done before."""
        context, message = self._context, hand.message
        arguments = (message, error, context.group, context.consumer)
        failures = 0
        while self._may_go_on(hand):
            running = maybeDeferred(context.rejection.reject, *arguments)
            where, problem = await self._waits.outcome(running, None)
            is_ours = hand is self._hand and not self._is_frozen
            if problem is None:
                if is_ours:
                    self._advance_past(hand)
                context.emit(Rejected(message, str(where)))
                return
            if not is_ours or self._stopping.wanted:
                return
            if isinstance(problem, PartitionHalted):
                self._halt(message, problem)
                return
            failures += 1
            context.emit(RejectionFailed(message, _as_error(problem), failures))
            if self._may_go_on(hand):
                await self._waits.pause(self._backoff.pause_s(failures))

    def _halt(self, message: ReceivedMessage, error: PartitionHalted) -> None:
        self._hand = None
        self._feed.hold(STOPPED)
        self._feed.seek(message.offset)  # what was fetched ahead needs no memory
        self._context.emit(PartitionStopped(self.partition, error))

    # -- progress -------------------------------------------------------------------

    def _advance(self, hand: Hand, end: int) -> None:
        """The messages at hand before index `end` are done."""
        done = hand.advance(end)
        if done and not self._is_frozen and hand is self._hand:
            last = done[-1]
            self._progress.advance(last.next_offset, last.message_id, len(done))
            self._window.record(done)

    def _advance_past(self, hand: Hand) -> None:
        """The message at hand was rejected."""
        self._advance(hand, hand.index + 1)

    def _reach(self, offset: int) -> None:
        """A batch is done that ends there, maybe past what could not be read."""
        record = self._progress.record
        if record is None or record.offset < offset:
            known = None if record is None else record.message_id
            self._progress.advance(offset, known, 0)

    def _is_acknowledged(self, message: ReceivedMessage) -> bool:
        """Whether a message is done though its listener failed."""
        return False

    def _skip(self, message: ReceivedMessage) -> None:
        """A message counts as consumed without the listener."""

    def _skipping(
        self, known: frozenset[tuple[int, int]] | set[tuple[int, int]]
    ) -> Call:
        call, skip = self._call, self._skip

        def call_if_new(message: ReceivedMessage) -> object:
            if (message.offset, message.message_id) in known:
                skip(message)
                return None
            return call(message)

        return call_if_new

    # -- ending ---------------------------------------------------------------------

    def _interrupt(self) -> None:
        """Look at what is wanted now, as soon as no code of the user runs."""
        self._is_interrupted = True
        self._waits.cut()

    def _ended(self, result: object) -> None:
        self._is_running = False
        self._hand = None
        if isinstance(result, Failure) and not result.check(ClientStopped):
            self._log.failure(
                "delivery of {partition} broke", result, partition=self.partition
            )
            error = _as_error(result.value or ClientError("no reason"))
            self._context.emit(PartitionStopped(self.partition, error))
        self._stopping.end()


def _as_error(problem: BaseException) -> ClientError:
    if isinstance(problem, ClientError):
        return problem
    error = ClientError(f"{type(problem).__name__}: {problem}")
    error.__cause__ = problem
    return error
