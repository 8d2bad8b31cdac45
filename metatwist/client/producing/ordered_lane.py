"""The messages of one partition, strictly in order, by way of the disk if need be.

One thing at a time: the next put begins when the last one is answered, for a broker of
the original may store two puts of a connection in either order.

| parked | partition | next |
|---|---|---|
| none | writable | send the first that waits |
| none | not writable | park all that wait |
| some | writable | resend the oldest; meanwhile what waits is parked, unless there are
few left and it has not waited long |
| some | not writable, or the last resend failed | park all that wait |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from metatwist.client.errors import ClientError, ClientStopped, Where
from metatwist.client.local_store import LocalStore, Parked, store_error
from metatwist.client.message import Message, SendResult, TopicPartition
from metatwist.client.producing.configured import OrderedSettings
from metatwist.client.producing.producer import Producer
from metatwist.client.producing.send import Outcome
from metatwist.client.producing.waves import Waves

_READ_AHEAD = 64
Steps = Generator[Deferred[Any], Any, None]


@frozen
class LaneContext:
    """What all partitions of an ordered producer share."""

    producer: Producer
    store: LocalStore
    settings: OrderedSettings
    clock: IReactorTime
    waves: Waves[Waiting]


class Waiting:
    """A message that is neither stored nor parked yet, one of a wave until it has
    ended."""

    def __init__(self, message: Message, lane: OrderedLane, now_s: float) -> None:
        self.message = message
        self.since_s = now_s
        self._lane = lane
        self._waves = lane.waves
        self._wave = lane.waves.latest
        self._wave.open.add(self)
        self.deferred: Deferred[SendResult] | None = Deferred(self._cancel)

    def tell(self, outcome: Outcome) -> None:
        """It has ended."""
        deferred, self.deferred = self.deferred, None
        self._wave.open.discard(self)
        if isinstance(deferred, Deferred):
            if isinstance(outcome, ClientError):
                deferred.errback(outcome)
            else:
                deferred.callback(outcome)
        self._end_wave()

    def _end_wave(self) -> None:
        if self._wave.sealed and not self._wave.open:
            self._waves.end()

    def _cancel(self, _deferred: Deferred[SendResult]) -> None:
        self.deferred = None
        if self._lane.withdraw(self):
            self._wave.open.discard(self)
            self._end_wave()


class OrderedLane:
    """See the module. `resent` counts parked messages that a broker has now."""

    _log = Logger()

    def __init__(self, place: TopicPartition, context: LaneContext) -> None:
        self.place = place
        self.resent = 0
        self._context = context
        self.waves = context.waves
        self._waiting: deque[Waiting] = deque()
        self._oldest: deque[Parked] = deque()
        self._working = False
        self._blocked = False
        self._stopping = False
        self._abandoned = False
        self._change: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._stops: list[Deferred[None]] = []

    def add(self, message: Message) -> Deferred[SendResult]:
        """Behind all others; `wake` must be called."""
        waiting = Waiting(message, self, self._context.clock.seconds())
        deferred = waiting.deferred
        self._waiting.append(waiting)
        return deferred  # type: ignore[return-value]  # it has one until it is told

    def withdraw(self, waiting: Waiting) -> bool:
        """Nobody waits for it any more; False when it is too late, as it is under way
        or being parked."""
        if waiting not in self._waiting:
            return False
        self._waiting.remove(waiting)
        return True

    def fail_all(self, error: ClientError) -> None:
        """What waits ends with an error."""
        while self._waiting:
            self._waiting.popleft().tell(error)

    def wake(self) -> None:
        """There may be something to do."""
        self._stop_resting()
        self._blocked = False
        if not self._working:
            self._working = True
            self._work().addBoth(self._worked)

    def _worked(self, result: Any) -> None:
        self._working = False
        if result is not None:
            self._log.failure("defect in an ordered lane", result)
        if self._stopping:
            stops, self._stops = self._stops, []
            for stopped in stops:
                stopped.callback(None)
        else:
            self._rest()

    # -- the loop ----------------------------------------------------------------------

    @inlineCallbacks
    def _work(self) -> Steps:
        while True:
            step = self._next_step()
            if step is None:
                return
            yield step

    def _next_step(self) -> Deferred[None] | None:
        if self._abandoned:
            self.fail_all(self._stopped())
            return None
        if self._parked_count:
            if self._waiting and not self._may_wait():
                return self._park()
            return self._resend() if self._may_resend() else None
        if not self._waiting:
            return None
        return self._send() if self._writable() else self._park()

    @property
    def _parked_count(self) -> int:
        return self._context.store.counts.get(self.place, 0)

    def _writable(self) -> bool:
        producer = self._context.producer
        return producer.can_send(self.place.topic, self.place.partition)

    def _may_resend(self) -> bool:
        return not self._blocked and not self._stopping and self._writable()

    def _may_wait(self) -> bool:
        settings = self._context.settings
        waited_s = self._context.clock.seconds() - self._waiting[0].since_s
        return (
            self._parked_count <= settings.few
            and waited_s < settings.most_wait_s
            and self._may_resend()
        )

    # -- steps -------------------------------------------------------------------------

    @inlineCallbacks
    def _send(self) -> Steps:
        first = self._waiting.popleft()
        outcome = yield self._put(first.message)
        if isinstance(outcome, ClientError) and self._may_park(outcome):
            self._waiting.appendleft(first)
            yield self._park()
        else:
            first.tell(outcome)

    def _may_park(self, error: ClientError) -> bool:
        if self._abandoned or isinstance(error, ClientStopped):
            return False
        if self._context.settings.park_when_failed:
            return True
        return error.retriable and not error.outcome_unknown

    @inlineCallbacks
    def _park(self) -> Steps:
        entries = list(self._waiting)
        self._waiting.clear()
        stored = self._context.store.append(
            [(self.place, one.message) for one in entries]
        )
        error = yield stored.addErrback(store_error)
        for one in entries:
            one.tell(error or SendResult(0, self.place.partition, -1))

    @inlineCallbacks
    def _resend(self) -> Steps:
        store = self._context.store
        try:
            if not self._oldest:
                self._oldest.extend((yield store.oldest(self.place, _READ_AHEAD)))
            outcome = yield self._put(self._oldest[0].message)
            if isinstance(outcome, ClientError):
                self._block(outcome)
                return
            yield store.remove(self.place, [self._oldest[0]])
            self._oldest.popleft()
            self.resent += 1
        except ClientError as error:
            self._block(error)

    def _block(self, error: ClientError) -> None:
        self._blocked = True
        self._log.warn(
            "{count} messages stay parked for {place}: {error}",
            count=self._parked_count,
            place=self.place,
            error=error,
        )

    def _put(self, message: Message) -> Deferred[Outcome]:
        answered: Deferred[Outcome] = Deferred()
        try:
            self._context.producer.send_calling(
                message, answered.callback, self.place.partition
            )
        except ClientError as error:
            return succeed(error)
        return answered

    # -- rest and end ------------------------------------------------------------------

    def _rest(self) -> None:
        """Until something changes, the next message or the end of the period."""
        if not self._parked_count:
            return
        context = self._context
        self._timer = context.clock.callLater(
            context.settings.resend_period_s, self.wake
        )
        try:
            change = context.producer.changed(self.place.topic)
        except ClientStopped:
            return
        self._change = change
        change.addCallbacks(
            lambda _: self.wake(), lambda failure: failure.trap(CancelledError) and None
        )

    def _stop_resting(self) -> None:
        change, self._change = self._change, None
        if change is not None and not change.called:
            change.cancel()
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def stop(self) -> Deferred[None]:
        """Send or park what waits and resend no more; fires when that is done."""
        self._stopping = True
        stopped: Deferred[None] = Deferred()
        self._stops.append(stopped)
        self.wake()
        return stopped

    def abandon(self) -> None:
        """What waits fails at once; a put under way is the producer's affair."""
        self._abandoned = True
        self.fail_all(self._stopped())

    def _stopped(self) -> ClientStopped:
        where = Where(topic=self.place.topic, partition=self.place.partition)
        return ClientStopped("the producer was stopped", where)
