"""What must be so whatever fails: what was sent, stored, processed and committed."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.python.failure import Failure

from metatwist.client import ClientError, ReceivedMessage, SendResult
from metatwist.testing import FakeBroker

Place = tuple[str, int, int, int]
"""Topic, broker, partition, offset."""


@define
class Sent:
    """A message of a producer; `outcomes` is what its Deferred has fired with."""

    body: bytes
    topic: str
    may_duplicate: bool
    outcomes: list[Any] = field(factory=list)

    @property
    def is_acknowledged(self) -> bool:
        """Whether the producer was told that it is stored."""
        return bool(self.outcomes) and isinstance(self.outcomes[0], SendResult)

    def problem(self, places: list[Place]) -> str | None:
        """What is wrong with the outcome, given where the message is stored."""
        if len(self.outcomes) != 1:
            return f"{self.body!r} fired {len(self.outcomes)} times"
        outcome = self.outcomes[0]
        most = len(places) if self.may_duplicate else 1
        if isinstance(outcome, SendResult):
            name = outcome.partition
            place = (self.topic, name.broker_id, name.partition, outcome.offset)
            if place not in places or len(places) > most:
                return f"{self.body!r} was told to be at {place}, is at {places}"
            return None
        error = outcome.value if isinstance(outcome, Failure) else outcome
        if not isinstance(error, ClientError):
            return f"{self.body!r} failed with {error!r}"
        if len(places) > (most if error.outcome_unknown else 0):
            return f"{self.body!r} failed with {error!r}, is at {places}"
        return None


@define
class Ledger:
    """Of one group of consumers, and the producers beside it."""

    brokers: list[FakeBroker]
    sent: dict[bytes, Sent] = field(factory=dict)
    processed: set[Place] = field(factory=set)
    rejected: set[Place] = field(factory=set)
    deliveries: int = 0

    def stored(self) -> dict[bytes, list[Place]]:
        """Where each body is."""
        found: dict[bytes, list[Place]] = {}
        for broker in self.brokers:
            for topic in broker.topics:
                for one in broker.messages(topic):
                    place = (topic, broker.broker_id, one.partition, one.offset)
                    found.setdefault(one.body, []).append(place)
        return found

    def done(self, message: ReceivedMessage) -> None:
        """A listener has processed a message."""
        self.deliveries += 1
        self.processed.add(place_of(message))

    def reject(self, message: ReceivedMessage, *_why: object) -> None:
        """The rejection policy has been given a message."""
        self.rejected.add(place_of(message))

    def missing(self) -> list[Place]:
        """What is stored, and neither processed nor rejected."""
        settled = self.processed | self.rejected
        return [
            place
            for places in self.stored().values()
            for place in places
            if place not in settled
        ]

    def unanswered(self) -> list[bytes]:
        """Messages whose senders have heard nothing."""
        return [one.body for one in self.sent.values() if not one.outcomes]

    def problems(self) -> list[str]:
        """What is wrong with the outcomes of all that was sent."""
        stored = self.stored()
        found = (one.problem(stored.get(body, [])) for body, one in self.sent.items())
        return [one for one in found if one is not None]

    def is_settled_before(
        self, topic: str, broker_id: int, partition: int, offset: int
    ) -> bool:
        """Whether all of a partition before an offset has been processed or rejected:
        whether that may be committed."""
        broker = next(one for one in self.brokers if one.broker_id == broker_id)
        settled = self.processed | self.rejected
        return all(
            (topic, broker_id, partition, one.offset) in settled
            for one in broker.messages(topic, partition)
            if one.offset < offset
        )


def place_of(message: ReceivedMessage) -> Place:
    """Where a message is stored."""
    name = message.partition
    return message.topic, name.broker_id, name.partition, message.offset
