"""What takes the messages of one partition, and what all takers of a consumer share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import Interface

from metatwist.client.delivery.duplicates import Duplicates
from metatwist.client.delivery.rejection import IRejection
from metatwist.client.events import Event
from metatwist.client.message import ReceivedMessage
from metatwist.client.settings import DeliverySettings

Filter = Callable[[ReceivedMessage], object]
"""Whether a message is wanted, as something true or false."""


class ISink(Interface):
    """Takes the messages of one feed and advances the progress of its partition."""

    def start() -> None:
        """Begin; once."""

    def stop(within_s: float) -> Deferred[None]:
        """Hand over no new message; fires when what the user was handed has ended, and
        the progress is final, after `within_s` seconds at the latest. What has not
        ended by then is cancelled and does not count as done (spec client 22, 3).

        Idempotent; the earliest limit counts. Never fails. Cancelling stops the wait
        alone.
        """

    def abandon() -> None:
        """The claim is gone: end at once, and never touch the progress again."""

    def hold(reason: str) -> None:
        """Hand over nothing while any reason holds (`paused`, ...). Idempotent."""

    def unhold(reason: str) -> None:
        """The opposite."""

    def seek(offset: int) -> None:
        """Go on at that offset in bytes, as the user wishes: what was fetched is
        dropped, progress moves there, and what was consumed comes again."""


def _nobody(_event: Event) -> None:
    pass


@frozen
class DeliveryContext:
    """What all sinks of a consumer share.

    Attributes:
        clock: of the reactor.
        group: the name of the consumer group.
        rejection: takes messages that failed too often.
        duplicates: the consumer's memory of what was consumed.
        settings: times and counts.
        accepts: the filter; None lets all pass.
        emit: is told of each event; never raises.
        consumer: what rejection policies are given as the consumer.
        manual_ack: listeners are called with `Acks` and decide what is done.
    """

    clock: IReactorTime
    group: str
    rejection: IRejection
    duplicates: Duplicates
    settings: DeliverySettings = field(factory=DeliverySettings)
    accepts: Filter | None = None
    emit: Callable[[Event], object] = _nobody
    consumer: Any = None
    manual_ack: bool = False
