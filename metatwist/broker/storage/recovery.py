"""From a directory to segments, with a report of all that was not as it should be.

Only what may have changed since the last checkpoint is walked. The torn or zero-filled
tail of the last segment is cut; a bad record before good ones is kept out of reads and
reported (spec storage 10, 18). Blocking; runs on a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from attrs import Factory, define, evolve

from metatwist.broker.storage import sidecar
from metatwist.broker.storage.files import FileOps, opened
from metatwist.broker.storage.scan import ReadAt, Scan, scan
from metatwist.broker.storage.segment import Segment, TimeIndex, parse_name
from metatwist.broker.storage.sidecar import Checkpoint, SidecarFacts
from metatwist.broker.storage.times import INDEX_STEP_BYTES, times_of_marks
from metatwist.errors import StorageError

_TAIL_BYTES = 2 * sidecar.LONGEST_LINE_BYTES
_KNOWN_SUFFIXES = (sidecar.SUFFIX, ".arc", ".zip")
_DRAFT_SUFFIX = ".tmp"


@define
class RecoveryReport:
    """What the load of one partition found.

    `clean`: the broker had stopped in order and nothing was walked. `scanned_bytes`:
    walked. `cut_bytes` were removed from `cut_at` on. `bad`: ranges that hold no whole
    records and stay. `problems`: sentences for an operator, each naming its file.
    """

    partition: str
    clean: bool = False
    scanned_bytes: int = 0
    cut_at: int = 0
    cut_bytes: int = 0
    bad: list[tuple[int, int]] = Factory(list)
    problems: list[str] = Factory(list)


@define
class Recovered:
    """Segments in order, the last one writable, and the newest message id or 0."""

    segments: list[Segment]
    report: RecoveryReport
    last_id: int = 0


def recover(files: FileOps, directory: Path, partition: str) -> Recovered:
    """Load one partition's directory.

    Raises StorageError, naming the file, where something may not be read or written.
    """
    report = RecoveryReport(partition)
    try:
        segments = _find_segments(files, directory, report)
        _check_contiguity(segments, report)
        recovered = Recovered(segments, report)
        for segment in segments[:-1]:
            _trust_sealed(files, segment, recovered)
        if segments:
            _recover_last(files, segments, recovered)
    except PermissionError as error:
        raise StorageError(f"{error.filename}: {error.strerror}") from error
    report.bad.extend(bad for segment in segments for bad in segment.bad)
    return recovered


def _find_segments(
    files: FileOps, directory: Path, report: RecoveryReport
) -> list[Segment]:
    found, sidecars = [], []
    for name, is_directory in files.entries(directory):
        path = directory / name
        start = None if is_directory else parse_name(name)
        if start is not None:
            if not files.readable(path):
                raise StorageError(f"{path}: may not be read")
            size = files.status(path).size_bytes
            found.append(Segment(path, start, start + size))
        elif name.endswith(sidecar.SUFFIX):
            sidecars.append(path)
        elif name.endswith(_DRAFT_SUFFIX):
            files.remove(path)
        elif not name.endswith(_KNOWN_SUFFIXES):
            report.problems.append(f"{path}: not a file of a partition, ignored")
    found.sort(key=lambda segment: segment.start)
    stems = {segment.path.stem for segment in found}
    for path in sidecars:
        if path.stem not in stems:
            files.remove(path)
    return found


def _check_contiguity(segments: list[Segment], report: RecoveryReport) -> None:
    """Report gaps; where files overlap, the later one holds from its start on."""
    for before, after in pairwise(segments):
        if before.end < after.start:
            report.problems.append(
                f"{before.path} ends at {before.end}, but {after.path.name} starts at"
                f" {after.start}: {after.start - before.end} bytes are missing;"
                " readers go on behind the gap"
            )
        elif before.end > after.start:
            report.problems.append(
                f"{before.path} ends at {before.end}, behind the start of"
                f" {after.path.name}: read only up to {after.start}"
            )
            before.end = after.start


def _trust_sealed(files: FileOps, segment: Segment, recovered: Recovered) -> None:
    """Take a sealed segment's facts from its sidecar; unverified without one."""
    segment.verified = False
    try:
        tail = files.read_tail(segment.sidecar_path, _TAIL_BYTES)
    except FileNotFoundError:
        return
    checkpoint = sidecar.last_checkpoint(tail, segment.end)
    sealed = checkpoint is not None and checkpoint.kind == "sealed"
    if checkpoint is None or not sealed or checkpoint.end != segment.end:
        return
    if checkpoint.bad_ranges:
        facts = _facts(files, segment)
        if len(facts.bad) != checkpoint.bad_ranges:
            return
        segment.bad = tuple(facts.bad)
    segment.verified = True
    segment.messages = checkpoint.messages
    recovered.last_id = max(recovered.last_id, checkpoint.last_id)


