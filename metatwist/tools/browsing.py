"""`metatwist browse`: what is stored in a topic, once."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from metatwist.client.errors import ClientError, NotConnected
from metatwist.client.message import ReceivedMessage, TopicPartition
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

_BACKOFF = Backoff(0.1, 2)
_MOST_FAILURES = 5


@frozen
class BrowseJob:
    """What to look at.

    Attributes:
        partitions: `0-3`, or `3` for that one of each broker; all when empty.
        from_offset: in bytes, where a message begins; of one partition.
        to_offset: no message that begins there or behind.
        last: of each partition only its last messages, this many.
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
    output = form.open(scene.reactor)
    size = sum(one.latest - one.earliest for one in ranges.values())
    bar = Bar(scene.reactor, job.topic, size, "bytes")
    bar.start(not scene.target.quiet and not form.shares_the_terminal)
    limits = _limits(ranges)
    browser = scene.client.browser(
        job.topic, limits, tell=lambda jump: scene.say(words_of_jump(jump))
    )
    try:
        with suppress(BrokenPipeError):
            await _Browsing(scene, job, output, bar).run(browser, ranges)
    except CancelledError:
        if not scene.stop.wanted:
            raise
    finally:
        browser.close()
        bar.stop()
        output.close()
    return scene.code if scene.stop.wanted else ExitCode.DONE


async def _ranges(scene: Scene, job: BrowseJob) -> Mapping[PartitionName, KeptRange]:
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


def _limits(ranges: Mapping[PartitionName, KeptRange]) -> BrowseLimits:
    return BrowseLimits(
        tuple(ranges),
        {name: kept.earliest for name, kept in ranges.items()},
        {name: kept.latest for name, kept in ranges.items()},
    )


class _Browsing:
    """Takes what the browser finds, chooses, and writes."""

    def __init__(self, scene: Scene, job: BrowseJob, output: Output, bar: Bar) -> None:
        self._scene = scene
        self._output = output
        self._bar = bar
        self._pattern = job.pattern
        self._last = job.last
        self._tails: dict[TopicPartition, deque[ReceivedMessage]] = {}

    async def run(
        self, browser: TopicBrowser, ranges: Mapping[PartitionName, KeptRange]
    ) -> None:
        """All of it; raises BrokenPipeError when nobody reads any more."""
        read: dict[PartitionName, int] = {}
        while found := await self._more(browser):
            last = found[-1]
            begin = ranges[last.partition].earliest
            read[last.partition] = last.next_offset - begin
            self._bar.done = sum(read.values())
            await self._take(list(filter(self._is_wanted, found)))
        for tail in self._tails.values():
            await taken(self._scene.stop, self._output, tail)

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

    async def _take(self, messages: list[ReceivedMessage]) -> None:
        if self._last is None:
            if messages:
                await taken(self._scene.stop, self._output, messages)
            return
        for message in messages:
            partition = TopicPartition(message.topic, message.partition)
            tail = self._tails.get(partition)
            if tail is None:
                tail = self._tails[partition] = deque(maxlen=self._last)
            tail.append(message)
