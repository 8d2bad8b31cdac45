"""One partition: an ordered set of segments, appended at the end, read anywhere.

One writer, the reactor's thread. Three marks, each moving forward only:

    log_end       written
    durable_end   on disk
    readable_end  served and reported: `durable_end` in group commit, `log_end` in
                  direct mode

A failed append is cut back before anything else is written; a failed sync ends writing
until the next start, since the system may have dropped what it could not write.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, frozen

from metatwist.broker.storage.checkpoints import SidecarWriter
from metatwist.broker.storage.file_pool import FilePool, OpenFile
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.recovery import Recovered, RecoveryReport
from metatwist.broker.storage.segment import Segment, segment_path
from metatwist.broker.storage.sidecar import SUFFIX as SIDECAR_SUFFIX
from metatwist.broker.storage.sidecar import SidecarFacts
from metatwist.broker.storage.slices import (
    FileSlice,
    NothingThere,
    OffsetMoved,
    Slice,
)
from metatwist.broker.storage.walking import take_facts
from metatwist.message_times import time_ms_of
from metatwist.wire.records import message_id_of


@frozen
class LogContext:
    """What all partitions of a broker share."""

    files: FileOps
    pool: FilePool
    max_segment_bytes: int


@define
class SyncJob:
    """What must reach the disk before `end` is durable.

    `files` are held until `PartitionLog.synced` or `sync_failed` gets the job back;
    `directories` have new names in them. `messages` and `last_id` describe the last
    segment up to `end`.
    """

    end: int
    segment: Segment
    messages: int
    last_id: int
    files: list[OpenFile]
    directories: list[Path]

    def release(self) -> None:
        """Let go of the files."""
        for file in self.files:
            file.release()


class PartitionLog:
    """The log of one partition; see the module for its marks and failures.

    `failure` is the reason why nothing is written any more, None while all is well.

    Each segment's file is held open from its first unsynced byte until a sync covers
    its end: the system tells of a failed write-back those who had the file open then.
    So a partition with unsynced bytes takes a descriptor, seldom two, whatever the
    pool's limit is; one without takes none.
    """

    def __init__(
        self, directory: Path, recovered: Recovered, context: LogContext
    ) -> None:
        self.directory = directory
        self.report: RecoveryReport = recovered.report
        self.failure: str | None = None
        self.last_id = recovered.last_id
        self._context = context
        self._segments: list[Segment] = recovered.segments
        self._new_names: list[Path] = []
        self._doomed: list[Path] = []
        self._unsynced: dict[Segment, OpenFile] = {}
        self._torn = False
        fresh = not self._segments
        if fresh:
            self._new_names.append(directory.parent)
            self._segments.append(self._create(0))
        self._starts = [segment.start for segment in self._segments]
        self._active = self._segments[-1]
        end = self._active.end
        self.log_end = self.durable_end = self.readable_end = end
        clean = recovered.report.clean
        self._sidecars = SidecarWriter(context.files, self._active, clean)
        if fresh:
            self._sidecars.begin(self._active)

    @property
    def segments(self) -> Sequence[Segment]:
        """In offset order; the last one is written to."""
        return self._segments

    @property
    def start(self) -> int:
        """The lowest offset kept."""
        return self._starts[0]

    @property
    def size_bytes(self) -> int:
        """Bytes kept, those not yet readable included."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def messages(self) -> int:
        """Whole records kept; sealed segments not verified yet count 0."""
        return sum(segment.messages for segment in self._segments)

    @property
    def unsynced_bytes(self) -> int:
        """Written, not known to be on disk: what a power loss could take."""
        return self.log_end - self.durable_end

    # -- writing ------------------------------------------------------------------

    def append(self, buffers: Sequence[bytes], size: int, last_id: int) -> None:
        """Write whole records, given as header, payload, header, payload, ...

        `size` is their length in bytes, `last_id` the last record's id. All or nothing:
        on OSError the files are cut back to where they were, and a later append may
        succeed (a full disk that has space again).
        """
        if self._torn:
            self._cut_back()
        active = self._active
        before = active, active.end, active.messages, active.last_id
        try:
            if self._active.size_bytes >= self._context.max_segment_bytes:
                self._roll()
            if size <= self._context.max_segment_bytes - self._active.size_bytes:
                self._write(buffers, size, last_id)
            else:
                self._write_in_pieces(buffers)
        except OSError:
            self._undo(*before)
            raise
        self.log_end = self._active.end
        self.last_id = last_id
        if self._active.size_bytes >= self._context.max_segment_bytes:
            # The Java broker leaves an empty last segment too. If the disk is too full
            # for that, the next append tries again.
            with suppress(OSError):
                self._roll()

    def _write_in_pieces(self, buffers: Sequence[bytes]) -> None:
        """Roll between records as soon as a segment has reached its limit."""
        first = 0
        while first < len(buffers):
            if self._active.size_bytes >= self._context.max_segment_bytes:
                self._roll()
            room = self._context.max_segment_bytes - self._active.size_bytes
            size, last = 0, first
            while size < room and last < len(buffers):
                size += len(buffers[last]) + len(buffers[last + 1])
                last += 2
            self._write(buffers[first:last], size, message_id_of(buffers[last - 2]))
            first = last

    def _write(self, buffers: Sequence[bytes], size: int, last_id: int) -> None:
        segment = self._active
        file = self._unsynced.get(segment)
        if file is None:
            file = self._context.pool.hold(segment.path, writable=True)
            self._unsynced[segment] = file
        self._context.files.append(file.fd, buffers)
        if segment.end >= self._sidecars.next_mark:
            self._sidecars.mark(segment, time_ms_of(last_id), segment.end)
        segment.end += size
        segment.messages += len(buffers) >> 1
        segment.last_id = last_id

    def _create(self, start: int) -> Segment:
        path = segment_path(self.directory, start)
        self._context.pool.hold(path, writable=True).release()
        self._new_names.append(self.directory)
        return Segment(path, start, start)

    def _roll(self) -> None:
        segment = self._create(self._active.end)
        self._sidecars.rolled(self._active)
        self._segments.append(segment)
        self._starts.append(segment.start)
        self._active = segment
        self._sidecars.begin(segment)

    def _undo(self, segment: Segment, end: int, messages: int, last_id: int) -> None:
        """Forget what a failed append wrote, in memory and in the files.

        Segments that it began stay, empty, when they follow a full one; the last file
        with bytes in it is cut.
        """
        while self._active.start > end:
            self._drop_newest()
        if self._active is segment:
            segment.end, segment.messages, segment.last_id = end, messages, last_id
        else:
            newest = self._active
            newest.end, newest.messages, newest.last_id = newest.start, 0, 0
        self._let_go(self.durable_end)
        self._torn = True
        with suppress(OSError):
            self._cut_back()

    def _drop_newest(self) -> None:
        gone = self._segments.pop()
        self._starts.pop()
        self._active = self._segments[-1]
        self._sidecars.reopened(self._active)
        self._forget_file(gone)
        self._doomed.append(gone.path)

    def _cut_back(self) -> None:
        """Nothing may be written while this fails: a segment that was taken back, its
        file still there, would hide what is written over its offsets."""
        while self._doomed:
            self._remove(self._doomed[0])
            del self._doomed[0]
        file = self._context.pool.hold(self._active.path, writable=True)
        try:
            self._context.files.truncate(file.fd, self._active.size_bytes)
        finally:
            file.release()
        self._torn = False

    def _remove(self, path: Path) -> None:
        files = self._context.files
        with suppress(FileNotFoundError):
            files.remove(path)
        # Synced with what is written next, lest a crash brings the name back.
        self._new_names.append(self.directory)
        with suppress(OSError):
            files.remove(path.with_suffix(SIDECAR_SUFFIX))

    # -- making durable -----------------------------------------------------------

    def sync_job(self) -> SyncJob:
        """What to sync now; the caller does it off this thread and reports back.

        Raises OSError when a file cannot be opened.
        """
        job = SyncJob(
            self.log_end, self._active, self._active.messages, self.last_id, [], []
        )
        try:
            for segment in self._segments[self._first_unsynced() :]:
                file = self._unsynced.get(segment)
                held = file.hold() if file else self._context.pool.hold(segment.path)
                job.files.append(held)
        except OSError:
            job.release()
            raise
        job.directories, self._new_names = list(dict.fromkeys(self._new_names)), []
        return job

    def _first_unsynced(self) -> int:
        at = len(self._segments) - 1
        while at and self._segments[at].start > self.durable_end:
            at -= 1
        return at

    def synced(self, job: SyncJob) -> None:
        """The job's files are on disk: `durable_end` moves to its end."""
        job.release()
        assert self.durable_end <= job.end <= self.log_end, "a mark moved back"
        self.durable_end = job.end
        self._let_go(job.end)
        self._sidecars.durable(job.end)
        if job.segment is self._active:
            self._sidecars.maybe_checkpoint(
                job.segment, job.end, job.messages, job.last_id
            )

    def sync_failed(self, job: SyncJob, reason: str) -> None:
        """Nothing is written any more: what the disk holds is not known."""
        job.release()
        self.stop(reason)

    def stop(self, reason: str) -> None:
        """Write nothing any more, until the next start."""
        self.failure = reason
        self._let_go(self.log_end)

    def _let_go(self, end: int) -> None:
        """Give back the files of segments that end at `end` or before it."""
        for segment in [one for one in self._unsynced if one.end <= end]:
            self._unsynced.pop(segment).release()

    def _forget_file(self, segment: Segment) -> None:
        file = self._unsynced.pop(segment, None)
        if file is not None:
            file.release()
        self._context.pool.forget(segment.path)

    def mark_readable(self, end: int) -> None:
        """Let readers see up to `end`."""
        assert self.readable_end <= end <= self.log_end, "a mark moved back"
        self.readable_end = end

    def close(self) -> None:
        """Leave a clean-stop marker if all is on disk."""
        if self.failure is None and not self._torn and not self.unsynced_bytes:
            self._sidecars.durable(self.durable_end)
            self._sidecars.clean_stop(self._active, self.last_id)
        for segment in self._segments:
            self._forget_file(segment)

    # -- reading ------------------------------------------------------------------

    def slice(self, offset: int, limit: int) -> Slice:
        """What to answer to a read of at most `limit` bytes at `offset`.

        Never crosses a segment's end, `readable_end` or a bad range; inside a gap or a
        bad range it says where to go on (spec storage 11.1, 11.2, D-12).
        """
        if offset < self._starts[0]:
            return OffsetMoved(self._starts[0])
        if offset >= self.readable_end:
            return NothingThere(offset > self.readable_end)
        at = bisect_right(self._starts, offset) - 1
        segment = self._segments[at]
        if offset >= segment.end:
            return OffsetMoved(self._starts[at + 1])
        end = segment.end
        if segment.bad:
            readable_from = segment.readable_from(offset)
            if readable_from != offset:
                return OffsetMoved(min(readable_from, self.readable_end))
            end = segment.readable_until(offset)
        size = min(limit, end - offset, self.readable_end - offset)
        return FileSlice(segment, offset - segment.start, size)

    def nearest(self, offset: int) -> int:
        """A place to go on from: a segment's start, or the end (spec storage 11.3)."""
        if offset < self._starts[0]:
            return self._starts[0]
        if offset >= self.readable_end:
            return self.readable_end
        at = bisect_right(self._starts, offset) - 1
        if offset >= self._segments[at].end:
            at += 1
        return self._starts[at]

    def open(self, segment: Segment) -> OpenFile:
        """The segment's file, held for the caller; OSError when it cannot be opened."""
        return self._context.pool.hold(segment.path, writable=segment is self._active)

    def verified(self, segment: Segment, facts: SidecarFacts) -> None:
        """A sealed segment has been walked: these are its messages and its damage."""
        take_facts(segment, facts)
        self.report.bad.extend(facts.bad)

    # -- retention ----------------------------------------------------------------

    def drop_front(self, segment: Segment) -> None:
        """Take the oldest segment out, its file being gone or archived.

        Readers that hold it finish. The last segment is never dropped.
        """
        assert segment is self._segments[0] and segment is not self._active
        del self._segments[0], self._starts[0]
        self._forget_file(segment)
        self._sidecars.dropped(segment)
        with suppress(OSError):
            self._context.files.remove(segment.sidecar_path)
