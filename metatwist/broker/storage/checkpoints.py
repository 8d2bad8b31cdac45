"""Keeping the sidecars of a growing log: time marks, checkpoints, seals.

Losing a line costs a longer walk at the next start, never data, so a full disk here is
not an error.
"""

from __future__ import annotations

from contextlib import suppress

from metatwist.broker.storage import sidecar
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.segment import Segment, TimeIndex
from metatwist.broker.storage.sidecar import Checkpoint
from metatwist.broker.storage.times import INDEX_STEP_BYTES

CHECKPOINT_BYTES = 16 * 1024 * 1024
"""A start walks at most this much of a partition, and what was never synced."""


class SidecarWriter:
    """Writes the sidecars of one partition's newest segments."""

    def __init__(self, files: FileOps, active: Segment, clean: bool) -> None:
        self._files = files
        self._lines: list[bytes] = []
        self._unsealed: list[Segment] = []
        self._checkpointed = active.end
        self._clean_end = active.end if clean else -1
        self.next_mark = _next_mark(active)

    def begin(self, segment: Segment) -> None:
        """A new, empty segment is written to from now on."""
        segment.index = TimeIndex()
        self._lines = [sidecar.line("segment", segment.start)]
        self._checkpointed = self.next_mark = segment.start

    def mark(self, segment: Segment, time_ms: int, offset: int) -> None:
        """Note that the record at `offset` is stored at `time_ms`."""
        if segment.index is not None:
            time_ms = segment.index.add(time_ms, offset)
        self._lines.append(sidecar.line("time", time_ms, offset))
        self.next_mark = offset + INDEX_STEP_BYTES

    def rolled(self, segment: Segment) -> None:
        """`segment` will not grow again; it is sealed once it is on disk."""
        self._write(segment)
        self._unsealed.append(segment)

    def reopened(self, segment: Segment) -> None:
        """`segment` is the newest again, an append into the next one having failed."""
        self.dropped(segment)
        self._lines = [sidecar.line("segment", segment.start)]
        self._checkpointed = segment.start
        self.next_mark = _next_mark(segment)

    def dropped(self, segment: Segment) -> None:
        """`segment` needs no seal: it grows again, or retention has taken it."""
        if segment in self._unsealed:
            self._unsealed.remove(segment)

    def durable(self, end: int) -> None:
        """All before `end` is on disk: seal what is now whole."""
        while self._unsealed and self._unsealed[0].end <= end:
            segment = self._unsealed.pop(0)
            newest = segment.last_id
            self._checkpoint(segment, "sealed", segment.end, segment.messages, newest)
            segment.index = None

    def maybe_checkpoint(
        self, segment: Segment, end: int, messages: int, last_id: int
    ) -> None:
        """Write a checkpoint if enough has become durable since the last one."""
        if end - self._checkpointed >= CHECKPOINT_BYTES:
            self._checkpoint(segment, "checkpoint", end, messages, last_id)

    def clean_stop(self, segment: Segment, last_id: int) -> None:
        """The orderly end: all of the segment is on disk."""
        if segment.end != self._clean_end or self._lines:
            self._checkpoint(segment, "clean", segment.end, segment.messages, last_id)

    def _checkpoint(
        self, segment: Segment, kind: str, end: int, messages: int, last_id: int
    ) -> None:
        checkpoint = Checkpoint(kind, end, messages, last_id, len(segment.bad))
        line = sidecar.checkpoint_line(checkpoint)
        if kind == "sealed":
            self._append(segment, line)
            return
        self._lines.append(line)
        self._write(segment)
        self._checkpointed = end
        self._clean_end = end if kind == "clean" else -1

    def _write(self, segment: Segment) -> None:
        # What cannot be written now is tried again with what comes next.
        if self._lines and self._append(segment, b"".join(self._lines)):
            self._lines = []

    def _append(self, segment: Segment, text: bytes) -> bool:
        # Starts on a new line: a write that failed before may have left half of one.
        damaged = False
        with suppress(OSError):
            tail = self._files.read_tail(segment.sidecar_path, 1)
            damaged = bool(tail) and tail != b"\n"
        try:
            self._files.append_text(
                segment.sidecar_path, b"\n" + text if damaged else text
            )
        except OSError:
            return False
        return True


def _next_mark(segment: Segment) -> int:
    """Where the next time mark of a segment is due."""
    if segment.index is None or not segment.index.offsets:
        return segment.start
    return segment.index.offsets[-1] + INDEX_STEP_BYTES
