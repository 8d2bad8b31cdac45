"""`metatwist consume`: what comes into topics, as it comes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import CancelledError, Deferred

from metatwist.client.consumer import Consumer
from metatwist.client.delivery.pulling import PulledBatch
from metatwist.client.errors import NotOwner
from metatwist.client.group.identity import unique_id
from metatwist.client.hooks import ConsumerHooks
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.coordinator import CoordinatorOffsets
from metatwist.client.offsets.file import FileOffsets
from metatwist.client.offsets.interface import IOffsetStorage
from metatwist.client.settings import CommitSettings, ConsumerSettings, Start
from metatwist.coordination.layout import Layout
from metatwist.coordination.names import consumer_id
from metatwist.tools.alone import GROUP, consumer_alone
from metatwist.tools.ending import ExitCode, words_of
from metatwist.tools.group_sight import GroupSight
from metatwist.tools.notes import ConsumerNotes
from metatwist.tools.output import Output, OutputForm, taken
from metatwist.tools.ranges import Found, kept_by, partitions_of
from metatwist.tools.read_only_offsets import ReadOnlyOffsets
from metatwist.tools.running import Scene
from metatwist.tools.until_end import UntilEnd

_TICK_S = 0.1
_MOST_MESSAGES = 1000


@frozen
class ConsumeJob:
    """What to read.

    Attributes:
        group: None reads all partitions, beside everybody else.
        consumer_id: within the group; None for one that is made up.
        start: for partitions of which the group has no offset.
        count: end after that many messages.
        until_end: end where the partitions end now, see `UntilEnd`.
        idle_s: end when nothing has come for so long.
        commits: store how far the group has come.
        offsets_folder: keep the group's offsets here and not in the coordinator.
    """

    topics: tuple[str, ...]
    group: str | None = None
    consumer_id: str | None = None
    start: Start | int = Start.EARLIEST
    count: int | None = None
    until_end: bool = False
    idle_s: float | None = None
    commits: bool = True
    offsets_folder: str | None = None

    @property
    def keeps_offsets(self) -> bool:
        """Whether what was read is noted for the next time."""
        return self.group is not None and self.commits

    @property
    def settings(self) -> ConsumerSettings:
        """Raises ValueError for a group or consumer id that cannot be."""
        return ConsumerSettings(
            self.group or GROUP,
            consumer_id=self.consumer_id,
            start=self.start,
            commit=CommitSettings(auto=self.keeps_offsets),
        )


async def consume(scene: Scene, job: ConsumeJob, form: OutputForm) -> int:
    """Read until the job or the user says that it is enough; the exit code.

    Raises NotConnected when no broker can be reached at the beginning, ToolError when
    it waits in vain for a partition to be read until its end.
    """
    if job.group is not None and job.consumer_id is None:
        job = evolve(job, consumer_id=unique_id())
    found = await scene.stop.ends(Deferred.fromCoroutine(_found(scene, job)))
    opening = Deferred.fromCoroutine(form.open(scene.reactor))
    output = await scene.stop.ends(opening)
    consumption = _Consumption(scene, job, output, found)
    try:
        return await consumption.run()
    finally:
        output.close()


async def _found(scene: Scene, job: ConsumeJob) -> Found:
    partitions = await partitions_of(scene, job.topics)
    found = await kept_by(scene.client, partitions)
    for partition, error in found.failed.items():
        scene.say(f"{partition} cannot be read now: {words_of(error)}")
    return found


def _consumer(
    scene: Scene,
    job: ConsumeJob,
    partitions: Iterable[TopicPartition],
    hooks: ConsumerHooks,
) -> Consumer:
    if job.group is None:
        return consumer_alone(scene, job.settings, partitions, hooks)
    storage = _storage(scene, job)
    return scene.client.consumer(job.settings, offsets=storage, hooks=hooks)


def _storage(scene: Scene, job: ConsumeJob) -> Any:
    """Where the group's offsets are; None for the coordinator."""
    storage: IOffsetStorage | None = None
    if job.offsets_folder is not None:
        reactor, folder, group = scene.reactor, job.offsets_folder, job.settings.group
        storage = FileOffsets.in_directory(reactor, folder, group)
    if job.commits:
        return storage
    if storage is None and scene.coordinator is not None:
        layout = Layout(scene.target.root)
        storage = CoordinatorOffsets(scene.coordinator, layout, job.settings.group)
    return ReadOnlyOffsets(storage)


