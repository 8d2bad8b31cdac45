"""Who is told when a message has ended: a Deferred, a callable, a batch."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from metatwist.client.errors import ClientError
from metatwist.client.message import SendResult
from metatwist.client.producing.lanes import Lane, TopicLanes
from metatwist.client.producing.outbox import Outbox
from metatwist.client.producing.send import Outcome, Parcel, Send
from metatwist.coordination.names import PartitionName


class DeferredSend(Send):
    """Fires a Deferred, whose cancelling withdraws the message."""

    __slots__ = ("deferred",)

    def __init__(self, outbox: Outbox, parcel: Parcel) -> None:
        super().__init__(outbox, parcel)
        self.deferred: Deferred[SendResult] | None = Deferred(self._cancel)

    @property
    def wanted(self) -> bool:
        """See `Send`."""
        return self.deferred is not None

    def tell(self, outcome: Outcome) -> None:
        """See `Send`."""
        deferred, self.deferred = self.deferred, None
        if deferred is None:
            return
        if isinstance(outcome, ClientError):
            deferred.errback(outcome)
        else:
            deferred.callback(outcome)

    def _cancel(self, _deferred: Deferred[SendResult]) -> None:
        self.deferred = None
        self.withdraw()


class CalledSend(Send):
    """Calls back; with a partition, only that one will do."""

    __slots__ = ("_call", "_partition")

    def __init__(
        self,
        outbox: Outbox,
        parcel: Parcel,
        call: Callable[[Outcome], object],
        partition: PartitionName | None = None,
    ) -> None:
        super().__init__(outbox, parcel)
        self._call = call
        self._partition = partition

    def tell(self, outcome: Outcome) -> None:
        """See `Send`."""
        self._call(outcome)

    def pick(self) -> Lane | None:
        """See `Send`."""
        if self._partition is None:
            return super().pick()
        return self.parcel.lanes.lane(self._partition)

    @property
    def _is_bound(self) -> bool:
        return self._partition is not None or super()._is_bound


class Changed:
    """Waits for a topic to change."""

    def __init__(self, lanes: TopicLanes) -> None:
        self.deferred: Deferred[None] = Deferred(lambda _: lanes.forget(self))
        lanes.wait(self)

    def go_on(self) -> None:
        """See `Waiter`."""
        self.deferred.callback(None)


class Batch:
    """Many messages, one Deferred: outcomes in the order of the messages."""

    __slots__ = ("_open", "deferred", "outcomes", "sends")

    def __init__(self, size: int) -> None:
        self.outcomes: list[Outcome | None] = [None] * size
        self.sends: list[BatchSend] = []
        self._open = size
        self.deferred: Deferred[list[Outcome]] | None = Deferred(self._cancel)

    def set(self, index: int, outcome: Outcome) -> None:
        """One has ended."""
        self.outcomes[index] = outcome
        self._open -= 1
        if not self._open:
            self.close()

    def close(self) -> None:
        """All have ended."""
        deferred, self.deferred = self.deferred, None
        if deferred is not None:
            self.sends.clear()
            done = [one for one in self.outcomes if one is not None]
            deferred.callback(done)

    def _cancel(self, _deferred: Deferred[list[Outcome]]) -> None:
        self.deferred = None
        # What waits for room goes first, lest it be sent into what gets free.
        for send in reversed(self.sends):
            send.withdraw()
        self.sends.clear()


class BatchSend(Send):
    """One of a batch."""

    __slots__ = ("_batch", "_index")

    def __init__(
        self, outbox: Outbox, parcel: Parcel, batch: Batch, index: int
    ) -> None:
        super().__init__(outbox, parcel)
        self._batch = batch
        self._index = index

    @property
    def wanted(self) -> bool:
        """See `Send`."""
        return self._batch.deferred is not None

    def tell(self, outcome: Outcome) -> None:
        """See `Send`."""
        self._batch.set(self._index, outcome)
