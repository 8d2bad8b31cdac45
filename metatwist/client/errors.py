"""What can go wrong for a user of the client: one tree, to be branched on by type.

Every member says where it happened (`where`), whether the same call may succeed later
(`retriable`), and whether the broker may have carried it out (`outcome_unknown`): the
question that decides between sending again and risking a duplicate.
"""

from __future__ import annotations

from attrs import evolve, frozen

from metatwist.coordination.names import PartitionName
from metatwist.errors import MetatwistError


@frozen
class Where:
    """What a failure is about, as far as it is known: `broker` as `meta://host:port`,
    `offset` in bytes from the start of the partition's log."""

    broker: str | None = None
    topic: str | None = None
    partition: PartitionName | None = None
    offset: int | None = None

    def __str__(self) -> str:
        named = self.partition is not None and self.partition.partition >= 0
        parts = {
            "broker": self.broker,
            "topic": self.topic,
            # -1 leaves the choice to the broker
            "partition": self.partition if named else None,
            "offset": self.offset,
        }
        known = [f"{name} {part}" for name, part in parts.items() if part is not None]
        return ", ".join(known)


NOWHERE = Where()


class ClientError(MetatwistError):
    """Base of all that the client raises or fails a Deferred with.

    Attributes:
        retriable: the same call may succeed later.
        outcome_unknown: it may have been carried out all the same; sending again may
            make a duplicate.
        where: a `Where`; `broker`, `topic`, `partition`, `offset` read it.
    """

    retriable = False
    outcome_unknown = False

    def __init__(self, text: str, where: Where = NOWHERE) -> None:
        super().__init__(text)
        self.text = text
        self.where = where

    def __str__(self) -> str:
        where = str(self.where)
        return f"{self.text} ({where})" if where else self.text

    @property
    def broker(self) -> str | None:
        """The broker's URL."""
        return self.where.broker

    @property
    def topic(self) -> str | None:
        """The topic's name."""
        return self.where.topic

    @property
    def partition(self) -> PartitionName | None:
        """The partition."""
        return self.where.partition

    @property
    def offset(self) -> int | None:
        """The offset, in bytes."""
        return self.where.offset

    def at(
        self,
        topic: str | None = None,
        partition: PartitionName | None = None,
        offset: int | None = None,
    ) -> ClientError:
        """Itself, with what was not known where it was raised filled in."""
        known = self.where
        self.where = evolve(
            known,
            topic=known.topic or topic,
            partition=known.partition or partition,
            offset=offset if known.offset is None else known.offset,
        )
        return self


# -- the connection -----------------------------------------------------------------


@frozen
class Attempt:
    """One address that was tried, and why it did not do."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"


class NotConnected(ClientError):
    """There is no connection, so that nothing was sent; `attempts` says what was tried,
    the last try of each address."""

    retriable = True

    def __init__(
        self, text: str, attempts: tuple[Attempt, ...] = (), where: Where = NOWHERE
    ) -> None:
        tried = "; ".join(map(str, attempts))
        super().__init__(f"{text}: {tried}" if tried else text, where)
        self.attempts = attempts


class ConnectionLost(ClientError):
    """The connection broke before the answer came."""

    retriable = True
    outcome_unknown = True


class RequestTimedOut(ClientError):
    """No answer in time; a late one is dropped."""

    retriable = True
    outcome_unknown = True


class UnexpectedReply(ClientError):
    """The broker's answer is none to the request; the text quotes it."""

    outcome_unknown = True


class WrongState(ClientError):
    """The call does not fit the state of the thing: started twice, subscribed late."""


class ClientStopped(ClientError):
    """The client, producer or consumer was stopped before or during the call."""


# -- answers of the broker ----------------------------------------------------------


