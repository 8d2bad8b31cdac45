"""The client: what producers and consumers are made from, and how all of it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

from attrs import evolve
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.logger import Logger

from metatwist.client.bounded import at_most
from metatwist.client.broadcast import broadcast_group
from metatwist.client.consumer import Consumer, ConsumerContext
from metatwist.client.delivery.recover_store import RecoverStore
from metatwist.client.errors import ClientStopped, DuplicateConsumer
from metatwist.client.events import OffsetJumped
from metatwist.client.ground import Ground, on_addresses, on_coordinator, on_zookeeper
from metatwist.client.hooks import ConsumerHooks
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.file import FileOffsets
from metatwist.client.offsets.interface import IOffsetStorage
from metatwist.client.places import Chosen, assignment_for, offsets_for
from metatwist.client.producing.lanes import ProducerContext
from metatwist.client.producing.one_way import OneWayProducer, OneWaySettings
from metatwist.client.producing.ordered import OrderedProducer, OrderedSettings
from metatwist.client.producing.producer import Producer
from metatwist.client.producing.selectors import ByKey, Selector
from metatwist.client.reading.browser import BrowseLimits, BrowserContext, TopicBrowser
from metatwist.client.reading.source import PartitionSource
from metatwist.client.reading.starting import KeptRange, range_of
from metatwist.client.settings import (
    ClientSettings,
    ConsumerSettings,
    FetchSettings,
    ProducerSettings,
)
from metatwist.client.statistics import BrokerStats, ask_each, check_item
from metatwist.coordination.interface import ICoordinator
from metatwist.coordination.names import PartitionName, consumer_id

_Producer = Producer | OrderedProducer | OneWayProducer
_NO_HOOKS = ConsumerHooks()
_CLOSE_WITHIN_S = 10.0


class MetaClient(Service):
    """One session with the coordinator, one connection a broker, and all that is made
    from them (spec client 4). To be had once a process.

        client = MetaClient(reactor, zookeeper="zk1:2181,zk2:2181/metaq")
        client = MetaClient(reactor, coordinator=an_icoordinator)
        client = MetaClient(reactor, brokers=["10.0.0.1:8123", "tls:mq.example:8124"])

    Exactly one of the three is given. The last knows no groups: consumers read all
    partitions, or those that they are told. It is a Service: put it in a tree, or call
    `startService` and `stop`, or use `async with`.

    Raises ValueError for a connect string or an address that is none.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        *,
        zookeeper: str | None = None,
        coordinator: ICoordinator | None = None,
        brokers: Sequence[str] = (),
        settings: ClientSettings = ClientSettings(),
    ) -> None:
        given = [bool(zookeeper), coordinator is not None, bool(brokers)]
        if given.count(True) != 1:
            raise ValueError("give one of zookeeper, coordinator and brokers")
        self.settings = settings
        self._reactor = reactor
        self._ground: Ground
        if zookeeper:
            self._ground = on_zookeeper(reactor, zookeeper, settings)
        elif coordinator is not None:
            self._ground = on_coordinator(reactor, coordinator, settings)
        else:
            self._ground = on_addresses(reactor, brokers, settings)
        self._producing = ProducerContext(
            reactor,
            self._ground.brokers,
            self._ground.discovery,
            ended=lambda producer: self._children.pop(producer, None),
        )
        self._children: dict[_Producer | Consumer, None] = {}
        self._browsers: WeakSet[TopicBrowser] = WeakSet()
        self._recover_store: RecoverStore | None = None
        self._stopping: list[Deferred[None]] | None = None
        self._stopped = False

    # -- life --------------------------------------------------------------------------

    def startService(self) -> None:
        """Begin to connect, in the background; everything may be made before. Does
        nothing when it is running; raises ClientStopped when it was stopped."""
        self._check()
        if self.running:
            return
        super().startService()
        self._ground.start()

    def stopService(self) -> Deferred[None]:
        """`stop` with its default limits."""
        return self.stop()

    def stop(self, deadline_s: float | None = None) -> Deferred[None]:
        """End everything: consumers let listeners end, commit and leave their groups,
        producers send what they have, connections close.

        Consumers, then producers, get `deadline_s` each (default: what their settings
        say); closing takes a few seconds more at most. Never fails. Cancelling stops
        the wait alone. No Deferred of the client is left unfired.
        """
        if self._stopped:
            return succeed(None)
        stopped: Deferred[None] = Deferred(self._forget_stop)
        if self._stopping is not None:
            self._stopping.append(stopped)
            return stopped
        self._stopping = [stopped]
        if self.running:
            super().stopService()
        ending = Deferred.fromCoroutine(self._stop(deadline_s))
        ending.addErrback(lambda failure: self._log.failure("stopping", failure))
        ending.addBoth(self._has_stopped)
        return stopped

    def _forget_stop(self, stopped: Deferred[None]) -> None:
        if self._stopping is not None and stopped in self._stopping:
            self._stopping.remove(stopped)

    async def _stop(self, deadline_s: float | None) -> None:
        children = tuple(self._children)
        for first in (True, False):
            its = [one for one in children if isinstance(one, Consumer) is first]
            await DeferredList([one.stop(deadline_s) for one in its])
        for browser in tuple(self._browsers):
            browser.close()
        if self._recover_store is not None:
            closing = self._recover_store.close()
            await at_most(self._reactor, _CLOSE_WITHIN_S, closing, "the recover store")
        await self._ground.stop()

    def _has_stopped(self, _result: object) -> None:
        self._stopped = True
        waiting, self._stopping = self._stopping or [], None
        for stopped in waiting:
            if not stopped.called:  # whoever is told may cancel another
                stopped.callback(None)

    async def __aenter__(self) -> MetaClient:
        """Start."""
        if not self.running:
            self.startService()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop."""
        await self.stop()

    # -- what it makes -----------------------------------------------------------------

    def producer(
        self,
        settings: ProducerSettings = ProducerSettings(),
        selector: Selector | None = None,
    ) -> Producer:
        """A producer; `selector` chooses partitions, round robin when None. Raises
        ClientStopped."""
        self._check()
        producer = Producer(settings, self._producing, selector)
        self._children[producer] = None
        return producer

    def ordered_producer(
        self, settings: OrderedSettings, selector: Selector | None = None
    ) -> OrderedProducer:
        """A producer that keeps the order of each partition, and parks in a local file
        what that cannot take now; `selector` chooses among the configured ones, by key
        when None (spec client 8). Raises ClientStopped."""
        self._check()
        ordered = OrderedProducer(settings, self._producing, selector or ByKey())
        self._children[ordered] = None
        ordered.startService()
        return ordered

    def one_way_producer(
        self,
        settings: OneWaySettings = OneWaySettings(),
        selector: Selector | None = None,
    ) -> OneWayProducer:
        """A producer whose `send` neither waits nor raises (spec client 7). Raises
        ClientStopped."""
        self._check()
        one_way = OneWayProducer(settings, self._producing, selector)
        self._children[one_way] = None
        one_way.startService()
        return one_way

    def consumer(
        self,
        group: str | ConsumerSettings,
        *,
        offsets: IOffsetStorage | None = None,
        partitions: Chosen | None = None,
        hooks: ConsumerHooks = _NO_HOOKS,
    ) -> Consumer:
        """A member of a group.

        Args:
            group: its name, or all settings.
            offsets: where offsets are kept, closed with the consumer; the coordinator
                when None, or memory where there is none: then every start begins as
                `settings.start` says.
            partitions: read these, of every topic or by topic, without sharing them in
                the group.
            hooks: what is called around a rebalance, and with events.

        Raises ValueError for a bad group, DuplicateConsumer, ClientStopped.
        """
        self._check()
        settings = ConsumerSettings(group) if isinstance(group, str) else group
        storage = offsets or offsets_for(self._ground, settings.group)
        return self._consumer(settings, storage, partitions, hooks)

    def broadcast_consumer(
        self,
        group: str | ConsumerSettings,
        directory: str | Path,
        *,
        instance: str | None = None,
        hooks: ConsumerHooks = _NO_HOOKS,
    ) -> Consumer:
        """A consumer that gets all messages, whoever else consumes (spec client 17).

        Its offsets are in a file in `directory`. Its group is `<group>-<instance>`; see
        `broadcast_group`. Raises ValueError for a bad name, ClientStopped.
        """
        self._check()
        settings = ConsumerSettings(group) if isinstance(group, str) else group
        alone = evolve(settings, group=broadcast_group(settings.group, instance))
        storage = FileOffsets.in_directory(self._reactor, directory, alone.group)
        return self._consumer(alone, storage, None, hooks)

    def browser(
        self,
        topic: str,
        limits: BrowseLimits | None = None,
        *,
        tell: Callable[[OffsetJumped], object] | None = None,
        settings: FetchSettings = FetchSettings(),
    ) -> TopicBrowser:
        """Reads a topic once, from its first kept message to its present end, without
        a group (spec client 18).

        `tell` is called with each jump over what is deleted or damaged; what it raises
        comes out of the iteration, which may go on behind the jump. Raises
        ClientStopped.
        """
        self._check()
        context = BrowserContext(
            self._reactor, self._ground.brokers, self._ground.discovery, settings
        )
        if tell is not None:
            context = evolve(context, tell=tell)
        browser = TopicBrowser(topic, context, limits)
        self._browsers.add(browser)
        return browser

    # -- what it tells -----------------------------------------------------------------

    def partitions(self, topic: str) -> Deferred[tuple[PartitionName, ...]]:
        """All partitions that can be read, by broker id and number.

        Waits for the coordinator to answer, 10 s at most. Fails with NotConnected,
        ClientStopped. Cancelling ends the wait.
        """
        return self._ground.discovery.partitions(topic)

    def kept(self, partition: TopicPartition) -> Deferred[KeptRange]:
        """What its broker keeps of a partition now: from where to where, in bytes.

        Fails with NotConnected, RequestRefused, RequestTimedOut. Cancelling ends the
        wait.
        """
        return Deferred.fromCoroutine(self._kept(partition))

    async def _kept(self, partition: TopicPartition) -> KeptRange:
        ground, broker_id = self._ground, partition.partition.broker_id
        timeout_s = self.settings.connection.request_timeout_s
        source = PartitionSource(broker_id, ground.brokers, ground.discovery)
        try:
            link = await source.link(timeout_s)
            return await range_of(link, partition, timeout_s)
        finally:
            source.close()

    def stats(self, item: str = "") -> Deferred[dict[str, BrokerStats]]:
        """What the brokers that the client deals with answer to `stats` (spec client
        19), by address; `config` is in `raw`.

        One that does not answer has its error there, and delays the others by
        `request_timeout_s` for connecting and as much for the answer at most. Never
        fails. Cancelling ends the wait. Raises ValueError for an item that is neither
        empty nor one word.
        """
        check_item(item)
        brokers = self._ground.brokers
        addresses = [link.address for link in brokers.links]
        if self._is_ending:
            error = ClientStopped("the client was stopped")
            return succeed({one: BrokerStats(one, error=error) for one in addresses})
        timeout_s = self.settings.connection.request_timeout_s
        return ask_each(brokers, addresses, item, timeout_s)

    # -- inside ------------------------------------------------------------------------

    @property
    def _is_ending(self) -> bool:
        return self._stopped or self._stopping is not None

    def _check(self) -> None:
        if self._is_ending:
            raise ClientStopped("the client was stopped")

    def _refuse_twin(self, settings: ConsumerSettings) -> None:
        """Two consumers of one session cannot be told apart by their nodes."""
        if settings.consumer_id is None:
            return
        me = (settings.group, settings.consumer_id)
        consumers = [one for one in self._children if isinstance(one, Consumer)]
        if me in ((one.settings.group, one.settings.consumer_id) for one in consumers):
            raise DuplicateConsumer(f"this client has a consumer {consumer_id(*me)}")

    def _consumer(
        self,
        settings: ConsumerSettings,
        storage: IOffsetStorage,
        chosen: Chosen | None,
        hooks: ConsumerHooks,
    ) -> Consumer:
        self._refuse_twin(settings)
        timeout_s = self.settings.session_timeout_s
        assignment = assignment_for(self._ground, settings, timeout_s, chosen)
        context = ConsumerContext(
            clock=self._reactor,
            brokers=self._ground.brokers,
            discovery=self._ground.discovery,
            assignment=assignment,
            storage=storage,
            rejection=self._recovery_store(),
            ended=lambda consumer: self._children.pop(consumer, None),
        )
        consumer = Consumer(context, settings, hooks)
        self._children[consumer] = None
        return consumer

    def _recovery_store(self) -> RecoverStore:
        """The default of what happens to rejected messages."""
        if self._recover_store is None:
            directory = self.settings.recover_directory
            self._recover_store = RecoverStore.in_directory(self._reactor, directory)
        return self._recover_store
