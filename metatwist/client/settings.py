"""What a user can set, checked once when it is made. Times in seconds, sizes in bytes.

Names in brackets are the original's (spec client 2.2); its defaults are kept unless
the docstring says why not.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from attrs import field, frozen

from metatwist.client.checked import (
    count,
    not_negative,
    positive_or_none,
    seconds,
)
from metatwist.coordination.names import consumer_id as checked_consumer_id
from metatwist.coordination.names import group_problem

MIB = 1 << 20


@frozen
class ConnectionSettings:
    """How connections to brokers behave (spec client 3).

    Attributes:
        connect_timeout_s: the longest that one try of one address may take.
        request_timeout_s: the longest wait for an answer, where a call names no other.
        heartbeat_idle_s: after this long without an answer, `version` is asked.
        heartbeat_timeout_s: the longest wait for its answer.
        most_missed_heartbeats: after as many in a row the connection is given up.
        reconnect_pause_s: before the second try; doubles up to
            `most_reconnect_pause_s`, jittered. Tries go on for ever (W29).
        most_unanswered: requests in flight on one connection; more fail at once.
        most_reply_bytes: a larger answer breaks the connection.
    """

    connect_timeout_s: float = seconds(10)
    request_timeout_s: float = seconds(10)
    heartbeat_idle_s: float = seconds(10)
    heartbeat_timeout_s: float = seconds(5)
    most_missed_heartbeats: int = count(3)
    reconnect_pause_s: float = seconds(0.2)
    most_reconnect_pause_s: float = seconds(5)
    most_unanswered: int = count(100_000)
    most_reply_bytes: int = count(256 * MIB)


@frozen
class Backoff:
    """Pauses that grow: `first_s`, then doubled up to `most_s`."""

    first_s: float = seconds(0.5)
    most_s: float = seconds(30)

    def pause_s(self, failures: int) -> float:
        """The pause after that many failures in a row, of which there is at least 1."""
        return float(min(self.most_s, self.first_s * 2 ** min(failures - 1, 30)))


@frozen
class ProducerSettings:
    """How messages are sent (spec client 5).

    Attributes:
        timeout_s: for one message, over all its tries (original: 3 s, one try).
        retries: how many more tries after a failure that is known not to have stored
            the message (never sent, refused for now); each may take another partition
            if the selector gives one.
        may_duplicate: also try again after a failure that leaves the outcome unknown.
        backoff: between tries.
        most_buffered_bytes: payloads that are not answered yet; past it `send` waits
            and `try_send` raises BufferFull.
        most_message_bytes: a larger payload is InvalidMessage at once.
    """

    timeout_s: float = seconds(10)
    retries: int = field(default=5, validator=not_negative)
    may_duplicate: bool = False
    backoff: Backoff = Backoff(0.1, 2)
    most_buffered_bytes: int = count(64 * MIB)
    most_message_bytes: int = count(4 * MIB)


class Start(Enum):
    """Where to begin a partition that has no stored offset, and where to go on when the
    position is outside of what is kept.

    ERROR stops the partition with OffsetOutOfRange; NEAREST (only out of range) goes to
    the nearest kept message.
    """

    EARLIEST = "earliest"
    LATEST = "latest"
    ERROR = "error"
    NEAREST = "nearest"


class Strategy(Enum):
    """How a group shares partitions; all members need the same (spec client 10.4)."""

    DEFAULT = "default"
    CONSISTENT_HASH = "consistent-hash"


@frozen
class FetchSettings:
    """How a partition is read (spec client 11).

    Attributes:
        size_bytes: of a fetch; grows as far as a larger message needs. More than fits
            into the processor's cache costs throughput (measured: a third at 1 MiB).
        most_message_bytes: a larger message stops its partition with an error that
            names its offset.
        prefetch_bytes: fetched but not yet consumed, over all partitions of the
            consumer, pulled batches that are not done included; one fetch for each
            partition may be under way beyond it.
        timeout_s: for the answer of one fetch.
        poll_wait_s: how long our own brokers hold a fetch that finds nothing.
        idle: pauses between fetches that find nothing, for other brokers. The
            original's go up to 5 s in steps of 0.5 s.
        failure: pauses after failed fetches.
    """

    size_bytes: int = count(512 * 1024)
    most_message_bytes: int = count(64 * MIB)
    prefetch_bytes: int = count(4 * MIB)
    timeout_s: float = seconds(10)
    poll_wait_s: float = seconds(20)
    idle: Backoff = Backoff(0.05, 1)
    failure: Backoff = Backoff(0.5, 10)


@frozen
class DeliverySettings:
    """What happens between a message and a listener (spec client 12).

    Attributes:
        most_deliveries: after as many failures a message is rejected (1 + original's
            `maxFetchRetries`).
        backoff: between deliveries of the same message.
        listener_timeout_s: a listener's Deferred that takes longer counts as failed and
            is cancelled; None waits for ever.
        slice_s: the longest that listeners of one partition keep the reactor.
        remembered: consumed messages per partition that are recognised when they come
            again in this process; 0 for none.
    """

    most_deliveries: int = count(6)
    backoff: Backoff = Backoff(0.5, 5)
    listener_timeout_s: float | None = field(default=None, validator=positive_or_none)
    slice_s: float = seconds(0.005)
    remembered: int = field(default=4096, validator=not_negative)


@frozen
class CommitSettings:
    """When offsets are stored (spec client 15.1).

    Attributes:
        auto: by time and count; False leaves it to `commit()`.
        period_s: between commits (`commitOffsetPeriodInMills`).
        every: also after that many messages; None for time alone.
    """

    auto: bool = True
    period_s: float = seconds(5)
    every: int | None = field(default=None, validator=positive_or_none)


@frozen
class RecoverySettings:
    """When messages of the recover store are delivered again (spec client 13).

    Attributes:
        first_s: after the start.
        period_s: from the end of one pass to the next
            (`recoverMessageIntervalInMills`).
        expiry_s: messages that have been stored for longer are deleted; None keeps
            them for ever.
        listener_timeout_s: as in DeliverySettings.
        stop_timeout_s: how long a stop waits for a running listener.
    """

    first_s: float = seconds(5)
    period_s: float = seconds(300)
    expiry_s: float | None = field(default=None, validator=positive_or_none)
    listener_timeout_s: float | None = field(default=None, validator=positive_or_none)
    stop_timeout_s: float = seconds(10)


@frozen
class ConsumerSettings:
    """A consumer of a group.

    Attributes:
        group: its name (spec layout 3.5).
        consumer_id: what makes it unique in its group; generated when None.
        start: see `Start`, or an exact offset in bytes.
        out_of_range: what to do when a position is no longer, or not, kept.
        stop_timeout_s: how long a partition that is given up waits for its listener.
    """

    group: str
    consumer_id: str | None = None
    strategy: Strategy = Strategy.DEFAULT
    start: Start | int = Start.EARLIEST
    out_of_range: Start = Start.NEAREST
    stop_timeout_s: float = seconds(10)
    fetch: FetchSettings = FetchSettings()
    delivery: DeliverySettings = DeliverySettings()
    recovery: RecoverySettings = RecoverySettings()
    commit: CommitSettings = CommitSettings()

    def __attrs_post_init__(self) -> None:
        problem = group_problem(self.group)
        if problem is not None:
            raise ValueError(f"the group {self.group!r} {problem}")
        if self.consumer_id is not None:
            checked_consumer_id(self.group, self.consumer_id)
        if self.start is Start.NEAREST:
            raise ValueError("start cannot be NEAREST: there is nothing to be near to")
        if isinstance(self.start, int) and not 0 <= self.start < 2**63:
            raise ValueError(f"start {self.start} is no offset")


@frozen
class ClientSettings:
    """What all of a client shares.

    Attributes:
        root: of the znodes (spec layout 1.2).
        session_timeout_s: asked of ZooKeeper.
        credentials: scheme (`digest`) and `user:password` for ZooKeeper.
        connection: to brokers.
        recover_directory: where messages are kept that a listener has failed on too
            often, if the consumer has no other policy.
        tls: for brokers behind TLS at `meta://` addresses: options by host, as
            `tls_options()` makes them; None for plain TCP.
        endpoint_for: gives the endpoint of a broker's address instead of the usual;
            for tests and tunnels.
    """

    root: str = "/meta"
    session_timeout_s: float = seconds(30)
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    connection: ConnectionSettings = ConnectionSettings()
    recover_directory: Path = field(
        factory=lambda: Path.home() / ".metatwist" / "recover", converter=Path
    )
    tls: Any = None
    endpoint_for: Callable[[str], Any] | None = None
