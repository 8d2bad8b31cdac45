"""Fetching one partition, answer by answer (spec client 11.2, 11.3, 15.4).

    no permission      wait until the feed wants more
    not connected      wait for the connection; a failure when it does not come in time
    data               hand it over, at once the next fetch
    nothing (404)      pause, growing from `idle`; a poll that waited has paused already
    closed (403)       as nothing, and told
    moved (301) on     go there, at once the next fetch
    moved (301) back   as nothing: it may only be that an fsync is late
    else               a failure: told, pause growing from `failure`, choose anew where
                       to read
    stopped            MessageTooLarge or OffsetOutOfRange: told, and the loop ends

All positions are offsets in bytes.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.errors import (
    ClientError,
    Forbidden,
    MessageTooLarge,
    OffsetOutOfRange,
)
from metatwist.client.events import FetchFailed, OffsetJumped, PartitionStopped
from metatwist.client.interfaces import IBrokerLink
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.reading.context import ReadingContext
from metatwist.client.reading.cursor import Cursor, PassedOver
from metatwist.client.reading.end_watch import EndWatch
from metatwist.client.reading.fetching import POLL, Found, Moved, Nothing, fetch_once
from metatwist.client.reading.source import PartitionSource
from metatwist.client.reading.starting import (
    KeptRange,
    back_in_range,
    range_of,
    resolve_start,
)

_STOPPING = (MessageTooLarge, OffsetOutOfRange)
_T = TypeVar("_T")


class IFetchUser(Protocol):
    """Who the messages are for."""

    def wants(self, size_bytes: int) -> bool:
        """Whether to fetch now; if not, it calls `FetchLoop.wake` when that changes."""

    def take(self, messages: list[ReceivedMessage], next_offset: int) -> None:
        """One fetch's messages."""


