"""Sending without being told (spec client 7): the caller is never disturbed, and with a
file to overflow into nothing is lost that was not stored."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.converters import optional
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, inlineCallbacks
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.checked import count, seconds
from metatwist.client.errors import (
    BadRequest,
    BufferFull,
    ClientError,
    ClientStopped,
    InvalidMessage,
    SelectorFailed,
    Where,
)
from metatwist.client.firing import after
from metatwist.client.local_store import (
    LocalStore,
    Parked,
    StoreLimits,
    store_error,
)
from metatwist.client.message import Message, SendResult, TopicPartition
from metatwist.client.producing.lanes import ProducerContext
from metatwist.client.producing.payload import payload_of
from metatwist.client.producing.producer import Producer
from metatwist.client.producing.room import ENVELOPE_BYTES
from metatwist.client.producing.selectors import Selector
from metatwist.client.producing.send import Outcome
from metatwist.client.settings import ProducerSettings
from metatwist.coordination.names import PartitionName

_HOPELESS = (BadRequest, InvalidMessage, SelectorFailed)
"""What the next try would end with too."""
_ANYWHERE = PartitionName(-1, -1)
_AT_ONCE = 100
_LOG_EVERY_S = 10.0
Steps = Generator[Deferred[Any], Any, None]


@frozen
class OneWaySettings:
    """What may be under way, and when overflowed messages are tried again.

    Attributes:
        producer: how messages are sent.
        overflow_path: the file for what does not fit or was refused; None for none.
        limits: the most that file holds.
        window_bytes: of messages that are not answered yet, and as much again of those
            on their way to the file (original: 20000 units of 4096 bytes).
        resend_period_s: between tries to send what is in the file; the first is made at
            the start (`recoverMessageIntervalInMills`).
    """

    producer: ProducerSettings = field(factory=ProducerSettings)
    overflow_path: Path | None = field(default=None, converter=optional(Path))
    limits: StoreLimits = field(factory=StoreLimits)
    window_bytes: int = count(20_000 * 4096)
    resend_period_s: float = seconds(300)


class OneWayCounters:
    """Of one producer: messages `stored` by a broker, `overflowed` into the file,
    `resent` from it, and `dropped`: invalid, also in the broker's eyes (400), without
    selector's choice, after the stop, or lost for want of a file or of room in it, or
    since their outcome is unknown."""

    def __init__(self) -> None:
        self.stored = 0
        self.overflowed = 0
        self.resent = 0
        self.dropped = 0


class OneWayProducer(Service):
    """Sends and forgets; made by `MetaClient.one_way_producer`.

    What finds no room in the window, and what in the end is known not to have been
    stored, goes to the file and is sent later, in no particular order. Without a store
    it is dropped and counted. A message whose outcome is unknown is dropped too, unless
    `ProducerSettings.may_duplicate`, be it sent or resent; so is one that can never be
    sent. `selector` is round robin when None.
    """

    _log = Logger()

    def __init__(
        self,
        settings: OneWaySettings,
        context: ProducerContext,
        selector: Selector | None = None,
        store: LocalStore | None = None,
    ) -> None:
        self.counters = OneWayCounters()
        self._producer = Producer(settings.producer, context, selector)
        self._clock: IReactorTime = context.clock
        self._tell_ended = context.ended
        self._settings = settings
        self._store = store
        if store is None and settings.overflow_path is not None:
            self._store = LocalStore.on_thread(
                context.clock, settings.overflow_path, settings.limits
            )
        self._stopping = False
        self._stops: list[Deferred[None]] = []
        self._stopped = False
        self._window_bytes = 0
        self._spill: list[Message] = []
        self._spill_bytes = 0
        self._spilling: Deferred[None] | None = None
        self._opened = False
        self._opening: Deferred[None] | None = None
        self._resending: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._log_s = float("-inf")

    def startService(self) -> None:
        """Open the store, if there is one, and resend what it has. One that cannot be
        opened is logged; messages are dropped then as without."""
        super().startService()
        if self._store is not None:
            self._opening = self._store.open()
            self._opening.addCallbacks(self._open, self._not_open)

    def _open(self, _: None) -> None:
        self._opened = True
        self._write_on()
        if not self._stopping:
            self._resend_soon(0)

    def _not_open(self, failure: Failure) -> None:
        self._log.failure("one-way messages cannot overflow", failure)
        self._store = None
        spill, self._spill = self._spill, []
        self._spill_bytes = 0
        self.counters.dropped += len(spill)

    # -- sending -----------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Send, some time. Raises nothing."""
        try:
            self._check(message)
        except ClientError as error:
            self._drop(1, error)
            return
        size_bytes = ENVELOPE_BYTES + len(message.body)
        used = self._window_bytes
        if used and used + size_bytes > self._settings.window_bytes:
            self._overflow(message, BufferFull("the window is full"))
            return
        self._window_bytes += size_bytes
        self._put(message, partial(self._answered, message, size_bytes))

    def _check(self, message: Message) -> None:
        payload_of(message, self._producer.settings.most_message_bytes)
        if self._stopping:
            raise ClientStopped("the producer is stopped", Where(topic=message.topic))

    def _put(self, message: Message, ended: Any) -> None:
        try:
            self._producer.send_calling(message, ended)
        except ClientError as error:
            ended(error)

    def _answered(self, message: Message, size_bytes: int, outcome: Outcome) -> None:
        self._window_bytes -= size_bytes
        if isinstance(outcome, SendResult):
            self.counters.stored += 1
            return
        if self._is_kept(outcome):
            self._overflow(message, outcome)
        else:
            self._drop(1, outcome)

    def _is_kept(self, error: ClientError) -> bool:
        """Whether a message that ended so is to be sent again, some time."""
        if isinstance(error, _HOPELESS):
            return False
        return self._producer.settings.may_duplicate or not error.outcome_unknown

    def _drop(self, count: int, error: ClientError) -> None:
        self.counters.dropped += count
        now_s = self._clock.seconds()
        if now_s - self._log_s >= _LOG_EVERY_S:
            self._log_s = now_s
            self._log.warn(
                "one-way messages are dropped, {count} so far, the last one because:"
                " {error}",
                count=self.counters.dropped,
                error=error,
            )

    # -- overflow ----------------------------------------------------------------------

    def _overflow(self, message: Message, error: ClientError) -> None:
        size_bytes = ENVELOPE_BYTES + len(message.body)
        full = self._spill_bytes + size_bytes > self._settings.window_bytes
        if self._store is None or (self._spill and full):
            self._drop(1, error)
            return
        self._spill.append(message)
        self._spill_bytes += size_bytes
        self._write_on()

    def _write_on(self) -> None:
        if self._spilling is None and self._spill and self._opened:
            self._spilling = self._write()
            self._spilling.addBoth(self._written)

    def _written(self, result: Any) -> None:
        self._spilling = None
        if isinstance(result, Failure):
            self._log.failure("defect in the overflow", result)
        self._write_on()

    @inlineCallbacks
    def _write(self) -> Steps:
        """All that has gathered, as one transaction."""
        store = self._store
        spill, self._spill = self._spill, []
        self._spill_bytes = 0
        if store is None:
            return
        entries = [(TopicPartition(one.topic, _ANYWHERE), one) for one in spill]
        error = yield store.append(entries).addErrback(store_error)
        if error is None:
            self.counters.overflowed += len(spill)
        else:
            self._drop(len(spill), error)

    # -- resending ---------------------------------------------------------------------

    def _resend_soon(self, delay_s: float) -> None:
        self._timer = self._clock.callLater(delay_s, self._resend)

    def _resend(self) -> None:
        self._timer = None
        self._resending = self._resend_all()
        self._resending.addBoth(self._resent)

    def _resent(self, result: Any) -> None:
        self._resending = None
        if isinstance(result, Failure):
            self._log.failure("defect while resending", result)
        if not self._stopping:
            self._resend_soon(self._settings.resend_period_s)

    @inlineCallbacks
    def _resend_all(self) -> Steps:
        """Place by place, until nothing more of it can be sent."""
        store = self._store
        if store is None:
            return
        try:
            for place in tuple(store.counts):
                parked = yield store.oldest(place, _AT_ONCE)
                while parked and not self._stopping:
                    going_on = yield self._resend_some(store, place, parked)
                    if not going_on:
                        break
                    parked = yield store.oldest(place, _AT_ONCE, parked[-1].id)
        except ClientError as error:
            self._log.warn("overflowed messages stay: {error}", error=error)

    @inlineCallbacks
    def _resend_some(
        self, store: LocalStore, place: TopicPartition, parked: Sequence[Parked]
    ) -> Generator[Deferred[Any], Any, bool]:
        """Whether it is worth while to go on with the next ones."""
        waits: list[Deferred[Outcome]] = []
        for one in parked:
            answered: Deferred[Outcome] = Deferred()
            waits.append(answered)
            self._put(one.message, answered.callback)
        outcomes = yield DeferredList(waits)
        over = [
            (one, outcome)
            for one, (_, outcome) in zip(parked, outcomes, strict=True)
            if isinstance(outcome, SendResult) or not self._is_kept(outcome)
        ]
        if over:
            yield store.remove(place, [one for one, _ in over])
        going_on = False
        for _, outcome in over:
            if isinstance(outcome, SendResult):
                self.counters.resent += 1
                going_on = True
            else:
                self._drop(1, outcome)
                # A broker that does not answer shall not cost all that is there.
                going_on = going_on or not outcome.outcome_unknown
        return going_on

    # -- the end -----------------------------------------------------------------------

    def flush(self) -> Deferred[None]:
        """Fires when all messages sent so far are stored, in the file or dropped, and a
        resending that is under way has been answered. Cancelling stops the wait
        alone."""
        return self._flush()

    @inlineCallbacks
    def _flush(self) -> Steps:
        yield self._producer.flush()
        yield after(self._opening)
        # What has gathered while one transaction is written goes with the next.
        yield after(self._spilling)
        yield after(self._spilling)

    def stop(self, deadline_s: float | None = None) -> Deferred[None]:
        """Take no more, wait for what is under way, at most `deadline_s`
        (`ProducerSettings.timeout_s`); what then is known not to be stored goes to the
        file. Fires when that is closed, and never fails. A second call may set an
        earlier deadline."""
        stopped: Deferred[None] = Deferred()
        if self._stopped:
            stopped.callback(None)
            return stopped
        self._stops.append(stopped)
        first, self._stopping = not self._stopping, True
        sent = self._producer.stop(deadline_s)
        if first:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._close(sent).addBoth(self._closed)
        return stopped

    @inlineCallbacks
    def _close(self, sent: Deferred[None]) -> Steps:
        yield sent
        yield after(self._opening)
        while self._spilling is not None or self._resending is not None:
            yield after(self._spilling or self._resending)
        store, self._store = self._store, None
        if store is not None:
            yield store.close()

    def _closed(self, result: Any) -> None:
        if isinstance(result, Failure):
            error = store_error(result)
            self._log.warn("closing the overflow: {error}", error=error)
        self._stopped = True
        self._tell_ended(self)
        for stopped in self._stops:
            if not stopped.called:
                stopped.callback(None)

    def stopService(self) -> Deferred[None]:
        """Stop, within the producer's `timeout_s`."""
        super().stopService()
        return self.stop()
