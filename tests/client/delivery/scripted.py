"""A feed over a list of messages, and a partition with all that a sink needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from metatwist.client.delivery.duplicates import Duplicates
from metatwist.client.delivery.interface import DeliveryContext
from metatwist.client.delivery.manual import delivery_for
from metatwist.client.delivery.rejection import Drop, as_rejection
from metatwist.client.errors import ClientStopped
from metatwist.client.interfaces import Batch, IFeed
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.progress import Progress
from metatwist.client.settings import DeliverySettings
from metatwist.coordination.formats import OffsetRecord
from metatwist.coordination.names import PartitionName

SIZE = 100
AT = TopicPartition("orders", PartitionName(0, 3))


def message(number: int, at: TopicPartition = AT) -> ReceivedMessage:
    """The message `number` of a partition, of 100 bytes, with its number as body."""
    start, end = number * SIZE, (number + 1) * SIZE
    return ReceivedMessage(*at, start, end, 1000 + number, 0, b"%d" % number)


def number_of(one: ReceivedMessage) -> int:
    """The opposite."""
    return int(one.payload)


@implementer(IFeed)
class ScriptedFeed:
    """Has messages 0 .. `count` - 1, in batches of `batch_size`; more may be added."""

    def __init__(
        self, count: int, batch_size: int = 4, at: TopicPartition = AT
    ) -> None:
        self.partition = at
        self.count = count
        self.batch_size = batch_size
        self.next_number = 0
        self.seeks: list[int] = []
        self.holds: set[str] = set()
        self.in_use: list[Batch] = []
        self.stopped = False
        self.waiter: Deferred[Batch] | None = None
        self.is_ours: Callable[[], bool] = lambda: True

    @property
    def position(self) -> int:
        return self.next_number * SIZE

    def next(self) -> Deferred[Batch]:
        assert self.waiter is None, "one next() at a time"
        if self._can():
            return succeed(self._batch())
        self.waiter = Deferred(self._cancelled)
        if self.stopped:
            self.stop()
        return self.waiter or succeed(None)

    def _can(self) -> bool:
        return self.next_number < self.count and not self.holds and not self.stopped

    def _cancelled(self, _: object) -> None:
        self.waiter = None

    def _batch(self) -> Batch:
        numbers = range(
            self.next_number, min(self.count, self.next_number + self.batch_size)
        )
        messages = [message(number, self.partition) for number in numbers]
        self.next_number = numbers.stop
        end = numbers.stop * SIZE
        batch = Batch(self.partition, messages, end, len(messages) * SIZE)
        self.in_use.append(batch)
        return batch

    def _offer(self) -> None:
        if self.waiter is not None and self._can():
            waiter, self.waiter = self.waiter, None
            waiter.callback(self._batch())

    def add(self, count: int) -> None:
        """So many more messages."""
        self.count += count
        self._offer()

    def done(self, batch: Batch) -> None:
        self.in_use.remove(batch)

    def seek(self, offset: int) -> None:
        self.seeks.append(offset)
        self.next_number = offset // SIZE
        self._offer()

    def hold(self, reason: str) -> None:
        self.holds.add(reason)

    def unhold(self, reason: str) -> None:
        self.holds.discard(reason)
        self._offer()

    def stop(self) -> None:
        self.stopped = True
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.errback(ClientStopped("stopped"))


class Bench:
    """A clock, a feed and a progress at 0; `events` are those that were told."""

    def __init__(
        self, count: int = 0, batch_size: int = 4, at: TopicPartition = AT
    ) -> None:
        self.clock = Clock()
        self.feed = ScriptedFeed(count, batch_size, at)
        self.progress = Progress(OffsetRecord(0))
        self.duplicates = Duplicates(100)
        self.events: list[Any] = []
        self.delivery: Any = None

    def context(
        self,
        rejection: object = None,
        accepts: Callable[[ReceivedMessage], object] | None = None,
        manual_ack: bool = False,
        **settings: Any,
    ) -> DeliveryContext:
        """With the default settings but for `settings`."""
        return DeliveryContext(
            clock=self.clock,
            group="billing",
            rejection=as_rejection(Drop() if rejection is None else rejection),
            duplicates=self.duplicates,
            settings=DeliverySettings(**settings),
            accepts=accepts,
            emit=self.events.append,
            consumer=self,
            manual_ack=manual_ack,
        )

    def deliver(self, listener: Callable[..., object], **options: Any) -> Any:
        """A started delivery."""
        context = self.context(**options)
        self.delivery = delivery_for(self.feed, self.progress, listener, context)
        self.delivery.start()
        return self.delivery

    def restart(self, listener: Callable[..., object], **options: Any) -> Any:
        """As another process would go on: from the progress, with no memory."""
        record = self.progress.record
        assert record is not None
        old = self.feed
        self.feed = ScriptedFeed(old.count, old.batch_size, old.partition)
        self.feed.next_number = record.offset // SIZE
        self.progress = Progress(record)
        self.duplicates = Duplicates(100)
        return self.deliver(listener, **options)

    @property
    def done(self) -> int:
        """How many messages the progress is past."""
        record = self.progress.record
        assert record is not None
        return record.offset // SIZE

    def told(self, kind: type) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]
