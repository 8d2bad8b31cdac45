"""All messages of a topic, partition by partition (spec client 18; W30)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from metatwist.client.errors import (
    ClientError,
    ClientStopped,
    Forbidden,
    UnexpectedReply,
    Where,
)
from metatwist.client.events import OffsetJumped
from metatwist.client.interfaces import IBrokers, IDiscovery
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.reading.cursor import Again, Cursor, PassedOver
from metatwist.client.reading.fetching import Found, Moved, Nothing, fetch_once
from metatwist.client.reading.source import PartitionSource
from metatwist.client.reading.starting import KeptRange, range_of
from metatwist.client.settings import FetchSettings
from metatwist.coordination.names import PartitionName

BROWSER_GROUP = "Just_for_Browser"
_MOST_PAUSES = 5
_T = TypeVar("_T")


def _ignore(_jump: OffsetJumped) -> None:
    pass


@frozen
class BrowserContext:
    """What a browser works with.

    Attributes:
        clock: the reactor, or a `Clock`.
        tell: gets each jump over what is deleted or damaged; what it raises, the call
            raises that found the jump, and the next one goes on behind it.
    """

    clock: Any
    brokers: IBrokers
    discovery: IDiscovery
    settings: FetchSettings = field(factory=FetchSettings)
    tell: Callable[[OffsetJumped], object] = _ignore


@frozen
class BrowseLimits:
    """Which part of a topic.

    Attributes:
        partitions: these alone; None for all that consumers may read.
        from_offsets: where to begin, in bytes; else at the first kept message.
        to_offsets: where to end: no message that begins there or behind; else, and at
            the latest, at the end as it was when browsing began.
    """

    partitions: tuple[PartitionName, ...] | None = None
    from_offsets: Mapping[PartitionName, int] = field(factory=dict)
    to_offsets: Mapping[PartitionName, int] = field(factory=dict)


@define
class _Part:
    """What is left of one partition; `pauses` in a row without progress."""

    cursor: Cursor
    end: int
    pauses: int = 0


class TopicBrowser:
    """An async iterator over the messages of a topic, partitions in ascending order.

    It ends where the partitions ended when it began. An error (a ClientError) leaves it
    where it was: the next call tries again. Cancelling a call does the same. It closes
    itself at its end; `async with` closes it in any case. One call at a time.
    """

    def __init__(
        self,
        topic: str,
        context: BrowserContext,
        limits: BrowseLimits | None = None,
    ) -> None:
        self.topic = topic
        self._context = context
        self._limits = BrowseLimits() if limits is None else limits
        self._sources: dict[int, PartitionSource] = {}
        self._parts: deque[_Part] = deque()
        self._partitions: tuple[PartitionName, ...] | None = None
        self._ready: deque[ReceivedMessage] = deque()
        self._awaited: Deferred[Any] | None = None
        self._closed = False

    @property
    def partitions(self) -> tuple[PartitionName, ...]:
        """What is browsed, ascending; empty before `open`."""
        return self._partitions or ()

    async def open(self) -> None:
        """Find the partitions and note their ends; reading does it too. Idempotent."""
        if self._partitions is not None:
            return
        names = self._limits.partitions
        if names is None:
            names = await self._for(self._context.discovery.partitions(self.topic))
        parts = [await self._part(name) for name in sorted(names)]
        self._parts.extend(parts)
        self._partitions = tuple(sorted(names))

    async def more(self) -> list[ReceivedMessage]:
        """The messages of the next fetch that finds some, of one partition; empty at
        the end. Not to be mixed with iterating."""
        if self._closed:
            return []
        await self.open()
        while self._parts:
            part = self._parts[0]
            if part.cursor.position >= part.end:
                self._parts.popleft()
                continue
            messages = await self._fetch(part)
            if messages:
                return messages
        self.close()
        return []

    def close(self) -> None:
        """Let go of all connections; a call under way fails with ClientStopped, later
        ones find the end. Idempotent."""
        self._closed = True
        self._ready.clear()
        for source in self._sources.values():
            source.close()
        if self._awaited is not None:
            self._awaited.cancel()

    def __aiter__(self) -> TopicBrowser:
        return self

    async def __anext__(self) -> ReceivedMessage:
        if not self._ready:
            self._ready.extend(await self.more())
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.popleft()

    async def __aenter__(self) -> TopicBrowser:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self.close()

    # -- inside -------------------------------------------------------------------

    async def _for(self, awaited: Deferred[_T]) -> _T:
        """Wait for what `close` cancels."""
        self._awaited = awaited
        try:
            return await awaited
        finally:
            self._awaited = None
            if self._closed:
                raise ClientStopped("the browser was closed", Where(topic=self.topic))

    def _source(self, name: PartitionName) -> PartitionSource:
        source = self._sources.get(name.broker_id)
        if source is None:
            its = self._context
            source = PartitionSource(name.broker_id, its.brokers, its.discovery)
            self._sources[name.broker_id] = source
        return source

    async def _part(self, name: PartitionName) -> _Part:
        partition = TopicPartition(self.topic, name)
        kept = await self._range(partition)
        begin = self._limits.from_offsets.get(name, kept.earliest)
        end = min(self._limits.to_offsets.get(name, kept.latest), kept.latest)
        return _Part(Cursor(partition, begin, self._context.settings), end)

    async def _range(self, partition: TopicPartition) -> KeptRange:
        timeout_s = self._context.settings.timeout_s
        source = self._source(partition.partition)
        try:
            link = await self._for(source.link(timeout_s))
            return await self._for(range_of(link, partition, timeout_s))
        except ClientError as error:
            source.failed()
            error.at(*partition)
            raise

    async def _fetch(self, part: _Part) -> list[ReceivedMessage]:
        """One fetch; its messages before the end."""
        cursor = part.cursor
        source = self._source(cursor.partition.partition)
        try:
            link = await self._for(source.link(self._context.settings.timeout_s))
            answer = await self._for(fetch_once(link, cursor.fetch(BROWSER_GROUP)))
        except ClientError as error:
            source.failed()
            error.at(*cursor.partition, cursor.position)
            raise
        source.worked()
        if isinstance(answer, Found):
            return await self._found(part, answer)
        if isinstance(answer, Moved):
            self._moved(part, answer.offset)
        else:
            self._nothing(part, answer)
        return []

    async def _found(self, part: _Part, found: Found) -> list[ReceivedMessage]:
        step = part.cursor.found(found)
        if isinstance(step, Again):
            await self._pause(part, step)
            return []
        part.pauses = 0
        if isinstance(step, PassedOver):
            self._tell_jump(part, step.from_offset, "corrupt")
            return []
        if step[-1].offset < part.end:
            return step
        return [message for message in step if message.offset < part.end]

    async def _pause(self, part: _Part, again: Again) -> None:
        if not again.pause:
            return
        part.pauses += 1
        if part.pauses > _MOST_PAUSES:
            part.pauses = 0
            raise self._unreadable(part, "the log ends within a message")
        pause_s = self._context.settings.idle.pause_s(part.pauses)
        await self._for(deferLater(self._context.clock, pause_s))

    def _moved(self, part: _Part, offset: int) -> None:
        cursor, before = part.cursor, part.cursor.position
        if offset == before:  # a filter, and not one whole message fits
            if not cursor.grow():
                raise self._unreadable(part, "the broker goes in circles")
            return
        cursor.move(offset if offset > before else part.end)
        self._tell_jump(part, before, "moved" if offset > before else "beyond the end")

    def _nothing(self, part: _Part, nothing: Nothing) -> None:
        """Closed is an error; nothing there means that the log has become shorter."""
        if isinstance(nothing.refusal, Forbidden):
            raise nothing.refusal
        before = part.cursor.position
        part.cursor.move(part.end)
        self._tell_jump(part, before, "beyond the end")

    def _tell_jump(self, part: _Part, from_offset: int, reason: str) -> None:
        cursor = part.cursor
        jump = OffsetJumped(cursor.partition, from_offset, cursor.position, reason)
        self._context.tell(jump)

    def _unreadable(self, part: _Part, text: str) -> UnexpectedReply:
        where = Where(None, *part.cursor.partition, part.cursor.position)
        return UnexpectedReply(text, where)
