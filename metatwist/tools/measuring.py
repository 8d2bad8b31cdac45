"""`metatwist bench`: how many messages a second, and how long each takes."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from metatwist.client.errors import ClientError
from metatwist.client.events import Event, FetchFailed
from metatwist.client.hooks import ConsumerHooks
from metatwist.client.message import (
    Message,
    ReceivedMessage,
    SendResult,
    TopicPartition,
)
from metatwist.client.producing.producer import Producer
from metatwist.client.settings import (
    CommitSettings,
    ConsumerSettings,
    ProducerSettings,
)
from metatwist.tools.alone import GROUP, consumer_alone
from metatwist.tools.bar import PERIOD_S, Bar
from metatwist.tools.ending import ExitCode, words_of
from metatwist.tools.figures import ConsumeFigures, ProduceFigures
from metatwist.tools.notes import ConsumerNotes
from metatwist.tools.pacing import Pace
from metatwist.tools.ranges import Found, kept_by, partitions_of
from metatwist.tools.running import Scene
from metatwist.wire.records import HEADER_BYTES

_TURN_MESSAGES = 500


@frozen
class Limits:
    """When a measurement ends: whatever comes first; `messages` None for no count."""

    messages: int | None
    seconds: float | None = None

    def is_late(self, elapsed_s: float) -> bool:
        """Whether it has taken long enough."""
        return self.seconds is not None and elapsed_s >= self.seconds


@frozen
class SendJob:
    """What to send.

    Attributes:
        size_bytes: of each body, random bytes.
        batch: so many at once by `send_many`; 1 is each by itself.
        in_flight: so many at most without an answer.
        per_s: at most so many a second; None for as fast as it goes.
    """

    topic: str
    limits: Limits
    size_bytes: int = 1024
    batch: int = 1
    in_flight: int = 10_000
    per_s: float | None = None


async def measure_producing(scene: Scene, job: SendJob) -> tuple[int, ProduceFigures]:
    """Send, and answer exit code and figures. Raises as `Producer.publish`."""
    patience = evolve(ProducerSettings(), timeout_s=scene.target.timeout_s)
    producer = scene.client.producer(patience)
    await scene.stop.ends(producer.publish(job.topic))
    load = _Load(scene, job, producer)
    try:
        await load.run()
    except CancelledError:
        if not scene.stop.wanted:
            raise
    finally:
        load.bar.stop()
    figures = load.figures
    for reason, count in figures.failures.items():
        scene.say(f"{count} not stored: {reason}")
    if scene.stop.wanted:
        return scene.code, figures
    return ExitCode.FAILED if figures.failures else ExitCode.DONE, figures


class _Load:
    """Sends as fast as its limits allow; counts as answers come."""

    def __init__(self, scene: Scene, job: SendJob, producer: Producer) -> None:
        self.figures = ProduceFigures(job.size_bytes)
        total, unit = job.limits.messages, "messages"
        self.bar = Bar(scene.reactor, f"to {job.topic}", total, unit)
        self._scene = scene
        self._job = job
        self._producer = producer
        self._seconds: Any = scene.reactor.seconds
        self._pace = Pace(scene.reactor, job.per_s)
        self._message = Message(job.topic, os.urandom(job.size_bytes))
        self._in_flight = 0
        self._room: Deferred[None] | None = None

    async def run(self) -> None:
        """All of it; CancelledError at the stop."""
        self.bar.start(self._scene.target.shows_progress)
        begun_s = self._seconds()
        try:
            await self._send_all(begun_s)
            await self._scene.stop.ends(self._producer.flush())
        finally:
            self.figures.duration_s = self._seconds() - begun_s

    async def _send_all(self, begun_s: float) -> None:
        job, limits, stop = self._job, self._job.limits, self._scene.stop
        sent = since_turn = 0
        while limits.messages is None or sent < limits.messages:
            count = job.batch
            if limits.messages is not None:
                count = min(count, limits.messages - sent)
            self._send(count)
            sent += count
            since_turn += count
            if self._pace.is_limited:
                await self._pace.wait(stop, count)
            if self._in_flight >= job.in_flight:
                await self._has_room()
            if since_turn >= _TURN_MESSAGES:  # what was sent is to be written
                since_turn = 0
                await stop.ends(deferLater(self._scene.reactor, 0))
            if limits.is_late(self._seconds() - begun_s):
                return

    def _send(self, count: int) -> None:
        self._in_flight += count
        now_s = self._seconds()
        if self._job.batch == 1:
            self._producer.send_calling(self._message, partial(self._ended, now_s))
            return
        messages = [self._message] * count
        sending = self._producer.send_many(messages)
        sending.addCallback(self._batch_ended, now_s)

    def _ended(self, begun_s: float, outcome: SendResult | ClientError) -> None:
        self._answered(1)
        if isinstance(outcome, ClientError):
            self.figures.failed(words_of(outcome))
        else:
            self.figures.latencies.add(self._seconds() - begun_s)

    def _batch_ended(self, outcomes: list[Any], begun_s: float) -> None:
        self._answered(len(outcomes))
        failed = [one for one in outcomes if isinstance(one, ClientError)]
        for error in failed:
            self.figures.failed(words_of(error))
        stored = len(outcomes) - len(failed)
        if stored:
            self.figures.latencies.add(self._seconds() - begun_s, stored)

    def _answered(self, count: int) -> None:
        self._in_flight -= count
        self.bar.done += count
        if self._room is not None and self._in_flight < self._job.in_flight:
            room, self._room = self._room, None
            room.callback(None)

    async def _has_room(self) -> None:
        self._room = Deferred(self._no_more_room)
        await self._scene.stop.ends(self._room)

    def _no_more_room(self, _room: object) -> None:
        self._room = None


async def measure_consuming(
    scene: Scene, topic: str, limits: Limits
) -> tuple[int, ConsumeFigures]:
    """Read a topic from its begin to its present end, and answer exit code and
    figures: FAILED if a partition could not be read to its end, which is told. Raises
    NotConnected, and ToolError for a topic that has nothing."""
    partitions = await scene.stop.ends(
        Deferred.fromCoroutine(partitions_of(scene, (topic,)))
    )
    found = await scene.stop.ends(
        Deferred.fromCoroutine(kept_by(scene.client, partitions))
    )
    for partition, error in found.failed.items():
        scene.say(f"{partition} cannot be read now: {words_of(error)}")
    reading = _Reading(scene, limits, found)
    try:
        await reading.run(topic)
    except CancelledError:
        if not scene.stop.wanted:
            raise
    finally:
        reading.bar.stop()
    if scene.stop.wanted:
        return scene.code, reading.figures
    is_incomplete = found.failed or reading.notes.stopped
    return ExitCode.FAILED if is_incomplete else ExitCode.DONE, reading.figures


class _Reading:
    """A consumer with a listener that only counts."""

    def __init__(self, scene: Scene, limits: Limits, found: Found) -> None:
        self.figures = ConsumeFigures()
        self.notes = ConsumerNotes(scene.say)
        total = limits.messages or found.size_bytes
        unit = "messages" if limits.messages else "bytes"
        self.bar = Bar(scene.reactor, "consumed", total, unit)
        self._scene = scene
        self._limits = limits
        self._ends = {one: kept.latest for one, kept in found.kept.items()}
        settings = ConsumerSettings(GROUP, commit=CommitSettings(auto=False))
        hooks = ConsumerHooks(on_event=self._told)
        self._consumer = consumer_alone(scene, settings, found.kept, hooks)
        self._seconds: Any = scene.reactor.seconds
        self._begun_s = self._last_s = 0.0
        self._enough: Deferred[None] = Deferred()

    async def run(self, topic: str) -> None:
        """All of it; CancelledError at the stop."""
        self.bar.start(self._scene.target.shows_progress)
        self._consumer.subscribe(topic, self._count)
        self._begun_s = self._last_s = self._seconds()
        try:
            await self._scene.stop.ends(self._consumer.start())
            await self._scene.stop.ends(self._watch())
        finally:
            self.figures.duration_s = self._last_s - self._begun_s
            await self._consumer.stop()

    def _count(self, message: ReceivedMessage) -> None:
        figures = self.figures
        if figures.messages == self._limits.messages:
            return
        figures.messages += 1
        figures.size_bytes += len(message.payload)
        self._last_s = self._seconds()
        if figures.messages == self._limits.messages:
            self._end()

    def _told(self, event: Event) -> None:
        """A partition that only fails is given up, so that the measurement ends."""
        self.notes.told(event)
        if isinstance(event, FetchFailed) and event.partition not in self.notes.stopped:
            silent_s = self._seconds() - self._last_s
            if silent_s >= self._scene.target.timeout_s:
                self.notes.stop(event.partition, event.error)

    def _watch(self) -> Deferred[None]:
        """Looks four times a second whether the end is reached; fires then."""
        self._look()
        return self._enough

    def _look(self) -> None:
        if self._enough.called:
            return
        figures, limits = self.figures, self._limits
        stored_bytes = figures.size_bytes + figures.messages * HEADER_BYTES
        self.bar.done = figures.messages if limits.messages else stored_bytes
        elapsed_s = self._seconds() - self._begun_s
        if limits.is_late(elapsed_s) or all(map(self._is_at_end, self._ends)):
            self._end()
        else:
            self._scene.reactor.callLater(PERIOD_S, self._look)

    def _is_at_end(self, partition: TopicPartition) -> bool:
        if partition in self.notes.stopped:
            return True
        if partition not in self._consumer.assigned:
            return False
        position = self._consumer.position(partition)
        return position is not None and position >= self._ends[partition]

    def _end(self) -> None:
        if not self._enough.called:
            self._enough.callback(None)
