"""Where the messages of one topic can go now.

Brokers come and go one by one: what changes about one touches neither the connections
nor the requests of the others (spec client W23).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from metatwist.client.errors import (
    Attempt,
    ClientError,
    NoPartition,
    NotConnected,
    SelectorFailed,
    Where,
)
from metatwist.client.firing import taken
from metatwist.client.interfaces import (
    Answer,
    IBrokerLink,
    IBrokers,
    IDiscovery,
    PublishRoutes,
)
from metatwist.client.message import Message
from metatwist.client.producing.selectors import Selector, select
from metatwist.coordination.names import PartitionName

Put = Callable[[bytes, int, bytes, Callable[[Answer], object], float], None]


@frozen
class ProducerContext:
    """What producers need of their client: one for all of them, as `followers` counts
    how many follow a topic, and the last one ends that. `ended` is called with each
    producer that has stopped."""

    clock: IReactorTime
    brokers: IBrokers
    discovery: IDiscovery
    followers: Counter[str] = field(factory=Counter)
    ended: Callable[[Any], object] = lambda _: None

    def follow(self, topic: str) -> Deferred[PublishRoutes]:
        """See `IDiscovery.publish`."""
        self.followers[topic] += 1
        return self.discovery.publish(topic)

    def unfollow(self, topic: str) -> None:
        """To be called once for each `follow`."""
        self.followers[topic] -= 1
        if self.followers[topic] <= 0:
            del self.followers[topic]
            self.discovery.forget(topic)


class Waiter(Protocol):
    """Whoever waits until something has changed about a topic."""

    def go_on(self) -> None:
        """Something has."""


class Host:
    """A broker that has partitions of the topic; `up` while it can be sent to."""

    __slots__ = ("_stop_listening", "address", "link", "problem", "up")

    def __init__(self, address: str, brokers: IBrokers) -> None:
        self.address = address
        self.link: IBrokerLink | None = None
        self.problem: Attempt | None = None
        self.up = False
        self._stop_listening: Callable[[], None] | None = None
        try:
            self.link = brokers.link(address)
        except ValueError as error:
            self.problem = Attempt(address, str(error))

    def hold(self, changed: Callable[[], object]) -> None:
        """Keep a connection; `changed` is called when `up` has changed."""
        if self.link is None:
            return

        def tell(connected: bool) -> None:
            self.up = connected
            changed()

        self._stop_listening = self.link.on_connection(tell)
        self.link.hold(self)
        self.up = self.link.connected

    def release(self) -> None:
        """Needed no more."""
        self.up = False
        if self.link is not None and self._stop_listening is not None:
            self._stop_listening()
            self.link.release(self)

    @property
    def trouble(self) -> Attempt | None:
        """Why it cannot be sent to, as far as that is known."""
        if self.problem is not None or self.link is None:
            return self.problem
        failure: Attempt | None = self.link.last_failure
        return failure or Attempt(self.address, "not connected yet")


def _nowhere(*_arguments: object) -> None:
    raise AssertionError("a broker without a link is never up")


class Lane:
    """One partition: its broker, and how a put to it begins."""

    __slots__ = ("host", "partition", "prefix", "put")

    def __init__(self, topic: str, partition: PartitionName, host: Host) -> None:
        self.partition = partition
        self.host = host
        self.prefix = f"put {topic} {partition.partition} ".encode()
        self.put: Put = _nowhere if host.link is None else host.link.put


class TopicLanes:
    """The lanes of a topic.

    `follows` is the topic whose routes are used: the topic itself, unless a default
    topic lends its brokers (spec client 5.3). `partitions` are all of them, `offered`
    those of brokers that are connected.
    """

    def __init__(self, topic: str, follows: str, context: ProducerContext) -> None:
        self.topic = topic
        self.follows = follows
        self.partitions: tuple[PartitionName, ...] = ()
        self.offered: tuple[PartitionName, ...] = ()
        self._context = context
        self._known = False
        self._trouble: ClientError | None = None
        self._hosts: dict[int, Host] = {}
        self._lanes: dict[PartitionName, Lane] = {}
        self._waiting: dict[Waiter, None] = {}
        self._publishing: dict[Deferred[None], None] = {}
        self._closed = False

    # -- what is known -----------------------------------------------------------------

    def update(self, routes: PublishRoutes) -> None:
        """Take new routes."""
        if self._closed:
            return
        self._known, self._trouble = True, None
        before, self._hosts = self._hosts, {}
        for broker_id, address in routes.addresses.items():
            kept = before.get(broker_id)
            if kept is not None and kept.address == address:
                self._hosts[broker_id] = before.pop(broker_id)
            else:
                self._hosts[broker_id] = Host(address, self._context.brokers)
                self._hosts[broker_id].hold(self._refresh)
        self._lanes = {
            partition: self._lane(partition)
            for partition in routes.partitions
            if partition.broker_id in self._hosts
        }
        self.partitions = tuple(self._lanes)
        self._refresh()
        for host in before.values():
            host.release()

    def _lane(self, partition: PartitionName) -> Lane:
        host = self._hosts[partition.broker_id]
        kept = self._lanes.get(partition)
        if kept is not None and kept.host is host:
            return kept
        return Lane(self.topic, partition, host)

    def borrow_no_more(self) -> None:
        """From now on its own routes count, once they are known."""
        self.follows = self.topic
        self.offered = ()
        self._known = False

    def unreadable(self, error: ClientError) -> None:
        """The routes cannot be read now."""
        if self._known or self._closed:
            return
        self._trouble = error
        for ready, _ in taken(self._publishing):
            ready.errback(error)

    def close(self, error: ClientError) -> None:
        """Let go of all connections; whoever waits for `ready` gets the error, whoever
        waits for a change is told of this one."""
        self._closed = True
        self.offered = ()
        for host in self._hosts.values():
            host.release()
        for ready, _ in taken(self._publishing):
            ready.errback(error)
        self._tell_waiting()

    def _refresh(self) -> None:
        if self._closed:
            return
        lanes = self._lanes
        self.offered = tuple(one for one in self.partitions if lanes[one].host.up)
        if self.offered:
            for ready, _ in taken(self._publishing):
                ready.callback(None)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        for waiter, _ in taken(self._waiting):
            waiter.go_on()

    # -- waiting -----------------------------------------------------------------------

    def wait(self, waiter: Waiter) -> None:
        """Call `waiter.go_on` once when something has changed."""
        self._waiting[waiter] = None

    def forget(self, waiter: Waiter) -> None:
        """It waits no more."""
        self._waiting.pop(waiter, None)

    def ready(self, timeout_s: float) -> Deferred[None]:
        """Fires when a broker is connected; fails with what hinders that when the
        routes cannot be read, or in time. Cancelling stops the wait alone."""
        ready: Deferred[None] = Deferred(lambda _: self._publishing.pop(ready, None))
        if self.offered:
            ready.callback(None)
            return ready
        if self._trouble is not None:
            ready.errback(self._trouble)
            return ready
        self._publishing[ready] = None
        timer = self._context.clock.callLater(timeout_s, self._not_ready, ready)

        def stop_timer(result: Any) -> Any:
            if timer.active():
                timer.cancel()
            return result

        return ready.addBoth(stop_timer)

    def _not_ready(self, ready: Deferred[None]) -> None:
        self._publishing.pop(ready)
        ready.errback(self.absent())

    def absent(self) -> ClientError:
        """Why nothing can be sent now."""
        where = Where(topic=self.topic)
        if not self._known:
            text = "it is not known yet which brokers serve the topic"
            if isinstance(self._trouble, NotConnected) and self._trouble.attempts:
                return NotConnected(text, self._trouble.attempts, where)
            if self._trouble is not None:
                text = f"{text}: {self._trouble.text}"
            return NotConnected(text, where=where)
        attempts = tuple(
            host.trouble
            for host in self._hosts.values()
            if not host.up and host.trouble is not None
        )
        if not self.partitions:
            return NoPartition("no partition is registered", where, attempts)
        return NotConnected("no broker of the topic is connected", attempts, where)

    # -- choosing ----------------------------------------------------------------------

    def lane(self, partition: PartitionName) -> Lane | None:
        """The lane of a partition that can be sent to, None while it cannot."""
        lane = self._lanes.get(partition)
        return lane if lane is not None and lane.host.up else None

    def choose(
        self,
        selector: Selector,
        message: Message,
        partitions: tuple[PartitionName, ...],
    ) -> Lane | None:
        """The lane a selector picks out of `partitions`, None while it cannot be sent
        to; raises SelectorFailed, and NoPartition when it picks none."""
        if not partitions:
            return None
        picked = select(selector, self.follows, partitions, message)
        lane = self._lanes.get(picked)
        if lane is None:
            text = f"the selector answered {picked}, no partition of the topic"
            raise SelectorFailed(text, Where(topic=self.topic))
        return lane if lane.host.up else None
