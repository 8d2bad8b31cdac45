"""The ordered producer (spec client 8): each message has one legal partition, and is
parked on the local disk while that cannot be written to."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.errors import (
    ClientError,
    ClientStopped,
    NoPartition,
    SelectorFailed,
    Where,
)
from metatwist.client.local_store import LocalStore, store_error
from metatwist.client.message import Message, SendResult, TopicPartition
from metatwist.client.producing.configured import OrderedSettings
from metatwist.client.producing.lanes import ProducerContext
from metatwist.client.producing.ordered_lane import LaneContext, OrderedLane
from metatwist.client.producing.payload import payload_of
from metatwist.client.producing.producer import Producer
from metatwist.client.producing.selectors import ByKey, Selector, select
from metatwist.client.producing.waves import Waves

__all__ = ["OrderedProducer", "OrderedSettings"]


class OrderedProducer(Service):
    """Sends each message to the partition that `selector` picks out of the configured
    ones, once (spec client W28), and never to another.

    Messages of a partition are stored in the order of `send`, across outages, `kill -9`
    and restarts. One may be stored twice: when the process ends between the broker's
    answer to a resent message and its removal from the local store, or when that answer
    was lost. One message of a partition is under way at a time.

    `selector` picks by key when None. The store is opened when it is started.
    """

    _log = Logger()

    def __init__(
        self,
        settings: OrderedSettings,
        context: ProducerContext,
        selector: Selector | None = None,
        store: LocalStore | None = None,
    ) -> None:
        each_put = evolve(settings.producer, retries=0, may_duplicate=False)
        clock = context.clock
        self._tell_ended = context.ended
        self._context = LaneContext(
            Producer(each_put, context),
            store or LocalStore.on_thread(clock, settings.path, settings.limits),
            settings,
            clock,
            Waves(),
        )
        self._selector = selector or ByKey()
        self._lanes: dict[TopicPartition, OrderedLane] = {}
        self._looking: set[str] = set()
        self._looked: set[str] = set()
        self._opened = False
        self._failed: ClientError | None = None
        self._stopping = False
        self._stops: list[Deferred[None]] = []
        self._stopped = False

    @property
    def parked(self) -> int:
        """How many messages wait on the disk."""
        return sum(self._context.store.counts.values())

    @property
    def resent(self) -> int:
        """How many parked messages have been stored by a broker."""
        return sum(lane.resent for lane in self._lanes.values())

    def startService(self) -> None:
        """Open the store and begin to resend what it has. When it cannot be opened
        every `send` fails with that LocalStoreFailed: order could not be kept."""
        super().startService()
        self._context.store.open().addCallbacks(self._open, self._not_open)

    def _open(self, _: None) -> None:
        self._opened = True
        for place in tuple(self._context.store.counts):
            self._lane(place)
        for lane in tuple(self._lanes.values()):
            self._wake(lane)

    def _not_open(self, failure: Failure) -> None:
        self._failed = error = store_error(failure)
        for lane in self._lanes.values():
            lane.fail_all(error)
            lane.wake()

    def _lane(self, place: TopicPartition) -> OrderedLane:
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = OrderedLane(place, self._context)
        return lane

    # -- sending -----------------------------------------------------------------------

    def send(self, message: Message) -> Deferred[SendResult]:
        """Send, or park; `SendResult(0, partition, -1)` when it is parked.

        Fails with NoPartition when no partitions are configured for the topic or the
        selector answers None, SelectorFailed, InvalidMessage, LocalStoreFailed when it
        can be neither sent nor parked, ClientStopped, and with what the broker answered
        when that is no refusal for now. Cancelling a message that is not under way
        drops it; one that is may be stored or parked.
        """
        try:
            place = self._place(message)
        except ClientError as error:
            return fail(error)
        lane = self._lane(place)
        deferred = lane.add(message)
        if self._opened:
            self._wake(lane)
        return deferred

    def _wake(self, lane: OrderedLane) -> None:
        """At once, or when the topic has been looked for."""
        if lane.place.topic in self._looked:
            lane.wake()
        elif lane.place.topic not in self._looking:
            self.publish(lane.place.topic).addErrback(_ignore)

    def publish(self, topic: str) -> Deferred[None]:
        """Get ready to send to a topic, as `Producer.publish` does, within
        `OrderedSettings.most_connect_s`; its first message does that too."""
        within_s = self._context.settings.most_connect_s
        self._looking.add(topic)
        ready = self._context.producer.publish(topic, within_s)
        return ready.addBoth(self._looked_for, topic)

    def _looked_for(self, result: Any, topic: str) -> Any:
        self._looked.add(topic)
        for lane in self._lanes.values():
            if self._opened and lane.place.topic == topic:
                lane.wake()
        return result

    def _place(self, message: Message) -> TopicPartition:
        topic = message.topic
        if self._stopping:
            raise ClientStopped("the producer is stopped", Where(topic=topic))
        if self._failed is not None:
            raise self._failed
        payload_of(message, self._context.producer.settings.most_message_bytes)
        configured = self._context.settings.partitions.get(topic)
        if configured is None:
            raise NoPartition("no partitions are configured", Where(topic=topic))
        picked = select(self._selector, topic, configured, message)
        live = self._context.producer.partitions(topic)
        if picked not in configured and picked not in live:
            text = f"the selector answered {picked}, no partition of the topic"
            raise SelectorFailed(text, Where(topic=topic))
        return TopicPartition(topic, picked)

    # -- the end -----------------------------------------------------------------------

    def flush(self) -> Deferred[None]:
        """Fires when all messages sent so far have ended: stored, parked or failed.
        Cancelling stops the wait alone."""
        return self._context.waves.flush()

    def stop(self, deadline_s: float | None = None) -> Deferred[None]:
        """Take no more, send or park what waits, at most for `deadline_s`
        (`ProducerSettings.timeout_s`), fail the rest with ClientStopped; fires when the
        producer has stopped and the store is closed, and never fails."""
        stopped: Deferred[None] = Deferred()
        if self._stopped:
            stopped.callback(None)
            return stopped
        self._stops.append(stopped)
        if not self._stopping:
            self._stopping = True
            settings = self._context.producer.settings
            limit_s = settings.timeout_s if deadline_s is None else deadline_s
            self._drain(max(0.0, limit_s))
        return stopped

    def _drain(self, limit_s: float) -> None:
        timer = self._context.clock.callLater(limit_s, self._abandon)

        def drained(_: Any) -> Deferred[None]:
            if timer.active():
                timer.cancel()
            return self._context.producer.stop(0)

        if not self._opened:
            self._abandon()
        lanes = DeferredList([lane.stop() for lane in self._lanes.values()])
        lanes.addCallback(drained)
        lanes.addCallback(lambda _: self._context.store.close())
        lanes.addErrback(lambda failure: failure.trap(ClientError))
        lanes.addErrback(lambda failure: self._log.failure("defect at stop", failure))
        lanes.addCallback(self._ended)

    def _abandon(self) -> None:
        for lane in self._lanes.values():
            lane.abandon()
        self._context.producer.stop(0)

    def _ended(self, _: Any) -> None:
        self._stopped = True
        self._tell_ended(self)
        for stopped in self._stops:
            if not stopped.called:
                stopped.callback(None)

    def stopService(self) -> Deferred[None]:
        """Stop, within the producer's `timeout_s`."""
        super().stopService()
        return self.stop()


def _ignore(failure: Failure) -> None:
    """The lane finds out for itself whether it can send."""
    failure.trap(ClientError)
