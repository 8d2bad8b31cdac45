"""`FakeBroker`: a broker in memory for unit tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IListeningPort,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
)

from metatwist.coordination.broker_url import BrokerUrl, read_broker_url
from metatwist.testing.answers import FakeAnswers
from metatwist.testing.connection import FakeBrokerFactory, Service
from metatwist.testing.loopback import LoopbackEndpoint
from metatwist.testing.partition import FakePartition, StoredMessage
from metatwist.testing.polls import WaitingPolls
from metatwist.testing.stats import FakeStats
from metatwist.testing.store import FakeStore
from metatwist.testing.turns import Turns
from metatwist.wire.commands import Request
from metatwist.wire.records import join_payload, split_payload

SEGMENT_BYTES = 1 << 30


class FakeBroker:
    """Speaks the wire protocol as a broker does, and keeps its messages in memory.

    `clock` is a `twisted.internet.task.Clock` or a reactor: bytes go both ways, and
    polls end, when it runs. With a Clock, `advance(0)` lets happen all that needs no
    time; `pump` does so without the other calls of the clock.

    `topics` are numbers of partitions by name; `address` is what clients of a
    `FakeCluster` find, `meta://fake-<id>:8123` if it is not given; `segment_bytes` is
    where a segment ends, for `offset` answers the start of one.

    Attributes:
        broker_id: its number.
        address: what it calls itself.
        topics: numbers of partitions by name.
    """

    def __init__(
        self,
        clock: Any,
        topics: Mapping[str, int],
        broker_id: int = 0,
        address: str | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.broker_id = broker_id
        self.address = address or f"meta://fake-{broker_id}:8123"
        url = read_broker_url(self.address.encode())
        if not isinstance(url, BrokerUrl):
            raise ValueError(f"{self.address!r} is not meta://host:port")
        self._url = url
        self._turns = Turns(clock)
        started_s = clock.seconds()
        self._store = FakeStore.of(broker_id, topics, segment_bytes, clock.seconds)
        stats = FakeStats(
            self._store,
            url.port,
            lambda: int(clock.seconds() - started_s),
            lambda: self.connections,
        )
        polls = WaitingPolls(clock, self._turns, self._store)
        answers = FakeAnswers(self._store, stats, self.address)
        self._service = Service(answers, polls)
        self._factory = FakeBrokerFactory(self._service)

    # -- connecting ---------------------------------------------------------------

    def endpoint(self) -> IStreamClientEndpoint:
        """Connects to this broker in memory."""
        host, port = self._url.host, self._url.port
        address = IPv4Address("TCP", host, port)
        return LoopbackEndpoint(
            self._turns, self._factory, address, lambda: self._service.refuses
        )

    def listen(self, endpoint: IStreamServerEndpoint) -> Deferred[IListeningPort]:
        """Serve a real port as well, for other processes; stop it by what this fires
        with. Needs a real reactor."""
        return endpoint.listen(self._factory)

    def pump(self) -> None:
        """Let all bytes arrive and be answered now, whatever the clock says."""
        self._turns.pump()

    @property
    def connections(self) -> int:
        """Open ones."""
        return len(self._service.connections)

    @property
    def waiting_polls(self) -> int:
        """Polls that wait for data."""
        return len(self._service.polls)

    @property
    def requests(self) -> Sequence[Request]:
        """What was asked, in the order of its coming; the last 10,000."""
        return tuple(self._service.requests)

    # -- messages -----------------------------------------------------------------

    @property
    def topics(self) -> Mapping[str, int]:
        """Numbers of partitions by name."""
        return dict(self._store.topics)

    def messages(self, topic: str, partition: int | None = None) -> list[StoredMessage]:
        """What is stored, by partition and offset; of all partitions for None.

        Raises TopicRefused or WrongPartition for what there is not, ValueError for a
        message whose attribute is malformed.
        """
        self._store.check(topic, partition or 0)
        numbers = range(self.topics[topic]) if partition is None else [partition]
        return [
            StoredMessage(
                number, record.offset, *split_payload(record.flag, record.payload)
            )
            for number in numbers
            for record in self._partition(topic, number).records()
        ]

    def deliver(
        self, topic: str, body: bytes, attribute: str | None = None, partition: int = 0
    ) -> int:
        """Store a message as if a producer had sent it; returns its offset.

        Raises TopicRefused or WrongPartition. Neither `refuse_puts` nor a closed
        partition are in the way.
        """
        flag, payload = join_payload(attribute, body)
        return self._store.append(topic, partition, flag, payload)[1]

    def _partition(self, topic: str, partition: int) -> FakePartition:
        """One that is there, or an empty one."""
        self._store.check(topic, partition)
        found = self._store.partitions.get((topic, partition))
        return FakePartition(SEGMENT_BYTES) if found is None else found

    # -- faults of connections ----------------------------------------------------

    @property
    def refuse_connections(self) -> bool:
        """While true, nobody gets a connection; those that are there go on."""
        return self._service.refuses

    @refuse_connections.setter
    def refuse_connections(self, refuses: bool) -> None:
        self._service.refuses = refuses

    def freeze(self, reads: bool = True) -> None:
        """Answer nothing, as a process that is stopped; nor read, without `reads`."""
        self._service.frozen = True
        self._service.reads = reads
        for connection in self._service.connections:
            if not reads:
                connection.transport.pauseProducing()

    def thaw(self) -> None:
        """Go on, first with what has come meanwhile."""
        self._service.frozen = False
        self._service.reads = True
        for connection in list(self._service.connections):
            connection.transport.resumeProducing()
            connection.go_on()

    def drop_connections(self, after_bytes: int | None = None) -> None:
        """Reset all open connections; or close each once it has sent `after_bytes`
        more, in the middle of an answer if need be, though the request is done."""
        for connection in list(self._service.connections):
            connection.drop(after_bytes)

    # -- faults of puts and partitions --------------------------------------------

    def refuse_puts(self, code: int, text: str) -> None:
        """Answer every put so, and store nothing, until `accept_puts`."""
        self._service.answers.refusal = code, text

    def accept_puts(self) -> None:
        """The opposite of `refuse_puts`."""
        self._service.answers.refusal = None

    def close_partition(self, topic: str, partition: int) -> None:
        """As an operator closes it: puts and gets are answered 403."""
        self._store.closed.add((topic, partition))
        self._store.changed()

    def open_partition(self, topic: str, partition: int) -> None:
        """The opposite of `close_partition`."""
        self._store.closed.discard((topic, partition))
        self._store.changed()

    def forget_before(self, topic: str, partition: int, offset: int) -> None:
        """Drop the messages that begin before an offset, as retention does: a get
        there is answered 301."""
        self._partition(topic, partition).forget_before(offset)
        self._store.changed()

    def lose_from(self, topic: str, partition: int, offset: int) -> None:
        """Drop the messages that begin at an offset or behind it: the end moves back,
        as after a crash of the disk, and offsets are used again."""
        self._partition(topic, partition).lose_from(offset)
        self._store.changed()

    def corrupt(self, topic: str, partition: int, offset: int) -> None:
        """Damage the message at an offset: its checksum is wrong from now on.

        Raises ValueError when none begins there.
        """
        self._partition(topic, partition).corrupt(offset)
