"""A consumer: subscriptions, a place in a group, and what is read because of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from enum import Enum
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.bounded import at_most
from metatwist.client.commits import Commits
from metatwist.client.delivery.interface import Filter
from metatwist.client.delivery.pulling import Pull, PulledBatch
from metatwist.client.delivery.rejection import IRejection, as_rejection
from metatwist.client.errors import ClientStopped, WrongState
from metatwist.client.events import Event, OffsetJumped
from metatwist.client.held import HeldContext
from metatwist.client.holding import Holding
from metatwist.client.hooks import ConsumerHooks
from metatwist.client.interfaces import IAssignment, IBrokers, IDiscovery
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.offsets.guarded import GuardedOffsets
from metatwist.client.offsets.interface import CommitOutcome, IOffsetStorage
from metatwist.client.reading.budget import PrefetchBudget
from metatwist.client.reading.context import ReadingContext
from metatwist.client.reading.feed import PartitionFeed
from metatwist.client.settings import ConsumerSettings
from metatwist.client.subscriptions import Listener, Subscription, Subscriptions
from metatwist.client.telling import Telling


class ConsumerState(Enum):
    """Its life (spec client W8): it is started once, and stopped for good."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


@frozen
class ConsumerContext:
    """What a consumer is made of; `storage` is closed with it, and `ended` is called
    once it has stopped."""

    clock: Any
    brokers: IBrokers
    discovery: IDiscovery
    assignment: IAssignment
    storage: IOffsetStorage
    rejection: IRejection
    ended: Callable[[Any], object]