def _sight(scene: Scene, job: ConsumeJob) -> GroupSight | None:
    """None where partitions are not shared."""
    if scene.coordinator is None or job.group is None or job.consumer_id is None:
        return None
    layout, me = Layout(scene.target.root), consumer_id(job.group, job.consumer_id)
    return GroupSight(scene.coordinator, layout, job.settings, me)


class _Consumption:
    """One consumer from start to stop."""

    def __init__(
        self, scene: Scene, job: ConsumeJob, output: Output, found: Found
    ) -> None:
        self._scene = scene
        self._job = job
        self._output = output
        self._taken = 0
        self._last_s = scene.reactor.seconds()
        self._notes = ConsumerNotes(scene.say)
        hooks = ConsumerHooks(on_event=self._notes.told)
        self._consumer = _consumer(scene, job, found.kept, hooks)
        ends = {one: kept.latest for one, kept in found.kept.items()}
        self._until_end = UntilEnd(
            scene, self._consumer, self._notes, ends, _sight(scene, job)
        )
        self._leaves_out = job.until_end and bool(found.failed)

    async def run(self) -> int:
        """Subscribe, read, stop; the exit code. Raises OSError of the output."""
        consumer, uncommitted = self._consumer, False
        for topic in self._job.topics:
            consumer.subscribe(topic)
        try:
            await self._scene.stop.ends(consumer.start())
            await self._read()
        except BrokenPipeError:
            pass  # whoever reads has enough
        except CancelledError:
            if not self._scene.stop.wanted:
                raise
        finally:
            uncommitted = await self._commit()
            await consumer.stop()
        if self._scene.stop.wanted:
            return self._scene.code
        is_incomplete = self._notes.stopped or self._leaves_out or uncommitted
        return ExitCode.FAILED if is_incomplete else ExitCode.DONE

    async def _commit(self) -> bool:
        """Whether something could not be stored that is still ours to be stored."""
        if not self._job.keeps_offsets:
            return False
        outcome = await self._consumer.commit()
        return any(
            error is not None and not isinstance(error, NotOwner)
            for error in outcome.values()
        )

    # -- reading ----------------------------------------------------------------------

    async def _read(self) -> None:
        while not await self._is_over():
            batch = await self._next()
            if batch is None:
                continue
            await self._write(batch)
            batch.done()
            self._taken += len(batch.messages)
            self._last_s = self._scene.reactor.seconds()

    async def _write(self, batch: PulledBatch) -> None:
        """Only what was written safely is done; the rest is let go of, so that the end
        does not wait for it."""
        try:
            await taken(self._scene.stop, self._output, batch.messages)
            if self._job.keeps_offsets:
                await self._output.settle()
        except BaseException:
            with suppress(KeyError):  # it was given up meanwhile
                position = self._consumer.position(batch.partition)
                self._consumer.seek(batch.partition, position or 0)
            raise

    async def _next(self) -> PulledBatch | None:
        """What comes within a tick."""
        most = _MOST_MESSAGES
        if self._job.count is not None:
            most = min(most, self._job.count - self._taken)
        asking = self._consumer.next_batch(most)
        timer = self._scene.reactor.callLater(_TICK_S, asking.cancel)
        try:
            return await self._scene.stop.ends(asking)
        except CancelledError:
            return None
        finally:
            if timer.active():
                timer.cancel()

    async def _is_over(self) -> bool:
        job, assigned = self._job, self._consumer.assigned
        if self._scene.stop.wanted:
            return True
        if job.count is not None and self._taken >= job.count:
            return True
        idle_s = self._scene.reactor.seconds() - self._last_s
        if job.idle_s is not None and idle_s >= job.idle_s:
            return True
        if job.until_end:
            return await self._until_end.is_reached()
        return bool(assigned) and self._notes.stopped.issuperset(assigned)