def _facts(files: FileOps, segment: Segment) -> SidecarFacts:
    try:
        text = files.read_all(segment.sidecar_path)
    except FileNotFoundError:
        return SidecarFacts()
    facts = sidecar.parse(text, segment.start, segment.size_bytes)
    return facts or SidecarFacts()


def _recover_last(
    files: FileOps, segments: list[Segment], recovered: Recovered
) -> None:
    segment, report = segments[-1], recovered.report
    facts = _facts(files, segment)
    checkpoint = facts.checkpoint
    if checkpoint and checkpoint.kind == "clean" and checkpoint.end == segment.end:
        report.clean = True
    else:
        with opened(files, segment.path, writable=True) as fd:
            facts = _walk_last(files, fd, segment, facts, report)
            files.sync(fd)
        if len(segments) > 1 and not segments[-2].verified:
            with opened(files, segments[-2].path) as fd:
                files.sync(fd)
        write_sidecar(files, segment, facts)
    take_facts(segment, facts)
    if facts.checkpoint:
        recovered.last_id = max(recovered.last_id, facts.checkpoint.last_id)


def _walk_last(
    files: FileOps,
    fd: int,
    segment: Segment,
    facts: SidecarFacts,
    report: RecoveryReport,
) -> SidecarFacts:
    """Walk from the checkpoint, cut the tail that holds no records."""
    modified_ms = int(files.status(segment.path).modified_s * 1000)

    def read(position: int, size: int) -> bytes:
        return files.read(fd, position, size)

    before = facts.checkpoint or Checkpoint("checkpoint", segment.start, 0, 0)
    found = _walk(read, segment, before, report)
    at_checkpoint = not found.messages or _starts_bad(found, before, segment)
    if before.end < segment.end and before.end > segment.start and at_checkpoint:
        # Another broker has rewritten the file since: trust nothing of the sidecar.
        facts = SidecarFacts()
        before = Checkpoint("checkpoint", segment.start, 0, 0)
        found = _walk(read, segment, before, report)
    size = found.end
    if segment.start + size < segment.end:
        report.cut_at = segment.start + size
        report.cut_bytes = segment.end - report.cut_at
        files.truncate(fd, size)
        segment.end = report.cut_at
    return merge(facts, before, found, segment, modified_ms)


def _walk(
    read: ReadAt, segment: Segment, before: Checkpoint, report: RecoveryReport
) -> Scan:
    begin = before.end - segment.start
    report.scanned_bytes += segment.size_bytes - begin
    return scan(read, begin, segment.size_bytes, INDEX_STEP_BYTES)


def _starts_bad(found: Scan, before: Checkpoint, segment: Segment) -> bool:
    return bool(found.bad) and found.bad[0][0] == before.end - segment.start


def merge(
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
    """Let a segment know what its sidecar says; keeps the index in memory."""
    segment.index = TimeIndex()
    for time_ms, offset in facts.times:
        segment.index.add(time_ms, offset)
    segment.bad = tuple(facts.bad)
    segment.messages = facts.checkpoint.messages if facts.checkpoint else 0


def write_sidecar(files: FileOps, segment: Segment, facts: SidecarFacts) -> None:
    """Write a sidecar anew, whole."""
    lines = [sidecar.line("segment", segment.start)]
    lines += [sidecar.line("time", time_ms, offset) for time_ms, offset in facts.times]
    lines += [sidecar.line("bad", begin, end) for begin, end in facts.bad]
    if facts.checkpoint:
        lines.append(sidecar.checkpoint_line(facts.checkpoint))
    files.replace_text(segment.sidecar_path, b"".join(lines))


def verify_sealed(
    files: FileOps, segment: Segment, pause: Callable[[], None]
) -> SidecarFacts:
    """Walk a sealed segment that no sidecar vouches for, and write its sidecar.

    A tail that holds no records becomes a bad range: a sealed segment is never cut.
    Touches nothing but files; the caller gives the facts to the segment.
    """
    modified_ms = int(files.status(segment.path).modified_s * 1000)
    with opened(files, segment.path) as fd:
        found = scan(
            lambda position, size: files.read(fd, position, size),
            0,
            segment.size_bytes,
            INDEX_STEP_BYTES,
            pause,
        )
        files.sync(fd)
    if found.end < segment.size_bytes:
        found.bad.append((found.end, segment.size_bytes))
        found.end = segment.size_bytes
    nothing = Checkpoint("sealed", segment.start, 0, 0)
    facts = merge(SidecarFacts(), nothing, found, segment, modified_ms)
    if facts.checkpoint:
        facts.checkpoint = evolve(facts.checkpoint, kind="sealed")
    write_sidecar(files, segment, facts)
    return facts
