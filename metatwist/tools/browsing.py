"""`metatwist browse`: what is stored in a topic, once."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from metatwist.client.errors import ClientError, NotConnected
from metatwist.client.events import OffsetJumped
from metatwist.client.message import ReceivedMessage
from metatwist.client.reading.browser import BrowseLimits, TopicBrowser
from metatwist.client.reading.starting import KeptRange
from metatwist.client.settings import Backoff
from metatwist.coordination.names import PartitionName
from metatwist.tools.bar import Bar
from metatwist.tools.ending import ExitCode, ToolError, words_of_jump
from metatwist.tools.formats import body_of
from metatwist.tools.output import Output, OutputForm, taken
from metatwist.tools.ranges import kept_by, partitions_of
from metatwist.tools.running import Scene

Ranges = Mapping[PartitionName, KeptRange]
_BACKOFF = Backoff(0.1, 2)
_MOST_FAILURES = 5


@frozen
class BrowseJob:
    """What to look at.

    Attributes:
        partitions: `0-3`, or `3` for that one of each broker; all when empty.
        from_offset: in bytes, where a message begins; of one partition.
        to_offset: no message that begins there or behind.
        last: of each partition only its last messages, this many, which a first pass
            finds; it keeps so many offsets in memory.
        pattern: found in the body.
    """

    topic: str
    partitions: tuple[str, ...] = ()
    from_offset: int | None = None
    to_offset: int | None = None
    last: int | None = None
    pattern: re.Pattern[bytes] | None = None

    @property
    def has_offsets(self) -> bool:
        """Whether it makes sense for one partition alone."""
        return self.from_offset is not None or self.to_offset is not None


async def browse(scene: Scene, job: BrowseJob, form: OutputForm) -> int:
    """Read the topic to its present end, and answer the exit code.

    Raises NotConnected when a broker cannot be reached, ClientError for what cannot be
    read.
    """
    finding = Deferred.fromCoroutine(_ranges(scene, job))
    ranges = await scene.stop.ends(finding)
    opening = Deferred.fromCoroutine(form.open(scene.reactor))
    output = await scene.stop.ends(opening)
    bar = Bar(scene.reactor, job.topic, _size_bytes(ranges), "bytes")
    bar.start(scene.target.shows_progress and not form.shares_the_terminal)
    browsing = _Browsing(scene, job, bar)
    try:
        if job.last is not None:
            ranges = await browsing.last(ranges, job.last)
        with suppress(BrokenPipeError):
            await browsing.show(ranges, output)
    except CancelledError:
        if not scene.stop.wanted:
            raise
    finally:
        bar.stop()
        output.close()
    return scene.code if scene.stop.wanted else ExitCode.DONE


async def _ranges(scene: Scene, job: BrowseJob) -> Ranges:
    partitions = await partitions_of(scene, (job.topic,), job.partitions)
    if job.has_offsets and len(partitions) != 1:
        listed = ", ".join(str(one.partition) for one in partitions)
        raise ToolError(f"offsets are for one --partition, of {listed}")
    found = await kept_by(scene.client, partitions)
    for error in found.failed.values():
        raise error
    return {one.partition: _limited(job, found.kept[one]) for one in partitions}


def _limited(job: BrowseJob, kept: KeptRange) -> KeptRange:
    begin, end = kept.earliest, kept.latest
    if job.from_offset is not None:
        begin = max(begin, job.from_offset)
    if job.to_offset is not None:
        end = min(end, job.to_offset)
    return KeptRange(begin, max(begin, end))


def _size_bytes(ranges: Ranges) -> int:
    return sum(one.latest - one.earliest for one in ranges.values())


def _quiet(_jump: OffsetJumped) -> None:
    """What the first of two passes finds, the second one tells."""


def _limits(ranges: Ranges) -> BrowseLimits:
    return BrowseLimits(
        tuple(ranges),
        {name: kept.earliest for name, kept in ranges.items()},
        {name: kept.latest for name, kept in ranges.items()},
    )


class _Browsing:
    """Takes what the browser finds, and chooses."""

    def __init__(self, scene: Scene, job: BrowseJob, bar: Bar) -> None:
        self._scene = scene
        self._topic = job.topic
        self._bar = bar
        self._pattern = job.pattern

    async def last(self, ranges: Ranges, count: int) -> Ranges:
        """The ends of the ranges in which the last `count` wanted messages are."""
        offsets: deque[int] = deque(maxlen=count)
        found = {
            name: KeptRange(one.latest, one.latest) for name, one in ranges.items()
        }
        at: PartitionName | None = None
        async with aclosing(self._wanted(ranges, _quiet)) as batches:
            async for messages in batches:
                if messages[0].partition != at:
                    at = messages[0].partition
                    offsets.clear()
                offsets.extend(message.offset for message in messages)
                found[at] = KeptRange(offsets[0], ranges[at].latest)
        if self._bar.total is not None:
            self._bar.total += _size_bytes(found)
        return found

    async def show(self, ranges: Ranges, output: Output) -> None:
        """All of it; raises BrokenPipeError when nobody reads any more."""
        async with aclosing(self._wanted(ranges, self._tell)) as batches:
            async for messages in batches:
                await taken(self._scene.stop, output, messages)

    def _tell(self, jump: OffsetJumped) -> None:
        self._scene.say(words_of_jump(jump))

    async def _wanted(
        self, ranges: Ranges, tell: Callable[[OffsetJumped], object]
    ) -> AsyncGenerator[list[ReceivedMessage], None]:
        """What the job chooses of each fetch, of one partition each; never none."""
        before, read = self._bar.done, dict[PartitionName, int]()
        limits = _limits(ranges)
        browser = self._scene.client.browser(self._topic, limits, tell=tell)
        try:
            while found := await self._more(browser):
                last = found[-1]
                begin = ranges[last.partition].earliest
                read[last.partition] = last.next_offset - begin
                self._bar.done = before + sum(read.values())
                if wanted := list(filter(self._is_wanted, found)):
                    yield wanted
        finally:
            browser.close()

    async def _more(self, browser: TopicBrowser) -> list[ReceivedMessage]:
        """What comes next; a broker that was lost is tried again a few times."""
        stop, failures = self._scene.stop, 0
        while True:
            try:
                return await stop.ends(Deferred.fromCoroutine(browser.more()))
            except ClientError as error:
                failures += 1
                again = error.retriable and not isinstance(error, NotConnected)
                if not again or failures > _MOST_FAILURES:
                    raise
            pause_s = _BACKOFF.pause_s(failures)
            await stop.ends(deferLater(self._scene.reactor, pause_s))

    def _is_wanted(self, message: ReceivedMessage) -> bool:
        return self._pattern is None or bool(self._pattern.search(body_of(message)))
