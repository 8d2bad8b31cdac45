"""Brokers that are known by their addresses alone: they are asked what they have.

Our own brokers tell with `stats extensions` what they offer. Those of the original are
asked `stats offsets` rather than `stats <topic>`: it names the partitions that have a
log, where the other only counts them, and answers for all topics at once (spec client
19).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from metatwist.client.discovery.addresses import normalised
from metatwist.client.discovery.asked_broker import AskedBroker
from metatwist.client.discovery.waiting import (
    Awaited,
    Listeners,
    RoutesListener,
    Running,
)
from metatwist.client.errors import NOWHERE, NotConnected
from metatwist.client.interfaces import IBrokers, IDiscovery, PublishRoutes
from metatwist.coordination.names import PartitionName, producer_order

PATIENCE_S = 8.0
GRACE_S = 1.0
FIRST_INVENTED_ID = 1024
ANY_PARTITION = -1


@implementer(IDiscovery)
class DirectDiscovery(Service):
    """See IDiscovery; needs to be started, and serves once.

    A broker keeps its id while the client lives. One that tells none, or that of
    another broker that was heard before, gets 1024 + its position in `addresses`
    (brokers' own ids end at 1023): give brokers ids of their own, or stored offsets may
    be taken for those of another broker.

    A topic's routes are the configured partitions of all brokers that tell them, and
    for brokers of the original 0 up to the highest that has a log. If no broker has
    any, they are partition -1, which lets it choose, of each broker that does not know
    the topic: it may be made of the first message. What a broker said stays valid while
    it cannot be reached.

    All Deferreds wait until every broker was tried (has answered, or refused the first
    connection), or for one second after the first answer. They fail with NotConnected
    when none has answered by then or within 8 s, and with ClientStopped at the stop;
    cancelling ends the wait.
    """

    _log = Logger()

    def __init__(
        self, reactor: Any, brokers: IBrokers, addresses: Sequence[str]
    ) -> None:
        """Raises ValueError for what is no address, or if there is none."""
        keys = list(dict.fromkeys(map(normalised, addresses)))
        if not keys:
            raise ValueError("no address of a broker")
        self._reactor = reactor
        self._brokers = [
            AskedBroker(reactor, brokers, key, self._heard) for key in keys
        ]
        self._ids: dict[int, AskedBroker] = {}
        self._routes: dict[str, PublishRoutes | None] = {}
        self._listeners = Listeners()
        self._work = Running("discovery")
        self._settled: Awaited[bool] = Awaited(reactor, NOWHERE, PATIENCE_S)
        self._grace: Any = None

    # -- asking -----------------------------------------------------------------------

    def startService(self) -> None:
        """Begin to ask."""
        super().startService()
        for broker in self._brokers:
            broker.start()

    def stopService(self) -> None:
        """Ask no more; whoever waits gets ClientStopped."""
        super().stopService()
        for broker in self._brokers:
            broker.stop()
        self._work.stop()
        if self._grace is not None and self._grace.active():
            self._grace.cancel()

    def _heard(self, broker: AskedBroker) -> None:
        """A broker has been tried."""
        if broker.answered and broker not in self._ids.values():
            self._ids[self._id_for(broker)] = broker
        tried_all = all(one.tried for one in self._brokers)
        if self._settled.now:
            self._compare()
        elif self._ids and tried_all:
            self._settle()
        elif self._ids and self._grace is None:
            self._grace = self._reactor.callLater(GRACE_S, self._settle)
        elif tried_all and not self._ids:
            self._settled.failure = self._nobody()
            self._settled.give_up(self._settled.failure)

    def _id_for(self, broker: AskedBroker) -> int:
        if broker.own_id is not None and broker.own_id not in self._ids:
            return broker.own_id
        invented = FIRST_INVENTED_ID + self._brokers.index(broker)
        while invented in self._ids:
            invented += len(self._brokers)
        self._log.warn(
            "{address} tells {own}, which is no id of its own; it is {id} here",
            address=broker.address,
            own=broker.own_id,
            id=invented,
        )
        return invented

    def _settle(self) -> None:
        if self._grace is not None and self._grace.active():
            self._grace.cancel()
        self._settled.now = True
        self._compare()
        self._settled.learn(True)

    def _nobody(self) -> NotConnected:
        attempts = tuple(one for broker in self._brokers for one in broker.attempts)
        return NotConnected("no broker answers", attempts)

    def _compare(self) -> None:
        """Tell of the routes that have changed."""
        for topic, before in list(self._routes.items()):
            now = self._find_routes(topic)
            if now != before and topic in self._routes:
                self._routes[topic] = now
                self._listeners.tell(now)

    # -- answering --------------------------------------------------------------------

    def publish(self, topic: str) -> Deferred[PublishRoutes]:
        """See IDiscovery."""
        if not self._work.stopped:
            self._routes.setdefault(topic)
            if self._settled.now:
                self._compare()
        return self._work.start(self._publish(topic))

    async def _publish(self, topic: str) -> PublishRoutes:
        await self._settled.wait()
        return self._routes.get(topic) or self._find_routes(topic)

    def routes(self, topic: str) -> PublishRoutes | None:
        """See IDiscovery."""
        return self._routes.get(topic)

    def forget(self, topic: str) -> None:
        """See IDiscovery."""
        self._routes.pop(topic, None)

    def on_routes(self, call: RoutesListener) -> Callable[[], None]:
        """See IDiscovery."""
        return self._listeners.add(call)

    def refresh(self, topic: str) -> None:
        """See IDiscovery; all brokers are asked, not more often than every 0.5 s."""
        for broker in self._brokers:
            broker.ask_soon()

    def readers(self, broker_id: int) -> Deferred[tuple[str, ...]]:
        """See IDiscovery: the broker's address."""
        return self._work.start(self._readers(broker_id))

    async def _readers(self, broker_id: int) -> tuple[str, ...]:
        await self._settled.wait()
        broker = self._ids.get(broker_id)
        return () if broker is None else (broker.address,)

    def partitions(self, topic: str) -> Deferred[tuple[PartitionName, ...]]:
        """See IDiscovery: those that brokers tell, and of brokers of the original those
        that have a log. None for a topic that no broker knows yet."""
        return self._work.start(self._partitions(topic))

    async def _partitions(self, topic: str) -> tuple[PartitionName, ...]:
        await self._settled.wait()
        return tuple(
            producer_order(
                PartitionName(broker_id, partition)
                for broker_id, broker in self._ids.items()
                for partition in broker.partitions(topic)
            )
        )

    def _find_routes(self, topic: str) -> PublishRoutes:
        found = producer_order(self._writable(topic))
        partitions = found or [
            PartitionName(broker_id, ANY_PARTITION)
            for broker_id in sorted(self._ids)
            if self._ids[broker_id].writable(topic) is None
        ]
        ids = {one.broker_id for one in partitions}
        addresses = {one: self._ids[one].address for one in sorted(ids)}
        return PublishRoutes(topic, tuple(partitions), addresses)

    def _writable(self, topic: str) -> Iterator[PartitionName]:
        for broker_id, broker in self._ids.items():
            for partition in range(broker.writable(topic) or 0):
                yield PartitionName(broker_id, partition)
