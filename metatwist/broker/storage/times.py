"""From time to offset: build a segment's index, and find "messages since 10:00".

Blocking; called on a worker thread with a snapshot of the segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from metatwist.broker.storage.files import FileOps, opened
from metatwist.broker.storage.scan import ReadAt
from metatwist.broker.storage.segment import Segment, TimeIndex
from metatwist.message_times import is_wall_clock, time_ms_of
from metatwist.wire.records import HEADER_BYTES, unpack_header

INDEX_STEP_BYTES = 256 * 1024


def times_of_marks(
    marks: Sequence[tuple[int, int]], last_id: int, modified_ms: int
) -> TimeIndex:
    """An index from (id, offset) pairs found by a scan.

    Ids of a Java broker count from its host's start. A run of them is shifted so that
    its last one falls on what is known to be later: the next id that carries wall-clock
    time, or the file's modification time.
    """
    times_ms: list[int] = []
    latest_ms, shift_ms = modified_ms, None
    if not is_wall_clock(last_id):
        shift_ms = latest_ms - time_ms_of(last_id)
    for message_id, _ in reversed(marks):
        time_ms = time_ms_of(message_id)
        if is_wall_clock(message_id):
            latest_ms, shift_ms = time_ms, None
        else:
            if shift_ms is None:
                shift_ms = latest_ms - time_ms
            time_ms = min(time_ms + shift_ms, latest_ms)
        times_ms.append(time_ms)
    index = TimeIndex()
    for (_, offset), time_ms in zip(marks, reversed(times_ms), strict=True):
        index.add(time_ms, offset)
    return index


def offset_at(
    segments: Sequence[Segment], end: int, time_ms: int, files: FileOps
) -> int:
    """The offset of the first message stored at or after `time_ms`, else `end`.

    Exact where ids carry wall-clock time; in what a Java broker wrote, up to one index
    step (256 KiB) early, and up to a segment where it is not indexed yet; never late.
    """
    for segment in segments[_first_to_walk(segments, time_ms, files) :]:
        begin = segment.load_index(files).floor(time_ms)
        start = segment.start if begin is None else begin
        try:
            with opened(files, segment.path) as fd:
                read = partial(files.read, fd)
                last = min(segment.end, end)
                found = _first_since(read, segment, start, last, time_ms)
        except FileNotFoundError:  # retention was quicker
            continue
        if found is not None:
            return found
    return end


def _first_to_walk(segments: Sequence[Segment], time_ms: int, files: FileOps) -> int:
    """The last segment known to begin before `time_ms`, 0 if there is none.

    Of an empty or not indexed segment it is not known when it begins; the search goes
    by one in front of it.
    """
    best, low, high = 0, 0, len(segments)
    while low < high:
        middle = probe = (low + high) // 2
        times_ms = segments[probe].load_index(files).times_ms
        while not times_ms and probe > low:
            probe -= 1
            times_ms = segments[probe].load_index(files).times_ms
        if times_ms and times_ms[0] >= time_ms:
            high = probe
        else:
            low = middle + 1
            best = probe if times_ms else best
    return best


def _first_since(
    read: ReadAt, segment: Segment, offset: int, end: int, time_ms: int
) -> int | None:
    """Walk headers from `offset`, a record's start, to the first one late enough."""
    while (offset := segment.readable_from(offset)) + HEADER_BYTES <= end:
        header = read(offset - segment.start, HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return None
        length, _, message_id, _ = unpack_header(header)
        if not is_wall_clock(message_id) or time_ms_of(message_id) >= time_ms:
            return offset
        offset += HEADER_BYTES + max(length, 0)
    return None
