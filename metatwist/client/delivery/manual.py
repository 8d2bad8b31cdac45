"""Delivery to a listener that acknowledges by itself (spec client 12.2)."""

from __future__ import annotations

from collections.abc import Callable

from metatwist.client.delivery.acks import AckLedger
from metatwist.client.delivery.delivery import Delivery
from metatwist.client.delivery.hand import Hand
from metatwist.client.delivery.interface import DeliveryContext
from metatwist.client.errors import ListenerFailed, Where
from metatwist.client.events import DeliveryFailed
from metatwist.client.interfaces import IFeed
from metatwist.client.message import ReceivedMessage
from metatwist.client.progress import Progress


class ManualDelivery(Delivery):
    """Calls `listener(message, acks)`; the progress is where the last ack has put it.

    A listener that fails makes its message come again, not those before it. A rejected
    message needs no ack, but those before it do.
    """

    def __init__(
        self,
        feed: IFeed,
        progress: Progress,
        listener: Callable[..., object],
        context: DeliveryContext,
    ) -> None:
        window = context.duplicates.window(feed.partition)
        ledger = AckLedger(progress, window, self._interrupt)
        self._ledger = ledger

        def call(message: ReceivedMessage) -> object:
            return listener(message, ledger.handed_over(message))

        super().__init__(feed, progress, call, context)

    def abandon(self) -> None:
        """See ISink."""
        self._ledger.close()
        super().abandon()

    def seek(self, offset: int) -> None:
        """See ISink."""
        if not self._stopping.wanted:
            self._ledger.start_over()
            self._ledger.rollbacks = 0
        super().seek(offset)

    # -- what is different ----------------------------------------------------------

    def _may_go_on(self, hand: Hand) -> bool:
        return self._ledger.asked_by is None and super()._may_go_on(hand)

    def _advance(self, hand: Hand, end: int) -> None:
        hand.advance(end)

    def _advance_past(self, hand: Hand) -> None:
        self._ledger.passed(hand.message)
        hand.advance(hand.index + 1)

    def _reach(self, offset: int) -> None:
        self._ledger.reach(offset)

    def _is_acknowledged(self, message: ReceivedMessage) -> bool:
        return self._ledger.covers(message)

    def _skip(self, message: ReceivedMessage) -> None:
        self._ledger.passed(message)

    def _ended(self, result: object) -> None:
        self._ledger.close()
        super()._ended(result)

    # -- rollback -------------------------------------------------------------------

    async def _wants_more(self) -> bool:
        while self._ledger.asked_by is not None and not self._stopping.wanted:
            await self._roll_back(self._ledger.asked_by)
        return not self._stopping.wanted

    async def _roll_back(self, asked_by: ReceivedMessage) -> None:
        """Count it, pause or reject, then fetch again from the last ack on."""
        ledger = self._ledger
        failures, first = ledger.rollbacks, ledger.first
        ledger.start_over()
        ledger.rollbacks = failures + 1
        hand = self._hand = Hand([first or asked_by], self._call, failures=failures)
        error = _rolled_back(asked_by)
        if first is None:
            # After an ack in between the first one is only known when it comes again:
            # nothing can be rejected yet.
            self._context.emit(DeliveryFailed(asked_by, error, failures + 1))
            await self._waits.pause(self._backoff.pause_s(failures + 1))
        else:
            await self._failed(hand, error)
        if self._may_go_on(hand):
            self._hand = None
            self._feed.seek(ledger.offset or 0)


def _rolled_back(message: ReceivedMessage) -> ListenerFailed:
    where = Where(None, message.topic, message.partition, message.offset)
    return ListenerFailed("the listener asked for a rollback", where)


def delivery_for(
    feed: IFeed,
    progress: Progress,
    listener: Callable[..., object],
    context: DeliveryContext,
) -> Delivery:
    """The delivery for a listener of either kind, as `context.manual_ack` says."""
    kind = ManualDelivery if context.manual_ack else Delivery
    return kind(feed, progress, listener, context)