class RequestRefused(ClientError):
    """The broker answered with a failure: it did not do it. `code` is its status
    (spec wire-protocol 1.9), `text` its words."""

    code = 500

    @classmethod
    def of(cls, code: int, text: str, where: Where = NOWHERE) -> RequestRefused:
        """The member of the tree for a status."""
        kind = _BY_CODE.get(code, RequestRefused)
        error = kind(text or f"status {code}", where)
        error.code = code
        return error


class BadRequest(RequestRefused):
    """Malformed in the broker's eyes (400)."""

    code = 400


class Forbidden(RequestRefused):
    """The partition is closed by an operator (403)."""

    code = 403
    retriable = True


class NothingThere(RequestRefused):
    """No such partition, or nothing at that offset yet (404)."""

    code = 404
    retriable = True


class ServerFailed(RequestRefused):
    """The broker could not do it (500): unknown topic, disk, bad checksum."""

    code = 500


class ServerUnavailable(RequestRefused):
    """The broker cannot do it now (503)."""

    code = 503
    retriable = True


class ServerTimedOut(RequestRefused):
    """The broker gave up waiting (504); it may be done all the same."""

    code = 504
    retriable = True
    outcome_unknown = True


_BY_CODE: dict[int, type[RequestRefused]] = {
    kind.code: kind
    for kind in (
        BadRequest,
        Forbidden,
        NothingThere,
        ServerFailed,
        ServerUnavailable,
        ServerTimedOut,
    )
}


# -- producing ----------------------------------------------------------------------


class InvalidMessage(ClientError):
    """The message cannot be sent as it is: topic, body, attribute or size."""


class NoPartition(ClientError):
    """No partition of the topic can be written to: none is registered, or the selector
    found none; `attempts` are the last failures of brokers that were left out."""

    retriable = True

    def __init__(
        self, text: str, where: Where = NOWHERE, attempts: tuple[Attempt, ...] = ()
    ) -> None:
        tried = "; ".join(map(str, attempts))
        super().__init__(f"{text}: {tried}" if tried else text, where)
        self.attempts = attempts


class SelectorFailed(ClientError):
    """The partition selector raised, or answered what is no partition of the topic."""


class BufferFull(ClientError):
    """`try_send` would pass the producer's memory bound; nothing was taken."""

    retriable = True


class LocalStoreFailed(ClientError):
    """A local store (parked, recover, offsets) cannot be used; the text has the path
    and the reason."""


# -- consuming ----------------------------------------------------------------------


class GroupError(ClientError):
    """Something is wrong with the consumer's place in its group."""


class DuplicateConsumer(GroupError):
    """A living consumer of the group has the same id."""


class NotOwner(GroupError):
    """The partition belongs to this consumer no more: the commit was not made."""


class OffsetOutOfRange(ClientError):
    """Start or position is outside of what is kept, and the policy is to stop.

    `earliest` and `latest` are the kept range in bytes, None where not known.
    """

    def __init__(
        self,
        text: str,
        where: Where = NOWHERE,
        earliest: int | None = None,
        latest: int | None = None,
    ) -> None:
        super().__init__(text, where)
        self.earliest = earliest
        self.latest = latest


class CorruptRecord(ClientError):
    """What the broker sent at `offset` is no intact message."""


class MessageTooLarge(ClientError):
    """The message at `offset` is larger than the client, or the broker in one answer,
    lets through; `size_bytes` is what it takes, with its header."""

    def __init__(self, text: str, where: Where = NOWHERE, size_bytes: int = 0) -> None:
        super().__init__(text, where)
        self.size_bytes = size_bytes


class ListenerFailed(ClientError):
    """The listener failed on a message; `__cause__` is what it raised."""


class ListenerTimedOut(ListenerFailed):
    """The listener's Deferred did not fire in time."""


class AckRefused(ClientError):
    """Both `ack` and `rollback` were asked for one delivery of a message."""


class OffsetStorageFailed(ClientError):
    """An offset could not be loaded or committed; `__cause__` says why."""

    retriable = True
