"""The producer: sends messages to brokers (spec client 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from metatwist.client.errors import BufferFull, ClientError, Where
from metatwist.client.message import Message, SendResult
from metatwist.client.producing.kinds import (
    Batch,
    BatchSend,
    CalledSend,
    Changed,
    DeferredSend,
)
from metatwist.client.producing.lanes import ProducerContext, TopicLanes
from metatwist.client.producing.outbox import Outbox
from metatwist.client.producing.room import ENVELOPE_BYTES, Counters
from metatwist.client.producing.selectors import RoundRobin, Selector
from metatwist.client.producing.send import Outcome, Parcel
from metatwist.client.settings import ProducerSettings
from metatwist.coordination.names import PartitionName

_LOG_EVERY_S = 10.0


class Producer(Service):
    """Sends messages; made by `MetaClient.producer`.

    Whatever a broker is known not to have stored is sent again within the message's
    time, up to `settings.retries` times; `producing/outcomes.py` has the table. A
    message that is sent again may be stored after others that were sent later: use an
    `OrderedProducer` where that matters.

    A topic is published by its first message, if not by `publish`. Without a connected
    broker a message waits for one, as long as it has time.
    """

    _log = Logger()

    def __init__(
        self,
        settings: ProducerSettings,
        context: ProducerContext,
        selector: Selector | None = None,
    ) -> None:
        self.settings = settings
        self._outbox = Outbox(settings, selector or RoundRobin(), context)
        self._clock = context.clock
        self._tell_ended = context.ended
        self._log_s = float("-inf")
        self._unlogged = 0
        self._stops: list[Deferred[None]] = []
        self._deadlines: list[IDelayedCall] = []
        self._stopped = False

    @property
    def counters(self) -> Counters:
        """What it has done."""
        return self._outbox.counters

    @property
    def buffered_bytes(self) -> int:
        """Of messages that are not answered yet: payloads, and 704 bytes for each."""
        return self._outbox.room.used

    # -- topics ------------------------------------------------------------------------

    def publish(self, topic: str, timeout_s: float | None = None) -> Deferred[None]:
        """Get ready to send to a topic: find its brokers and connect.

        Fires when one of them is connected. Fails with NotConnected when the
        coordinator cannot be asked, and, after `timeout_s` (`settings.timeout_s`), with
        NotConnected when no broker could be reached or NoPartition when none is
        registered, both with what was tried; InvalidMessage for a name that is none,
        ClientStopped. It goes on trying all the same, for the messages to come.
        Cancelling stops the wait alone.
        """
        try:
            lanes = self._published(topic)
        except ClientError as error:
            return fail(error)
        limit_s = self.settings.timeout_s if timeout_s is None else timeout_s
        return lanes.ready(limit_s)

    def default_topic(self, topic: str) -> Deferred[None]:
        """Lend the brokers of `topic` to all topics that are not published: their
        messages keep their own topic (spec client 5.3). As `publish` otherwise; raises
        ValueError once another topic is the default."""
        outbox = self._outbox
        if outbox.default_topic not in (None, topic):
            raise ValueError(f"the default topic is {outbox.default_topic!r}")
        try:
            lanes = self._published(topic)
        except ClientError as error:
            return fail(error)
        outbox.default_topic = topic
        return lanes.ready(self.settings.timeout_s)

    def _published(self, topic: str) -> TopicLanes:
        self._outbox.check_running()
        return self._outbox.published(topic)

    # -- sending -----------------------------------------------------------------------

    def send(
        self, message: Message, timeout_s: float | None = None
    ) -> Deferred[SendResult]:
        """Send; fires once it is stored.

        `timeout_s` is for the whole, waiting for room included. Fails with what
        `producing/outcomes.py` lists; `outcome_unknown` of the error says whether the
        message may be stored. Past `settings.most_buffered_bytes` it waits for room.

        Cancelling: a message that is not under way is not sent; one that is may be
        stored, and is not sent again.
        """
        try:
            parcel = self._parcel(message, timeout_s)
        except ClientError as error:
            return fail(error)
        return self._send(parcel)

    def send_many(
        self, messages: Iterable[Message], timeout_s: float | None = None
    ) -> Deferred[list[Outcome]]:
        """Send all; fires once all have ended, with a SendResult or a ClientError for
        each, in their order. Never fails but by cancelling, which does to each message
        what it does to that of `send`."""
        outbox = self._outbox
        limit_s = self.settings.timeout_s if timeout_s is None else timeout_s
        every = list(messages)
        if not every:
            return succeed([])
        batch = Batch(len(every))
        deferred = batch.deferred
        now_s = self._clock.seconds()
        for index, message in enumerate(every):
            try:
                parcel = outbox.parcel(message, limit_s, now_s)
            except ClientError as error:
                batch.set(index, error)
                continue
            send = BatchSend(outbox, parcel, batch, index)
            batch.sends.append(send)
            outbox.begin(send)
        return deferred  # type: ignore[return-value]  # it has one until it has ended

    def try_send(
        self, message: Message, timeout_s: float | None = None
    ) -> Deferred[SendResult]:
        """As `send`, but raises BufferFull at once where that would wait for room."""
        try:
            parcel = self._parcel(message, timeout_s)
        except ClientError as error:
            return fail(error)
        self._check_room(parcel)
        return self._send(parcel)

    def send_one_way(self, message: Message) -> None:
        """Send and forget (spec client 7): nothing is raised and nobody is told.

        It is sent again as any other message. One that fails in the end, is invalid,
        finds no room or a stopped producer is dropped, counted in `counters.dropped`
        and logged, at most once in 10 s. An `OneWayProducer` keeps them instead.
        """
        try:
            parcel = self._parcel(message, None)
            self._check_room(parcel)
            self._outbox.begin(CalledSend(self._outbox, parcel, self._one_way_ended))
        except ClientError as error:
            self._one_way_ended(error)

    def send_calling(
        self,
        message: Message,
        ended: Callable[[Outcome], object],
        partition: PartitionName | None = None,
    ) -> None:
        """Send, to one partition alone if given, and call `ended` exactly once, maybe
        before this returns; it must not raise. Raises InvalidMessage, ClientStopped."""
        parcel = self._parcel(message, None)
        self._outbox.begin(CalledSend(self._outbox, parcel, ended, partition))

    def partitions(self, topic: str) -> tuple[PartitionName, ...]:
        """The registered partitions of a topic, connected or not; it is followed from
        now on. Raises InvalidMessage, ClientStopped."""
        return self._outbox.lanes(topic).partitions

    def can_send(self, topic: str, partition: PartitionName) -> bool:
        """Whether a partition is registered and its broker connected; the topic is
        followed from now on. Raises InvalidMessage, ClientStopped."""
        return self._outbox.lanes(topic).lane(partition) is not None

    def changed(self, topic: str) -> Deferred[None]:
        """Fires when something about a topic's brokers has changed: one is connected or
        lost, the routes are others, or the producer was stopped. Never fails.
        Cancelling stops the wait. Raises InvalidMessage, ClientStopped."""
        return Changed(self._outbox.lanes(topic)).deferred

    def _parcel(self, message: Message, timeout_s: float | None) -> Parcel:
        limit_s = self.settings.timeout_s if timeout_s is None else timeout_s
        return self._outbox.parcel(message, limit_s, self._clock.seconds())

    def _send(self, parcel: Parcel) -> Deferred[SendResult]:
        send = DeferredSend(self._outbox, parcel)
        deferred = send.deferred
        self._outbox.begin(send)
        return deferred  # type: ignore[return-value]  # it has one until it has ended

    def _check_room(self, parcel: Parcel) -> None:
        room = self._outbox.room
        if not room.fits(ENVELOPE_BYTES + len(parcel.payload)):
            text = f"{room.used} of {room.most} bytes are taken"
            raise BufferFull(text, Where(topic=parcel.message.topic))

    def _one_way_ended(self, outcome: Outcome) -> None:
        if isinstance(outcome, SendResult):
            return
        self.counters.dropped += 1
        self._unlogged += 1
        now_s = self._clock.seconds()
        if now_s - self._log_s >= _LOG_EVERY_S:
            self._log.warn(
                "{count} one-way messages were dropped, the last one because: {error}",
                count=self._unlogged,
                error=outcome,
            )
            self._log_s, self._unlogged = now_s, 0

    # -- the end -----------------------------------------------------------------------

    def flush(self) -> Deferred[None]:
        """Fires when all messages sent so far have ended, well or not. Cancelling stops
        the wait alone."""
        return self._outbox.waves.flush()

    def stop(self, deadline_s: float | None = None) -> Deferred[None]:
        """Take no more messages, wait for those under way, at most `deadline_s`
        (`settings.timeout_s`), fail the rest with ClientStopped, let go of the brokers;
        fires then, and never fails. A second call may set an earlier deadline."""
        stopped: Deferred[None] = Deferred()
        if self._stopped:
            stopped.callback(None)
            return stopped
        first = not self._stops
        self._stops.append(stopped)
        limit_s = self.settings.timeout_s if deadline_s is None else deadline_s
        timer = self._clock.callLater(max(0.0, limit_s), self._outbox.abandon)
        self._deadlines.append(timer)
        if first:
            self._outbox.stopping = True
            self._outbox.waves.flush().addCallback(self._drained)
        return stopped

    def _drained(self, _: None) -> None:
        self._stopped = True
        self._outbox.close()
        self._tell_ended(self)
        for timer in self._deadlines:
            if timer.active():
                timer.cancel()
        for stopped in self._stops:
            if not stopped.called:
                stopped.callback(None)

    def stopService(self) -> Deferred[None]:
        """Stop, within `settings.timeout_s`."""
        super().stopService()
        return self.stop()
