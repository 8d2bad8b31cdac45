"""`metatwist produce`: a message for each line, or file, of the input."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import CancelledError, Deferred

from metatwist.client.errors import ClientError, ClientStopped, InvalidMessage
from metatwist.client.message import Message, SendResult
from metatwist.client.producing.producer import Producer
from metatwist.client.producing.selectors import (
    ByKey,
    RandomChoice,
    RoundRobin,
    Selector,
)
from metatwist.client.settings import ProducerSettings
from metatwist.coordination.names import PartitionName
from metatwist.tools.bar import Bar
from metatwist.tools.ending import ExitCode, ToolError, words_of
from metatwist.tools.failures import Failures
from metatwist.tools.formats import BadInput, Content, from_json, transcoded, with_key
from metatwist.tools.lines import STDIN, Lines, Piece, known_size
from metatwist.tools.output import STDOUT
from metatwist.tools.pacing import Pace
from metatwist.tools.results import ResultPrinter, json_result, text_result
from metatwist.tools.running import Scene

SELECTORS: dict[str, type[Any]] = {
    "key": ByKey,
    "round-robin": RoundRobin,
    "random": RandomChoice,
}
MOST_PENDING_BYTES = 16 << 20
_ENVELOPE_BYTES = 1024  # what a pending message takes beside its body, roughly
_MOST_PIECE_BYTES = 4 << 20
_MOST_JSON_BYTES = 32 << 20  # a body of 4 MiB, escaped


@frozen
class ProduceJob:
    """What to send.

    Attributes:
        sources: names of files, `-` for stdin.
        delimiter: between messages; None takes each source as one.
        attribute: of each message, unless its JSON has one.
        key_delimiter: ends the key at the front of a piece; None for no keys.
        encoding: of the input, which is sent as UTF-8; None sends it as it is.
        per_s: at most so many messages a second.
        show: `text` or `json` results on stdout, None for none.
    """

    topic: str
    sources: tuple[str, ...] = ("-",)
    delimiter: bytes | None = b"\n"
    as_json: bool = False
    attribute: str | None = None
    key_delimiter: bytes | None = None
    encoding: str | None = None
    partition: PartitionName | None = None
    selector: str = "key"
    per_s: float | None = None
    show: str | None = None
    retries: int = 5
    may_duplicate: bool = False

    def content(self, data: bytes) -> Content | None:
        """What a piece says; None for a blank line between JSON. Raises BadInput."""
        if self.encoding is not None:
            data = transcoded(data, self.encoding)
        if self.as_json:
            return from_json(data) if data.strip() else None
        if self.key_delimiter is not None:
            return with_key(data, self.key_delimiter)
        return Content(data)


async def produce(scene: Scene, job: ProduceJob) -> int:
    """Send all, report, and answer the exit code.

    Raises NotConnected and NoPartition before anything was read when the topic cannot
    be sent to.
    """
    settings = evolve(
        ProducerSettings(),
        timeout_s=scene.target.timeout_s,
        retries=job.retries,
        may_duplicate=job.may_duplicate,
    )
    selector: Selector = SELECTORS[job.selector]()
    producer = scene.client.producer(settings, selector)
    await scene.stop.ends(producer.publish(job.topic))
    _check_partition(producer, job)
    total_bytes = await known_size(scene.reactor, job.sources)
    production = _Production(scene, job, producer, total_bytes)
    production.bar.start(scene.target.shows_progress and not _shares_the_terminal(job))
    try:
        await production.read_all()
    except CancelledError:
        if not scene.stop.wanted:
            raise
    finally:
        try:
            await production.finish()
        finally:
            production.bar.stop()
    return production.report()


def _check_partition(producer: Producer, job: ProduceJob) -> None:
    offered = producer.partitions(job.topic)
    if job.partition is None or job.partition in offered:
        return
    has = ", ".join(str(one) for one in offered if one.partition >= 0)
    raise ToolError(
        f"topic {job.topic} has no partition {job.partition}; "
        + (f"it has {has}" if has else "nothing was stored in any of them yet")
    )


def _shares_the_terminal(job: ProduceJob) -> bool:
    """Whether lines are typed, or results appear, where a progress bar would."""
    is_typed = STDIN in job.sources and os.isatty(0)
    return is_typed or (job.show is not None and os.isatty(STDOUT))


class _Production:
    """Reads while there is room for more, and counts what becomes of each message.

    `total_bytes` is the size of the input; None when that is not known, so that
    progress is in messages.
    """

    def __init__(
        self,
        scene: Scene,
        job: ProduceJob,
        producer: Producer,
        total_bytes: int | None,
    ) -> None:
        unit = "messages" if total_bytes is None else "bytes"
        self.bar = Bar(scene.reactor, f"to {job.topic}", total_bytes, unit)
        self._scene = scene
        self._job = job
        self._producer = producer
        self._pace = Pace(scene.reactor, job.per_s)
        self._failures = Failures()
        self._printer: ResultPrinter | None = None
        if job.show is not None:
            self._printer = ResultPrinter(scene.reactor, STDOUT)
        self._result = json_result if job.show == "json" else text_result
        self._stored = 0
        self._pending_bytes = 0
        self._room: Deferred[None] | None = None

    # -- on the way -------------------------------------------------------------------

    async def read_all(self) -> None:
        """Send all sources; CancelledError at the stop, OSError for a source."""
        job, scene = self._job, self._scene
        most = _MOST_JSON_BYTES if job.as_json else _MOST_PIECE_BYTES
        lines = Lines(scene.reactor, scene.stop, job.delimiter, most)
        for source in job.sources:
            async for pieces in lines.pieces(source):
                self._count_read(lines.read_bytes)
                for piece in pieces:
                    self._send(piece)
                    if self._pace.is_limited:
                        await self._pace.wait(scene.stop)
                    if self._is_full:
                        await self._has_room()

    def _count_read(self, read_bytes: int) -> None:
        if self.bar.total is not None:
            self.bar.done = read_bytes

    def _send(self, piece: Piece) -> None:
        job = self._job
        try:
            content = self._content(piece)
            if content is None:
                return
            body, attribute, key = content
            attribute = job.attribute if attribute is None else attribute
            message = Message(job.topic, body, attribute, key)
            size = _ENVELOPE_BYTES + len(body)
            self._pending_bytes += size
            ended = partial(self._ended, piece._replace(data=b""), size)
            try:
                self._producer.send_calling(message, ended, job.partition)
            except ClientError as error:
                ended(error)
        except BadInput as error:
            self._fail(piece, InvalidMessage(str(error)))

    def _content(self, piece: Piece) -> Content | None:
        if piece.data is None:
            raise BadInput("is larger than a message may be")
        return self._job.content(piece.data)

    def _ended(
        self, piece: Piece, size: int, outcome: SendResult | ClientError
    ) -> None:
        self._pending_bytes -= size
        if isinstance(outcome, ClientError):
            self._fail(piece, outcome)
        else:
            self._stored += 1
            if self.bar.total is None:
                self.bar.done = self._stored
            self._show(piece, outcome)
        room = self._room
        if room is not None and self._pending_bytes <= MOST_PENDING_BYTES // 2:
            self._room = None
            room.callback(None)

    def _fail(self, piece: Piece, error: ClientError) -> None:
        reason, unknown = words_of(error), error.outcome_unknown
        if isinstance(error, ClientStopped) and self._scene.stop.wanted:
            reason = "interrupted before the answer had come"
        self._failures.add(piece.source, piece.number, reason, unknown)
        self._show(piece, error)

    def _show(self, piece: Piece, outcome: SendResult | ClientError) -> None:
        line = None if self._printer is None else self._result(piece, outcome)
        if line is not None and self._printer is not None:
            self._printer.add(line)

    @property
    def _is_full(self) -> bool:
        crowded = self._printer is not None and self._printer.is_crowded
        return crowded or self._pending_bytes > MOST_PENDING_BYTES

    async def _has_room(self) -> None:
        if self._pending_bytes > MOST_PENDING_BYTES:
            self._room = Deferred(self._no_more_room)
            await self._scene.stop.ends(self._room)
        if self._printer is not None and self._printer.is_crowded:
            await self._scene.stop.ends(self._printer.settle())

    def _no_more_room(self, _room: object) -> None:
        self._room = None

    # -- the end ----------------------------------------------------------------------

    async def finish(self) -> None:
        """Wait for all that is under way; at a stop as long as an answer may take."""
        if not self._scene.stop.wanted:
            try:
                await self._scene.stop.ends(self._producer.flush())
            except CancelledError:
                if not self._scene.stop.wanted:
                    raise
        await self._producer.stop()
        if self._printer is not None and not self._scene.stop.wanted:
            await self._scene.stop.ends(self._printer.settle())

    def report(self) -> int:
        """Tell what was not stored; the exit code."""
        scene, failed = self._scene, self._failures.count
        problem = None if self._printer is None else self._printer.problem
        if problem is not None:
            scene.say(f"the results cannot be printed: {problem.strerror}")
        if failed or scene.stop.wanted:
            scene.say(f"{self._stored} stored")
        for line in self._failures.report():
            scene.say(line)
        if scene.stop.wanted:
            return scene.code
        return ExitCode.FAILED if failed or problem else ExitCode.DONE
