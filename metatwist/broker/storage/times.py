"""From time to offset: build a segment's index, and find "messages since 10:00".

Blocking; called on a worker thread with a snapshot of the segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from metatwist.broker.storage.files import FileOps, opened
from metatwist.broker.storage.scan import ReadAt
from metatwist.broker.storage.segment import Segment, TimeIndex
from metatwist.message_times import is_wall_clock, time_ms_of
from metatwist.wire.records import HEADER_BYTES, unpack_header

INDEX_STEP_BYTES = 256 * 1024


def times_of_marks(
    marks: Iterable[tuple[int, int]], last_id: int, modified_ms: int
) -> TimeIndex:
    """An index from (id, offset) pairs found by a scan.

    Ids of a Java broker count from its host's start; they are shifted so that the
    file's last one falls on its modification time.
    """
    shift_ms = 0
    if not is_wall_clock(last_id):
        shift_ms = modified_ms - time_ms_of(last_id)
    index = TimeIndex()
    for message_id, offset in marks:
        if is_wall_clock(message_id):
            time_ms = time_ms_of(message_id)
        else:
            time_ms = min(time_ms_of(message_id) + shift_ms, modified_ms)
        index.add(time_ms, offset)
    return index


def offset_at(
    segments: Sequence[Segment],
    end: int,
    time_ms: int,
    files: FileOps,
) -> int:
    """The offset of the first message stored at or after `time_ms`, else `end`.

    Exact where ids carry wall-clock time; in what a Java broker wrote, up to one index
    step (256 KiB) early, never late.
    """
    low, high = 0, len(segments)
    while low < high:
        middle = (low + high) // 2
        index = segments[middle].load_index(files)
        if not len(index.times_ms) or index.times_ms[0] < time_ms:
            low = middle + 1
        else:
            high = middle
    for segment in segments[max(0, low - 1) :]:
        begin = segment.load_index(files).floor(time_ms)
        start = segment.start if begin is None else begin
        with opened(files, segment.path) as fd:
            read = partial(files.read, fd)
            last = min(segment.end, end)
            found = _first_since(read, segment, start, last, time_ms)
        if found is not None:
            return found
    return end


def _first_since(
    read: ReadAt, segment: Segment, offset: int, end: int, time_ms: int
) -> int | None:
    """Walk headers from `offset`, a record's start, to the first one late enough."""
    while offset + HEADER_BYTES <= end:
        offset = segment.readable_from(offset)
        header = read(offset - segment.start, HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return None
        length, _, message_id, _ = unpack_header(header)
        if not is_wall_clock(message_id) or time_ms_of(message_id) >= time_ms:
            return offset
        offset += HEADER_BYTES + max(length, 0)
    return None
