"""One session of a client, the released Java client or ours, within a `LineDriver`, and
what it takes and gives."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from .line_driver import LineDriver

JsonObject = dict[str, Any]


@frozen
class Body:
    """A message to be sent; `attribute` None is one without."""

    body: bytes
    attribute: str | None = None

    def as_json(self) -> JsonObject:
        """As the driver takes it."""
        encoded = b64encode(self.body).decode()
        return {"body": encoded, "attribute": self.attribute}


@frozen
class Sent:
    """What became of a message: the client's SendResult, or its exception as `error`.

    `partition` is `brokerId-partition`, None when it is unknown; `offset` is where it
    lies in that partition, -1 when it is unknown.
    """

    success: bool
    id: int
    partition: str | None
    offset: int
    error: str | None


@frozen
class Received:
    """A message that a consumer was given, or the browser read.

    `partition` is `brokerId-partition` and `next_offset` is where the message behind it
    lies; of one that the Java client browsed neither is known. `at_s` is when it was
    given, by the monotonic clock that all processes of a host share.
    """

    topic: str
    id: int
    body: bytes
    attribute: str | None
    partition: str | None = None
    next_offset: int | None = None
    at_s: float | None = field(default=None, eq=False)


END = 2**63 - 1


@frozen
class Consumption:
    """How a consumer reads; times in ms, sizes in bytes (spec client 2.2).

    Attributes:
        offset: where it begins in a partition for which its group has none; END for the
            end.
        strategy: DEFAULT or CONSIST.
        pulled: `iterator` or `batches`, of ours alone, instead of a listener.
        most: with `batches`, take no more messages than that.
    """

    consumer_id: str | None = None
    max_bytes: int = 1024 * 1024
    max_delay_ms: int = 200
    commit_period_ms: int = 500
    offset: int = 0
    strategy: str = "DEFAULT"
    pulled: str | None = None
    most: int | None = None


@frozen
class ClientZooKeeper:
    """The client's ZooKeeper settings; times in ms (spec layout 1.1)."""

    connect: str
    root: str = "/meta"
    session_timeout_ms: int = 4000
    connection_timeout_ms: int = 15000
    sync_time_ms: int = 300


class DriverSession:
    """One MetaMessageSessionFactory, or MetaClient. Every method raises as
    `LineDriver.call`."""

    def __init__(self, driver: LineDriver, name: str) -> None:
        self.driver = driver
        self.name = name

    def _call(self, verb: str, **members: object) -> Any:
        return self.driver.call(self.name, verb, **members)

    def publish(self, topic: str) -> None:
        """Make a topic known to the producer; it never says that this failed."""
        self._call("publish", topic=topic)

    def partitions(self, topic: str) -> list[str]:
        """`getPartitionsForTopic`, each as `brokerId-partition`."""
        found: list[str] = self._call("partitions", topic=topic)
        return found

    def send(
        self, topic: str, messages: Sequence[Body], timeout_ms: int = 3000
    ) -> list[Sent]:
        """Send in turn, each once the one before was answered."""
        return self._send("send", topic, messages, timeout_ms)

    def send_with_callback(
        self, topic: str, messages: Sequence[Body], timeout_ms: int = 3000
    ) -> list[Sent]:
        """Send all at once and wait for all the callbacks."""
        return self._send("sendWithCallback", topic, messages, timeout_ms)

    def send_one_way(self, topic: str, messages: Sequence[Body]) -> None:
        """Send without being told; ours alone."""
        self._send("sendOneWay", topic, messages, 0)

    def send_ordered(
        self, topic: str, messages: Sequence[Body], partition: str
    ) -> list[Sent]:
        """Send to a partition by an ordered producer; ours alone."""
        encoded = [one.as_json() for one in messages]
        outcomes = self._call(
            "sendOrdered", topic=topic, messages=encoded, partition=partition
        )
        return [Sent(**one) for one in outcomes]

    def _send(
        self, verb: str, topic: str, messages: Sequence[Body], timeout_ms: int
    ) -> list[Sent]:
        encoded = [one.as_json() for one in messages]
        outcomes = self._call(verb, topic=topic, messages=encoded, timeoutMs=timeout_ms)
        return [Sent(**one) for one in outcomes]

    def begin_consuming(
        self,
        group: str,
        topics: Sequence[str],
        how: Consumption | None = None,
        consumer: str = "consumer",
    ) -> Future[Any]:
        """`consume` without waiting until the consumer has taken its share."""
        how = how or Consumption()
        return self.driver.begin(
            self.name,
            "consume",
            consumer=consumer,
            group=group,
            topics=list(topics),
            consumerId=how.consumer_id,
            maxSize=how.max_bytes,
            maxDelayFetchMs=how.max_delay_ms,
            commitPeriodMs=how.commit_period_ms,
            offset=how.offset,
            strategy=how.strategy,
            pulled=how.pulled,
            most=how.most,
        )

    def consume(
        self,
        group: str,
        topics: Sequence[str],
        how: Consumption | None = None,
        consumer: str = "consumer",
    ) -> None:
        """Subscribe and join the group; `consumer` names it within the session."""
        self.driver.wait(self.begin_consuming(group, topics, how, consumer), "consume")

    def stop_consuming(self, consumer: str = "consumer") -> None:
        """Shut a consumer down in order; what it received is committed."""
        self._call("stopConsuming", consumer=consumer)

    def browse(
        self, topic: str, max_bytes: int = 1024 * 1024, timeout_ms: int = 5000
    ) -> list[Received]:
        """All messages of a topic by the topic browser, partition by partition."""
        found = self._call(
            "browse", topic=topic, maxSize=max_bytes, timeoutMs=timeout_ms
        )
        return [_received(one) for one in found]

    def received(self) -> list[Received]:
        """All that the consumers of this session's name were given so far."""
        events = self.driver.events("received", self.name)
        return [_received(event) for event in events]

    def close(self) -> None:
        """Shut the factory down, consumers and producer included."""
        self._call("close")


def _received(members: JsonObject) -> Received:
    return Received(
        topic=members["topic"],
        id=members["id"],
        body=b64decode(members["body"]),
        attribute=members["attribute"],
        partition=members.get("partition"),
        next_offset=members.get("nextOffset"),
        at_s=members.get("at"),
    )
