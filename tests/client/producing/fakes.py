"""Links, brokers and discovery that do as the test says."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from metatwist.client.errors import Attempt, ClientError, ConnectionLost, NotConnected
from metatwist.client.interfaces import (
    Answer,
    IBrokerLink,
    IBrokers,
    IDiscovery,
    PublishRoutes,
)
from metatwist.client.local_store import LocalStore, StoreLimits
from metatwist.client.message import Message
from metatwist.client.producing.lanes import ProducerContext
from metatwist.client.producing.producer import Producer
from metatwist.client.settings import ProducerSettings
from metatwist.coordination.names import PartitionName
from metatwist.wire.commands import Reply, Request, ResultReply
from metatwist.wire.reply_reader import PutStored


class Put:
    """One put that a fake link was given."""

    def __init__(self, given: tuple[Any, ...]) -> None:
        self.prefix, self.flag, self.payload, self.answered, self.timeout_s = given

    @property
    def partition(self) -> int:
        return int(self.prefix.split()[2])

    @property
    def topic(self) -> str:
        return str(self.prefix.split()[1].decode())

    def store(self, offset: int = 0, message_id: int = 7) -> None:
        number = max(self.partition, 0)
        self.answered(PutStored(1, message_id, number, offset))

    def refuse(self, code: int, text: str = "no") -> None:
        self.answered(ResultReply(code, 1, text.encode()))


@implementer(IBrokerLink)
class FakeLink:
    """Keeps puts until the test answers them, or answers by `answer`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connected = False
        self.last_failure: Attempt | None = None
        self.holders: set[object] = set()
        self.puts: list[Put] = []
        self.all_puts: list[Put] = []
        self.answer: Callable[[Put], object] | None = None
        self.listeners: list[Callable[[bool], object]] = []

    def hold(self, owner: object) -> None:
        self.holders.add(owner)

    def release(self, owner: object) -> None:
        self.holders.discard(owner)

    def on_connection(self, call: Callable[[bool], object]) -> Callable[[], None]:
        self.listeners.append(call)
        return lambda: self.listeners.remove(call)

    def when_connected(self, timeout_s: float) -> Deferred[None]:
        raise NotImplementedError

    def request(
        self, command: Request, timeout_s: float | None = None
    ) -> Deferred[Reply]:
        raise NotImplementedError

    def extensions(self) -> Deferred[frozenset[str]]:
        raise NotImplementedError

    def put(
        self,
        prefix: bytes,
        flag: int,
        payload: bytes,
        answered: Callable[[Answer], object],
        timeout_s: float,
    ) -> None:
        put = Put((prefix, flag, payload, answered, timeout_s))
        if not self.connected:
            answered(NotConnected("no connection"))
            return
        self.all_puts.append(put)
        if self.answer is not None:
            self.answer(put)
        else:
            self.puts.append(put)

    def take(self) -> Put:
        return self.puts.pop(0)

    def connect(self) -> None:
        self.connected, self.last_failure = True, None
        for call in tuple(self.listeners):
            call(True)

    def lose(self, error: ClientError | None = None) -> None:
        """The connection breaks; what is unanswered gets the error."""
        self.connected = False
        self.last_failure = Attempt(self.address, "reset")
        for call in tuple(self.listeners):
            call(False)
        puts, self.puts = self.puts, []
        for put in puts:
            put.answered(error or ConnectionLost("reset"))


@implementer(IBrokers)
class FakeBrokers:
    """Links by address."""

    def __init__(self) -> None:
        self.links: dict[str, FakeLink] = {}

    def link(self, address: str) -> FakeLink:
        if address.startswith("bad"):
            raise ValueError(f"{address} is no address")
        return self.links.setdefault(address, FakeLink(address))


@implementer(IDiscovery)
class FakeDiscovery:
    """Routes that the test sets; `waiting` ones are answered when they are set."""

    def __init__(self) -> None:
        self.known: dict[str, PublishRoutes] = {}
        self.error: ClientError | None = None
        self.followed: list[str] = []
        self.forgotten: list[str] = []
        self.refreshed: list[str] = []
        self.listeners: list[Callable[[PublishRoutes], object]] = []

    def publish(self, topic: str) -> Deferred[PublishRoutes]:
        self.followed.append(topic)
        if self.error is not None:
            return fail(self.error)
        if topic in self.known:
            return succeed(self.known[topic])
        return Deferred()

    def routes(self, topic: str) -> PublishRoutes | None:
        return self.known.get(topic)

    def forget(self, topic: str) -> None:
        self.forgotten.append(topic)

    def on_routes(self, call: Callable[[PublishRoutes], object]) -> Callable[[], None]:
        self.listeners.append(call)
        return lambda: self.listeners.remove(call)

    def refresh(self, topic: str) -> None:
        self.refreshed.append(topic)

    def readers(self, broker_id: int) -> Deferred[tuple[str, ...]]:
        raise NotImplementedError

    def partitions(self, topic: str) -> Deferred[tuple[PartitionName, ...]]:
        raise NotImplementedError

    def set(self, topic: str, counts: dict[int, int], **addresses: str) -> None:
        """Give a topic so many partitions on each broker, and tell."""
        routes = PublishRoutes(
            topic,
            tuple(
                PartitionName(broker_id, number)
                for broker_id, count in counts.items()
                for number in (range(count) if count >= 0 else [-1])
            ),
            {one: addresses.get(f"b{one}", f"meta://b{one}:8123") for one in counts},
        )
        self.known[topic] = routes
        for call in tuple(self.listeners):
            call(routes)


class World:
    """A producer and all around it; broker `n` is at `meta://bn:8123`."""

    def __init__(self, selector: Any = None, **settings: Any) -> None:
        self.clock = Clock()
        self.brokers = FakeBrokers()
        self.discovery = FakeDiscovery()
        self.context = ProducerContext(self.clock, self.brokers, self.discovery)
        self.producer = Producer(ProducerSettings(**settings), self.context, selector)

    @classmethod
    def ready(
        cls, counts: dict[int, int], selector: Any = None, **settings: Any
    ) -> World:
        """Topic `t` is registered, and all its brokers are connected."""
        world = cls(selector, **settings)
        world.discovery.set("t", counts)
        for broker_id in counts:
            world.link(broker_id).connect()
        return world

    def link(self, broker_id: int) -> FakeLink:
        return self.brokers.link(f"meta://b{broker_id}:8123")


def message(body: bytes = b"hello", **others: Any) -> Message:
    return Message("t", body, **others)


def store_at(path: Any, limits: StoreLimits | None = None) -> LocalStore:
    """A local store without a thread."""
    return LocalStore(path, maybeDeferred, limits=limits)


def new_directory(case: SynchronousTestCase) -> Path:
    """A directory that is gone when the test is over."""
    directory = tempfile.mkdtemp()
    case.addCleanup(shutil.rmtree, directory)
    return Path(directory)
