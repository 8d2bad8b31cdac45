"""Walk a segment from where its sidecar leaves off, and keep what was found.

A sidecar is believed as far as the file bears it out. Where another broker has cut or
rewritten the file since, the whole of it is walked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from attrs import define, evolve

from metatwist.broker.storage import sidecar
from metatwist.broker.storage.files import FileOps, opened
from metatwist.broker.storage.scan import IdBounds, ReadAt, Scan, is_record, scan
from metatwist.broker.storage.segment import Segment, TimeIndex
from metatwist.broker.storage.sidecar import Checkpoint, SidecarFacts
from metatwist.broker.storage.times import INDEX_STEP_BYTES, times_of_marks
from metatwist.message_times import last_id_of

Pause = Callable[[], None]
_CLOCK_SLACK_MS = 1000  # file times are coarse, and ids may run a little ahead


@define
class Walk:
    """Older facts and new ones together; `end` is behind the last whole record."""

    facts: SidecarFacts
    end: int
    walked_bytes: int


def read_facts(files: FileOps, segment: Segment) -> SidecarFacts | None:
    """What the sidecar says; None where there is none that can be believed."""
    try:
        text = files.read_all(segment.sidecar_path)
    except OSError:
        return None
    facts = sidecar.parse(text, segment.start, segment.size_bytes)
    if facts is None or facts.checkpoint is None:
        return facts
    end, expected = facts.checkpoint.end, facts.checkpoint.bad_ranges
    known = sum(1 for _, bad_end in facts.bad if bad_end <= end)
    return facts if known == expected else None


def still_bad(read: ReadAt, segment: Segment, facts: SidecarFacts) -> bool:
    """False when a record starts where the sidecar says that none does."""
    return not any(
        is_record(read, begin - segment.start, segment.size_bytes)
        for begin, _ in facts.bad
    )


def walk(
    files: FileOps,
    fd: int,
    segment: Segment,
    facts: SidecarFacts,
    pause: Pause | None = None,
) -> Walk:
    """Walk on from the last checkpoint in `facts`."""
    modified_ms = int(files.status(segment.path).modified_s * 1000)
    read = partial(files.read, fd)
    nothing = Checkpoint("checkpoint", segment.start, 0, 0)
    before = facts.checkpoint or nothing
    highest_id = last_id_of(modified_ms + _CLOCK_SLACK_MS)
    found = _scan_from(read, segment, before, highest_id, pause)
    walked_bytes = segment.end - before.end
    believed = _bears_out(found, segment, before) and still_bad(read, segment, facts)
    if before.end > segment.start and not believed:
        facts, before = SidecarFacts(), nothing
        found = _scan_from(read, segment, before, highest_id, pause)
        walked_bytes += segment.size_bytes
    merged = _merge(facts, before, found, segment, modified_ms)
    return Walk(merged, segment.start + found.end, walked_bytes)


def _scan_from(
    read: ReadAt,
    segment: Segment,
    before: Checkpoint,
    highest_id: int,
    pause: Pause | None,
) -> Scan:
    begin = before.end - segment.start
    ids = IdBounds(before.last_id, highest_id)
    return scan(read, begin, segment.size_bytes, INDEX_STEP_BYTES, pause, ids)


def _bears_out(found: Scan, segment: Segment, before: Checkpoint) -> bool:
    """True when a record starts at the checkpoint, or the file ends there."""
    if before.end == segment.end:
        return True
    starts_bad = found.bad and found.bad[0][0] == before.end - segment.start
    return bool(found.messages) and not starts_bad


def _merge(
    facts: SidecarFacts,
    before: Checkpoint,
    found: Scan,
    segment: Segment,
    modified_ms: int,
) -> SidecarFacts:
    """Older facts up to `before` and what a walk from there found."""
    start = segment.start
    last_id = found.last_id or before.last_id
    marks = [(message_id, start + position) for message_id, position in found.marks]
    index = TimeIndex()
    for time_ms, offset in facts.times:
        if offset < before.end:
            index.add(time_ms, offset)
    for time_ms, offset in times_of_marks(marks, last_id, modified_ms):
        index.add(time_ms, offset)
    bad = [pair for pair in facts.bad if pair[1] <= before.end]
    bad += [(start + begin, start + end) for begin, end in found.bad]
    messages = before.messages + found.messages
    end = start + found.end
    checkpoint = Checkpoint("checkpoint", end, messages, last_id, len(bad))
    return SidecarFacts(checkpoint, list(index), bad)


def take_facts(segment: Segment, facts: SidecarFacts) -> None:
    """Let a segment know what its sidecar says, all but the times."""
    segment.bad = tuple(facts.bad)
    checkpoint = facts.checkpoint
    segment.messages = checkpoint.messages if checkpoint else 0
    segment.last_id = checkpoint.last_id if checkpoint else 0
    segment.verified = True


def write_sidecar(files: FileOps, segment: Segment, facts: SidecarFacts) -> None:
    """Write a sidecar anew, whole; one that cannot be written is as good as none."""
    lines = [sidecar.line("segment", segment.start)]
    lines += [sidecar.line("time", time_ms, offset) for time_ms, offset in facts.times]
    lines += [sidecar.line("bad", begin, end) for begin, end in facts.bad]
    if facts.checkpoint:
        lines.append(sidecar.checkpoint_line(facts.checkpoint))
    try:
        files.replace_text(segment.sidecar_path, b"".join(lines))
    except OSError:
        # What an older one says may be wrong by now.
        with suppress(OSError):
            files.remove(segment.sidecar_path)


def verify_sealed(
    files: FileOps,
    segment: Segment,
    pause: Pause | None = None,
    known: SidecarFacts | None = None,
) -> SidecarFacts:
    """Walk a sealed segment that no sidecar vouches for, and write its sidecar.

    A tail that holds no records becomes a bad range: a sealed segment is never cut.
    Touches nothing but files; the caller gives the facts to the segment. Raises OSError
    when the segment cannot be read.
    """
    with opened(files, segment.path) as fd:
        walked = walk(files, fd, segment, known or SidecarFacts(), pause)
        files.sync(fd)
    facts = walked.facts
    if walked.end < segment.end:
        facts.bad.append((walked.end, segment.end))
    assert facts.checkpoint is not None
    facts.checkpoint = evolve(
        facts.checkpoint, kind="sealed", end=segment.end, bad_ranges=len(facts.bad)
    )
    write_sidecar(files, segment, facts)
    return facts
