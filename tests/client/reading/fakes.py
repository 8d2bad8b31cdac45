"""Brokers and discovery, as far as reading sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from metatwist.client.errors import ClientError, ConnectionLost, NotConnected
from metatwist.client.events import Event
from metatwist.client.interfaces import IBrokerLink, IBrokers, IDiscovery
from metatwist.client.message import TopicPartition
from metatwist.client.reading.budget import PrefetchBudget
from metatwist.client.reading.context import ReadingContext
from metatwist.client.reading.feed import PartitionFeed
from metatwist.client.settings import FetchSettings, Start
from metatwist.coordination.names import PartitionName
from metatwist.wire.commands import (
    GetCommand,
    OffsetCommand,
    PollCommand,
    ResultReply,
)
from metatwist.wire.records import encode
from metatwist.wire.reply_reader import BrokerReply, ValueChunks

END = 2**63 - 1
TOPIC = "orders"
MASTER = "meta://master:8123"


def partition(number: int = 0, broker_id: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC, PartitionName(broker_id, number))


def log_of(*payloads: bytes) -> bytes:
    """Records with ids from 1 on."""
    return b"".join(encode(at, 0, body) for at, body in enumerate(payloads, 1))


def value(data: bytes) -> ValueChunks:
    return ValueChunks.of(0, data)


def result(code: int, text: str = "") -> ResultReply:
    return ResultReply(code, 0, text.encode())


class LogBroker:
    """Answers as a broker with one log, which begins at `start` (spec wire-protocol
    3.4, 3.5); `cap` is its maxTransferSize, `exists` whether there is a log."""

    def __init__(self, data: bytes = b"", start: int = 0, cap: int = 1 << 20) -> None:
        self.data = data
        self.start = start
        self.cap = cap
        self.exists = True
        self.closed = False

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def __call__(self, command: object) -> BrokerReply:
        if isinstance(command, OffsetCommand):
            return self._offset(command)
        assert isinstance(command, (GetCommand, PollCommand))
        return self._get(command.offset, command.max_size)

    def _offset(self, command: OffsetCommand) -> BrokerReply:
        if not self.exists:
            return result(404, "not exists")
        beyond = command.offset >= self.end
        return result(200, str(self.end if beyond else self.start))

    def _get(self, offset: int, max_size: int) -> BrokerReply:
        if self.closed:
            return result(403, "closed")
        if self.exists and offset < self.start:
            return result(301, str(self.start))
        if not self.exists or offset >= self.end:
            return result(404, "nothing")
        at = offset - self.start
        return value(self.data[at : at + min(max_size, self.cap)])


@implementer(IBrokerLink)
class FakeLink:
    """Records requests; answered by `auto` at once, else by `answer` and `fail`."""

    last_failure = None

    def __init__(self, address: str = MASTER) -> None:
        self.address = address
        self.connected = True
        self.can: frozenset[str] | ClientError = frozenset()
        self.auto: Callable[[object], BrokerReply | None] | None = None
        self.commands: list[object] = []
        self.timeouts: list[float | None] = []
        self.waiting: list[Deferred[BrokerReply]] = []
        self.connecting: list[Deferred[None]] = []
        self.cancelled = 0
        self.owners: set[int] = set()

    # -- the interface

    def hold(self, owner: object) -> None:
        self.owners.add(id(owner))

    def release(self, owner: object) -> None:
        self.owners.discard(id(owner))

    def when_connected(self, timeout_s: float) -> Deferred[None]:
        if self.connected:
            return succeed(None)
        self.connecting.append(Deferred())
        return self.connecting[-1]

    def on_connection(self, call: Callable[[bool], object]) -> Callable[[], None]:
        raise NotImplementedError

    def request(self, command: object, timeout_s: float | None = None) -> Deferred:
        if not self.connected:
            return fail(NotConnected("not connected"))
        self.commands.append(command)
        self.timeouts.append(timeout_s)
        reply = self.auto(command) if self.auto is not None else None
        if reply is not None:
            return succeed(reply)
        asked: Deferred[BrokerReply] = Deferred(self._forget)
        self.waiting.append(asked)
        return asked

    def put(self, *_arguments: object) -> None:
        raise NotImplementedError

    def extensions(self) -> Deferred[frozenset[str]]:
        return (
            fail(self.can) if isinstance(self.can, ClientError) else succeed(self.can)
        )

    # -- the test's side

    def _forget(self, asked: Deferred) -> None:
        self.cancelled += 1
        self.waiting.remove(asked)

    def answer(self, reply: BrokerReply) -> None:
        """Answer the oldest request."""
        self.waiting.pop(0).callback(reply)

    def fail(self, error: ClientError) -> None:
        """Fail the oldest request."""
        self.waiting.pop(0).errback(error)

    def lose(self) -> None:
        """The connection breaks."""
        self.connected = False
        waiting, self.waiting = self.waiting, []
        for asked in waiting:
            asked.errback(ConnectionLost("lost"))

    def connect(self) -> None:
        self.connected = True
        connecting, self.connecting = self.connecting, []
        for waiting in connecting:
            waiting.callback(None)

    def refuse(self) -> None:
        """Whoever waits for the connection has waited long enough."""
        connecting, self.connecting = self.connecting, []
        for waiting in connecting:
            waiting.errback(NotConnected("refused"))

    @property
    def gets(self) -> list[tuple[int, int]]:
        """(offset, size) of all gets and polls."""
        kinds = (GetCommand, PollCommand)
        fetches = [one for one in self.commands if isinstance(one, kinds)]
        return [(one.offset, one.max_size) for one in fetches]


@implementer(IBrokers)
class FakeBrokers:
    """Links by address, made when first asked for."""

    def __init__(self) -> None:
        self.links: dict[str, FakeLink] = {}

    def link(self, address: str) -> FakeLink:
        return self.links.setdefault(address, FakeLink(address))


@implementer(IDiscovery)
class FakeDiscovery:
    """`addresses` by broker id; a ClientError instead of an answer."""

    def __init__(self) -> None:
        self.addresses: dict[int, tuple[str, ...] | ClientError] = {0: (MASTER,)}
        self.names: tuple[PartitionName, ...] = (PartitionName(0, 0),)
        self.asked = 0

    def readers(self, broker_id: int) -> Deferred[tuple[str, ...]]:
        self.asked += 1
        found = self.addresses[broker_id]
        return fail(found) if isinstance(found, ClientError) else succeed(found)

    def partitions(self, topic: str) -> Deferred[tuple[PartitionName, ...]]:
        return succeed(self.names)

    def publish(self, topic: str) -> Deferred:
        raise NotImplementedError

    def routes(self, topic: str) -> None:
        raise NotImplementedError

    def forget(self, topic: str) -> None:
        raise NotImplementedError

    def on_routes(self, call: Callable) -> Callable[[], None]:
        raise NotImplementedError

    def refresh(self, topic: str) -> None:
        raise NotImplementedError


class World:
    """A consumer's surroundings, and the feeds made in them."""

    def __init__(
        self,
        settings: FetchSettings | None = None,
        start: Start | int = Start.EARLIEST,
        out_of_range: Start = Start.NEAREST,
    ) -> None:
        self.clock = Clock()
        self.brokers = FakeBrokers()
        self.discovery = FakeDiscovery()
        self.link = self.brokers.link(MASTER)
        self.events: list[Event] = []
        settings = settings or FetchSettings()
        self.budget = PrefetchBudget(settings.prefetch_bytes)
        self.context = ReadingContext(
            "group",
            self.clock,
            self.brokers,
            self.discovery,
            settings,
            self.budget,
            start,
            out_of_range,
            self.events.append,
        )

    def feed(self, stored: int | None = 0, number: int = 0) -> PartitionFeed:
        """One that has begun."""
        feed = PartitionFeed(partition(number), stored, self.context)
        feed.begin()
        return feed

    def told(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]


def payloads(messages: Iterable) -> list[bytes]:
    return [message.payload for message in messages]
