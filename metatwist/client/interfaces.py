"""The seams between the parts of the client; each part has tests against these alone.

MetaClient            client.py: makes and owns the others
IBrokers, IBrokerLink brokers.py, link.py: connections, requests by opaque
IDiscovery            discovery/: who serves what
IAssignment           group/: which partitions are ours, and for how long
IPartitionHolder      holding.py: reads what is assigned
IFeed                 reading/feed.py: the messages of one partition, in order
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from metatwist.client.errors import ClientError
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.offsets.interface import Claim
from metatwist.coordination.names import PartitionName
from metatwist.wire.commands import NumberedRequest
from metatwist.wire.reply_reader import BrokerReply, PutStored

# -- connections --------------------------------------------------------------------

Answer = PutStored | BrokerReply | ClientError
"""What a put gets: stored, an answer of another kind, or why there is none."""


class IBrokerLink(Interface):
    """One broker: at most one connection, made when first wanted and again when lost,
    for as long as somebody holds the link."""

    address = Attribute("str: meta://host:port, or an endpoint string")
    connected = Attribute("bool: requests can be sent now")
    last_failure = Attribute("Attempt | None: of the last try to connect, if it failed")

    def hold(owner: object) -> None:
        """Keep the connection while `owner` needs it. Idempotent."""

    def release(owner: object) -> None:
        """The opposite; the last one closes the connection."""

    def when_connected(timeout_s: float) -> Deferred[None]:
        """Fires when connected, at once if so; fails with NotConnected in time.
        Cancelling stops the wait alone."""

    def on_connection(call: Callable[[bool], object]) -> Callable[[], None]:
        """Call with True when connected, False when lost; returns how to stop that."""

    def request(
        command: NumberedRequest, timeout_s: float | None = None
    ) -> Deferred[BrokerReply]:
        """Send, with an opaque of its own, and fire with the answer, whatever its code.

        Fails with NotConnected at once, ConnectionLost, RequestTimedOut. Cancelling
        forgets it: the answer is dropped.
        """

    def put(
        prefix: bytes,
        flag: int,
        payload: bytes,
        answered: Callable[[Answer], object],
        timeout_s: float,
    ) -> None:
        """Send a put; `answered` is called exactly once, maybe before this returns.

        `prefix` is `put <topic> <partition> `. All puts of a turn leave in one write.
        """

    def extensions() -> Deferred[frozenset[str]]:
        """What the broker can do beyond the original, `poll` for one; asked once a
        connection. Fails as `request`."""


class IBrokers(Interface):
    """All links of a client, by address."""

    def link(address: str) -> IBrokerLink:
        """The link to an address, the same one for the same address."""


# -- discovery ----------------------------------------------------------------------


@frozen
class PublishRoutes:
    """Where a topic can be sent to.

    `partitions` in the producer's order (spec layout 3.7), those of brokers with an
    address only; `addresses` by broker id. A partition of -1 stands for "the broker
    picks one" (a broker that is known by address alone).
    """

    topic: str
    partitions: tuple[PartitionName, ...] = ()
    addresses: Mapping[int, str] = {}


class IDiscovery(Interface):
    """Which brokers serve which topics, now and as it changes. All CoordinationErrors
    arrive as ClientErrors. What is not known yet is waited for, in bounded time, then
    NotConnected says what hinders."""

    def publish(topic: str) -> Deferred[PublishRoutes]:
        """Begin to follow a topic's brokers; later calls fire with the present routes.
        Fails when they cannot be read; it is followed all the same, until `forget`."""

    def routes(topic: str) -> PublishRoutes | None:
        """The present routes of a followed topic, None before they are known."""

    def forget(topic: str) -> None:
        """Stop following."""

    def on_routes(call: Callable[[PublishRoutes], object]) -> Callable[[], None]:
        """Call with the routes of a followed topic when they change; returns how to
        stop that."""

    def refresh(topic: str) -> None:
        """Look again soon: something did not work."""

    def readers(broker_id: int) -> Deferred[tuple[str, ...]]:
        """Addresses to read a broker's partitions from: the master, else its slaves.
        Empty when it is gone (spec client 16)."""

    def partitions(topic: str) -> Deferred[tuple[PartitionName, ...]]:
        """All partitions that consumers may read, in the producer's order."""


# -- assignment ---------------------------------------------------------------------


class IPartitionHolder(Interface):
    """Reads the partitions that an assignment gives it."""

    def take(claims: Mapping[TopicPartition, Claim]) -> Deferred[None]:
        """These are now ours: load offsets, begin to read. Fires when begun; a failure
        concerns single partitions and is the holder's affair: never fails."""

    def give_up(partitions: Sequence[TopicPartition]) -> Deferred[None]:
        """Stop, wait a bounded time for listeners, commit; fires when others may have
        them. Never fails."""

    def lose(partitions: Sequence[TopicPartition]) -> None:
        """Somebody else may have them already: stop at once, commit nothing."""

    def doubt(doubted: bool) -> None:
        """The session may be about to end: fetch nothing and hand over nothing until
        told that all is well again."""

    def trouble(text: str) -> None:
        """Tell the user."""


class IAssignment(Interface):
    """Decides which partitions a holder reads: by group, or by hand."""

    def start(holder: IPartitionHolder, topics: frozenset[str]) -> Deferred[None]:
        """Join; fires once registered and a first pass has been made, fails with what
        hinders that for good (DuplicateConsumer, GroupError). Goes on for ever."""

    def stop() -> Deferred[None]:
        """Give up everything and leave; fires when others can see that. Bounded."""


# -- reading ------------------------------------------------------------------------


@frozen
class Batch:
    """Messages of one fetch, whole and with good checksums, in order.

    `size_bytes` counts in the consumer's prefetch budget until `IFeed.done`.
    """

    partition: TopicPartition
    messages: list[ReceivedMessage]
    next_offset: int
    size_bytes: int


class IFeed(Interface):
    """The messages of one partition from a position on.

    Positions are offsets in bytes. It fetches ahead while the budget allows and it is
    neither paused, doubted nor stopped.
    """

    partition = Attribute("TopicPartition")
    position = Attribute("int | None: of the next batch to be handed out")
    is_ours = Attribute(
        "Callable[[], bool]: whether the partition can be proven to be ours now; asked"
        " right before messages are handed over"
    )

    def next() -> Deferred[Batch]:
        """The next batch; one call at a time. Fails with ClientStopped once stopped.
        Cancelling leaves the batch for the next call."""

    def done(batch: Batch) -> None:
        """The batch needs no memory any more."""

    def seek(offset: int) -> None:
        """Go on at that offset; what was fetched ahead is dropped."""

    def hold(reason: str) -> None:
        """Fetch nothing more while any reason holds (`paused`, `doubted`)."""

    def unhold(reason: str) -> None:
        """The opposite."""

    def stop() -> None:
        """For good."""