class FetchLoop:
    """Fetches from a position on until `end`; a seek is a new loop.

    `position` is None until the start policy has found one.
    """

    _log = Logger()

    def __init__(
        self,
        partition: TopicPartition,
        position: int | None,
        context: ReadingContext,
        source: PartitionSource,
        user: IFetchUser,
    ) -> None:
        self._partition = partition
        self._context = context
        self._settings = context.settings
        self._source = source
        self._user = user
        self._cursor: Cursor | None = None
        if position is not None:
            self._cursor = Cursor(partition, position, context.settings)
        self._ended = False
        self._awaited: Deferred[Any] | None = None
        self._permission: Deferred[None] | None = None
        self._failures = 0
        self._empty = 0
        self._asked_s = 0.0
        self._end_watch = EndWatch()

    @property
    def position(self) -> int | None:
        """Where the next fetch reads."""
        return None if self._cursor is None else self._cursor.position

    def begin(self) -> None:
        """Start fetching."""
        Deferred.fromCoroutine(self._run()).addErrback(self._broken)

    def wake(self) -> None:
        """The user may want more now."""
        permission, self._permission = self._permission, None
        if permission is not None:
            permission.callback(None)

    def end(self) -> None:
        """Fetch no more; a late answer is dropped. Idempotent."""
        self._ended = True
        if self._awaited is not None:
            self._awaited.cancel()

    # -- the loop -----------------------------------------------------------------

    async def _run(self) -> None:
        while not self._ended:
            try:
                pause_s = await self._once()
            except _STOPPING as error:
                self._context.tell(PartitionStopped(self._partition, error))
                return
            except ClientError as error:
                pause_s = self._failed(error)
            if pause_s > 0 and not self._ended:
                await self._for(deferLater(self._context.clock, pause_s))

    async def _once(self) -> float:
        """One fetch, or the search for a start; how long to pause after it."""
        while not self._user.wants(self._size_bytes):
            self._permission = Deferred()
            await self._for(self._permission)
        link = await self._for(self._source.link(self._settings.timeout_s))
        if self._cursor is None:
            await self._find_start(link)
            return 0.0
        cursor = self._cursor
        wait_s = self._settings.poll_wait_s if await self._can_poll(link) else 0.0
        self._asked_s = self._context.clock.seconds()
        fetch = cursor.fetch(self._context.group, wait_s)
        answer = await self._for(fetch_once(link, fetch))
        self._source.worked()
        if isinstance(answer, Found):
            return self._found(cursor, answer)
        if isinstance(answer, Moved):
            return await self._moved(cursor, link, answer.offset)
        return await self._nothing(cursor, link, answer)

    @property
    def _size_bytes(self) -> int:
        cursor = self._cursor
        return self._settings.size_bytes if cursor is None else cursor.size_bytes

    async def _for(self, awaited: Deferred[_T]) -> _T:
        """Wait for what `end` cancels; nothing goes on once that has happened."""
        self._awaited = awaited
        try:
            return await awaited
        finally:
            self._awaited = None
            if self._ended:
                raise CancelledError

    async def _find_start(self, link: IBrokerLink) -> None:
        context, timeout_s = self._context, self._settings.timeout_s
        found = resolve_start(link, self._partition, context.start, timeout_s)
        start = await self._for(found)
        self._cursor = Cursor(self._partition, start, self._settings)
        context.tell(OffsetJumped(self._partition, None, start, "start"))

    async def _can_poll(self, link: IBrokerLink) -> bool:
        try:
            return POLL in await self._for(link.extensions())
        except ClientError:
            return False

    # -- answers ------------------------------------------------------------------

    def _found(self, cursor: Cursor, found: Found) -> float:
        self._failures = 0
        step = cursor.found(found)
        if isinstance(step, list):
            self._empty = 0
            self._end_watch.in_range(self._context.clock.seconds())
            self._user.take(step, cursor.position)
            return 0.0
        if isinstance(step, PassedOver):
            self._tell_jump(step.from_offset, cursor.position, "corrupt")
            return 0.0
        return self._idle_pause() if step.pause else 0.0

    async def _moved(self, cursor: Cursor, link: IBrokerLink, offset: int) -> float:
        self._failures = 0
        position = cursor.position
        if offset == position:  # a filter, and not one whole message fits
            cursor.grow()
            return self._idle_pause()
        if offset < position:
            await self._check_end(cursor, link)
            return self._idle_pause()
        kept = await self._range(link)
        if position < kept.earliest:
            self._back_in_range(cursor, kept, "deleted")
        else:
            cursor.move(offset)
            self._tell_jump(position, offset, "moved")
        return 0.0

    async def _nothing(
        self, cursor: Cursor, link: IBrokerLink, nothing: Nothing
    ) -> float:
        refusal = nothing.refusal
        if isinstance(refusal, Forbidden):
            self._failures += 1
            if self._failures & (self._failures - 1) == 0:  # 1, 2, 4, 8...
                self._tell_failure(refusal)
            return self._idle_pause()
        self._failures = 0
        await self._check_end(cursor, link)
        return self._idle_pause()

    def _idle_pause(self) -> float:
        """The pause, less what has passed since the broker was asked."""
        self._empty += 1
        passed_s: float = self._context.clock.seconds() - self._asked_s
        return max(0.0, self._settings.idle.pause_s(self._empty) - passed_s)

    def _failed(self, error: ClientError) -> float:
        self._failures += 1
        self._source.failed()
        self._tell_failure(error.at(*self._partition, self.position))
        return self._settings.failure.pause_s(self._failures)

    # -- out of range -------------------------------------------------------------

    async def _check_end(self, cursor: Cursor, link: IBrokerLink) -> None:
        """See, when it is time, whether the position is beyond the end for good."""
        now_s = self._context.clock.seconds()
        if not self._end_watch.is_due(now_s):
            return
        kept = await self._range(link)
        if self._end_watch.is_beyond(now_s, cursor.position, kept):
            self._end_watch.in_range(now_s)
            self._back_in_range(cursor, kept, "beyond the end")

    async def _range(self, link: IBrokerLink) -> KeptRange:
        asked = range_of(link, self._partition, self._settings.timeout_s)
        return await self._for(asked)

    def _back_in_range(self, cursor: Cursor, kept: KeptRange, reason: str) -> None:
        position, policy = cursor.position, self._context.out_of_range
        cursor.move(back_in_range(policy, self._partition, position, kept))
        self._tell_jump(position, cursor.position, reason)

    # -- telling ------------------------------------------------------------------

    def _tell_jump(self, from_offset: int, to_offset: int, reason: str) -> None:
        jump = OffsetJumped(self._partition, from_offset, to_offset, reason)
        self._context.tell(jump)

    def _tell_failure(self, error: ClientError) -> None:
        self._context.tell(FetchFailed(self._partition, error, self._failures))

    def _broken(self, failure: Failure) -> None:
        """The loop has ended by an exception: of `end`, or of a defect."""
        if self._ended and failure.check(CancelledError):
            return
        self._log.failure("fetching {partition}", failure, partition=self._partition)
        error = ClientError(f"fetching broke: {failure.value!r}")
        self._context.tell(
            PartitionStopped(self._partition, error.at(*self._partition))
        )