class Consumer:
    """Reads topics as a member of a group, or the partitions it is told.

        consumer = client.consumer("billing")
        consumer.subscribe("orders", handle)
        await consumer.start()

    A message is done when its listener has returned, or the Deferred it answered has
    fired; commits store that, so that after a crash it may come again, but is never
    skipped. Made by `MetaClient.consumer`.
    """

    _log = Logger()

    def __init__(
        self, context: ConsumerContext, settings: ConsumerSettings, hooks: ConsumerHooks
    ) -> None:
        self.settings = settings
        self.state = ConsumerState.NEW
        self._context = context
        self._emit = Telling(f"consumer of {settings.group}", hooks.on_event)
        self._storage = GuardedOffsets(context.storage)
        self._commits = Commits(
            context.clock, self._storage, settings.commit, self._emit
        )
        self._pull = Pull(self._commit_pulled)
        self._subscriptions = Subscriptions(self, context.clock, self._pull, self._emit)
        self._holding = Holding(self._held_context(), hooks, settings.stop_timeout_s)
        self._starting: Deferred[None] | None = None
        self._stopping: list[Deferred[None]] = []

    # -- subscriptions -----------------------------------------------------------------

    def subscribe(
        self,
        topic: str,
        listener: Listener | None = None,
        *,
        accepts: Filter | None = None,
        rejection: object | None = None,
        manual_ack: bool = False,
    ) -> Consumer:
        """Read this topic; before `start`. Returns the consumer, for the next one.

        See `Subscription`; `rejection` is an `IRejection`, a function of
        `(message, error, group, consumer)`, or None for the client's default. Raises
        ValueError for a topic that is blank, has a comma or is subscribed already,
        WrongState after `start`.
        """
        if self.state is not ConsumerState.NEW:
            raise WrongState(f"the consumer is {self.state.value}: subscribe before")
        policy = (
            self._context.rejection if rejection is None else as_rejection(rejection)
        )
        self._subscriptions.add(
            Subscription(topic, listener, accepts, policy, manual_ack)
        )
        return self

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """In the order they were made."""
        return self._subscriptions.all

    # -- life --------------------------------------------------------------------------

    def start(self) -> Deferred[None]:
        """Join the group and begin to read.

        Fires once registered, a first pass over the partitions made; later troubles are
        events. Fails with DuplicateConsumer, GroupError, NotConnected, ClientStopped,
        and is stopped then; with WrongState without subscription, or when it was
        started before. Cancelling stops it too.
        """
        if self.state is not ConsumerState.NEW:
            return fail(WrongState(f"the consumer is {self.state.value}"))
        if not self._subscriptions.all:
            return fail(WrongState("the consumer has no subscription"))
        self.state = ConsumerState.STARTING
        self._commits.start()
        self._subscriptions.recoveries.start()
        started: Deferred[None] = Deferred(lambda _: self._give_up_start())
        self._starting = started
        joining = self._context.assignment.start(
            self._holding, self._subscriptions.topics
        )
        joining.addCallbacks(self._joined, self._not_joined)
        return started

    def _joined(self, _result: object) -> None:
        if self.state is ConsumerState.STARTING:
            self.state = ConsumerState.RUNNING
        self._end_start(lambda started: started.callback(None))

    def _not_joined(self, failure: Failure) -> None:
        started, self._starting = self._starting, None
        stopping = self.stop()
        if started is not None:
            stopping.addCallback(lambda _: started.errback(failure))

    def _give_up_start(self) -> None:
        self._starting = None
        self.stop()

    def _end_start(self, fire: Callable[[Deferred[None]], object]) -> None:
        started, self._starting = self._starting, None
        if started is not None:
            fire(started)

    def stop(self, deadline_s: float | None = None) -> Deferred[None]:
        """Let listeners end, commit, give up the partitions, leave the group.

        Fires when all that is done, or after `deadline_s` (default: three times
        `stop_timeout_s`) with the rest left to the end of the session; the first call's
        counts. Never fails. Cancelling stops the wait alone.
        """
        if self.state is ConsumerState.STOPPED:
            return succeed(None)
        stopped: Deferred[None] = Deferred(self._forget_stop)
        self._stopping.append(stopped)
        if self.state is not ConsumerState.STOPPING:
            self.state = ConsumerState.STOPPING
            limit_s = 3 * self.settings.stop_timeout_s
            if deadline_s is not None:
                limit_s = deadline_s
            leaving = Deferred.fromCoroutine(self._stop(limit_s))
            leaving.addErrback(lambda bad: self._log.failure("stopping", bad))
            leaving.addBoth(self._stopped)
        return stopped

    def _forget_stop(self, stopped: Deferred[None]) -> None:
        if stopped in self._stopping:
            self._stopping.remove(stopped)

    async def _stop(self, limit_s: float) -> None:
        clock = self._context.clock
        ends_s = clock.seconds() + limit_s

        def in_time(waiting: Deferred[Any], what: str) -> Deferred[bool]:
            return at_most(clock, max(0.0, ends_s - clock.seconds()), waiting, what)

        recovering = self._subscriptions.recoveries.stop()
        leaving = self._context.assignment.stop()
        if not await in_time(leaving, "leaving the group"):
            self._holding.lose(self.assigned)
        await in_time(recovering, "a recovery")
        self._commits.stop()
        self._pull.stop()
        await in_time(self._storage.close(), "closing the offset storage")
        self._commits.end()

    def _stopped(self, _result: object) -> None:
        self.state = ConsumerState.STOPPED
        error = ClientStopped("the consumer was stopped")
        self._end_start(lambda started: started.errback(error))
        self._context.ended(self)
        stopping, self._stopping = self._stopping, []
        for stopped in stopping:
            if not stopped.called:  # whoever is told may cancel another
                stopped.callback(None)

    async def __aenter__(self) -> Consumer:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop."""
        await self.stop()

    # -- what it holds -----------------------------------------------------------------

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """The partitions it reads now."""
        return tuple(self._holding.held)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Those that `pause` stopped."""
        return self._holding.paused

    def position(self, partition: TopicPartition) -> int | None:
        """The offset, in bytes, before which all is done; None while it is not known.
        Raises KeyError for a partition that is not assigned."""
        return self._holding.held[partition].offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand over nothing of these, or of all assigned, until `resume`; they stay
        assigned."""
        self._holding.pause(partitions or self.assigned)

    def resume(self, *partitions: TopicPartition) -> None:
        """The opposite; without arguments for all that are paused."""
        self._holding.resume(partitions or tuple(self._holding.paused))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset, in bytes, where a message begins; an offset out of range
        is dealt with as `out_of_range` says.

        Raises KeyError for a partition that is not assigned, ValueError for an offset
        below 0.
        """
        if offset < 0:
            raise ValueError(f"{offset} is no offset")
        self._holding.held[partition].seek(offset)

    def commit(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> Deferred[CommitOutcome]:
        """Store how far these, or all, partitions are done; with None for those that
        are stored, or the error.

        Unchanged ones are left out. Never fails. Cancelling stops the wait alone.
        """
        return self._commits.commit(partitions)

    # -- pulling -----------------------------------------------------------------------

    def next_batch(self, most_messages: int = 1000) -> Deferred[PulledBatch]:
        """The next messages of some partition subscribed without listener.

        They are done with `batch.commit()` or `batch.done()`; until then they count in
        `prefetch_bytes`, and with that full this waits. Fails with ClientStopped.
        Cancelling leaves the messages for the next call.
        """
        return self._pull.next_batch(most_messages)

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """All messages of topics subscribed without listener; one is done when the next
        is asked for. Ends when the consumer is stopped."""
        return self._pull.messages()

    async def _commit_pulled(self, partition: TopicPartition) -> None:
        outcome = await self._commits.commit((partition,))
        error = outcome.get(partition)
        if error is not None:
            raise error

    # -- parts -------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        """What the feeds say."""
        if isinstance(event, OffsetJumped) and event.reason == "start":
            held = self._holding.held.get(event.partition)
            if held is not None:
                held.started_at(event.to_offset)
        self._emit(event)

    def _reading_context(self) -> ReadingContext:
        settings, context = self.settings, self._context
        return ReadingContext(
            group=settings.group,
            clock=context.clock,
            brokers=context.brokers,
            discovery=context.discovery,
            settings=settings.fetch,
            budget=PrefetchBudget(settings.fetch.prefetch_bytes),
            start=settings.start,
            out_of_range=settings.out_of_range,
            tell=self._tell,
        )

    def _held_context(self) -> HeldContext:
        reading = self._reading_context()

        def open_feed(partition: TopicPartition, offset: int | None) -> PartitionFeed:
            return PartitionFeed(partition, offset, reading)

        return HeldContext(
            clock=self._context.clock,
            storage=self._storage,
            commits=self._commits,
            open_feed=open_feed,
            open_sink=self._subscriptions.open_sink,
            emit=self._emit,
            backoff=self.settings.fetch.failure,
        )
