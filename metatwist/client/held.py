"""One partition that a consumer holds, from its claim to its end.

* beginning: the stored offset is loaded, tried again for as long as it takes
* reading: a feed fetches, a sink hands over
* over: given up or lost
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.commits import Commits
from metatwist.client.delivery.interface import ISink
from metatwist.client.errors import ClientError
from metatwist.client.events import Event, FetchFailed
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import Claim, IOffsetStorage
from metatwist.client.progress import Progress
from metatwist.client.reading.feed import PartitionFeed
from metatwist.client.settings import Backoff
from metatwist.coordination.formats import OffsetRecord


class HeldState(Enum):
    """See the module."""

    BEGINNING = "beginning"
    READING = "reading"
    OVER = "over"


@frozen
class HeldContext:
    """What all partitions of a consumer share.

    Attributes:
        clock: the reactor.
        storage: where offsets are loaded from.
        commits: tracks a partition while it is read.
        open_feed: begins to fetch a partition at an offset, at the start that the user
            has set for None.
        open_sink: takes what the feed has.
        emit: is told of each event.
        backoff: between tries to begin.
    """

    clock: Any
    storage: IOffsetStorage
    commits: Commits
    open_feed: Callable[[TopicPartition, int | None], PartitionFeed]
    open_sink: Callable[[PartitionFeed, Progress], ISink]
    emit: Callable[[Event], object]
    backoff: Backoff


class HeldPartition:
    """See the module. `remembered` is what an earlier claim of this consumer had done,
    beside what was stored then: it counts if nobody has stored anything since (spec
    client W6)."""

    _log = Logger()

    def __init__(
        self,
        partition: TopicPartition,
        claim: Claim,
        context: HeldContext,
        remembered: tuple[OffsetRecord, OffsetRecord | None] | None = None,
    ) -> None:
        self.partition = partition
        self.claim = claim
        self.state = HeldState.BEGINNING
        self.progress = Progress()
        self._context = context
        self._remembered = remembered
        self._holds: set[str] = set()
        self._feed: PartitionFeed | None = None
        self._sink: ISink | None = None
        self._beginning: Deferred[None] = succeed(None)

    # -- begin -----------------------------------------------------------------------

    def begin(self) -> None:
        """Load the offset and read on from there."""
        self._beginning = Deferred.fromCoroutine(self._begin())
        self._beginning.addErrback(self._not_begun)

    def _not_begun(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self._log.failure("cannot begin {at}", failure, at=self.partition)

    async def _begin(self) -> None:
        stored = await self._load()
        resumed = self._resumed(stored)
        self.progress.record = resumed
        self._track(stored)
        self._read(None if resumed is None else resumed.offset)

    async def _load(self) -> OffsetRecord | None:
        """What is stored, asked for until there is an answer: to begin elsewhere would
        lose or repeat messages."""
        failures = 0
        while True:
            try:
                return await self._context.storage.load(self.partition, self.claim)
            except ClientError as error:
                failures += 1
                self._context.emit(FetchFailed(self.partition, error, failures))
                pause_s = self._context.backoff.pause_s(failures)
                await deferLater(self._context.clock, pause_s)

    def _resumed(self, stored: OffsetRecord | None) -> OffsetRecord | None:
        if self._remembered is None:
            return stored
        done, stored_then = self._remembered
        unchanged = (stored and stored.offset) == (stored_then and stored_then.offset)
        return done if unchanged else stored

    def _track(self, stored: OffsetRecord | None) -> None:
        self._context.commits.track(self.partition, self.claim, self.progress, stored)

    def _read(self, offset: int | None) -> None:
        self.state = HeldState.READING
        feed = self._feed = self._context.open_feed(self.partition, offset)
        sink = self._sink = self._context.open_sink(feed, self.progress)
        feed.is_ours = self.claim.holds
        for reason in self._holds:
            feed.hold(reason)
            sink.hold(reason)
        feed.begin()
        sink.start()

    def started_at(self, offset: int) -> None:
        """There was no stored offset: the feed found this start, which is worth storing
        before the first message has come (spec client W17)."""
        if self.progress.record is None:
            self.progress.move(offset)

    # -- while it is held --------------------------------------------------------------

    def hold(self, reason: str) -> None:
        """Read nothing, hand over nothing."""
        self._holds.add(reason)
        if self._feed is not None and self._sink is not None:
            self._feed.hold(reason)
            self._sink.hold(reason)

    def unhold(self, reason: str) -> None:
        """The opposite."""
        self._holds.discard(reason)
        if self._feed is not None and self._sink is not None:
            self._feed.unhold(reason)
            self._sink.unhold(reason)

    def seek(self, offset: int) -> None:
        """Go on at an offset, in bytes."""
        if self.state is HeldState.OVER:
            return
        if self._sink is not None:
            self._sink.seek(offset)
            return
        self._beginning.cancel()
        self.progress.move(offset)
        self._track(None)
        self._read(offset)

    @property
    def offset(self) -> int | None:
        """All before it is done, in bytes; None while that is not known."""
        record = self.progress.record
        return None if record is None else record.offset

    # -- the end -----------------------------------------------------------------------

    def stop(self, within_s: float) -> Deferred[None]:
        """Hand over no more; fires when the listener has ended or the time is up.
        Cancelling stops the wait alone."""
        self._beginning.cancel()
        if self.state is not HeldState.READING or self._sink is None:
            self.state = HeldState.OVER
            return succeed(None)
        self.state = HeldState.OVER
        stopping = self._sink.stop(within_s)
        return stopping.addBoth(lambda _: self._close_feed())

    def abandon(self) -> None:
        """End at once, and leave progress as it is."""
        self._beginning.cancel()
        self.state = HeldState.OVER
        if self._sink is not None:
            self._sink.abandon()
        self._close_feed()

    def _close_feed(self) -> None:
        if self._feed is not None:
            self._feed.stop()
