"""From a directory to segments, with a report of all that was not as it should be.

Only what may have changed since the last checkpoint is walked. The torn or zero-filled
tail of the last segment is cut; a bad record before good ones is kept out of reads and
reported (spec storage 10, 18). Blocking; runs on a worker thread.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

from attrs import Factory, define

from metatwist.broker.storage import sidecar
from metatwist.broker.storage.checkpoints import CHECKPOINT_BYTES
from metatwist.broker.storage.files import FileOps, opened
from metatwist.broker.storage.segment import SUFFIX, Segment, TimeIndex, parse_name
from metatwist.broker.storage.sidecar import SidecarFacts
from metatwist.broker.storage.walking import (
    read_facts,
    still_bad,
    take_facts,
    verify_sealed,
    walk,
    write_sidecar,
)
from metatwist.errors import StorageError

_TAIL_BYTES = 2 * sidecar.LONGEST_LINE_BYTES
_ARCHIVE_SUFFIXES = (".arc", ".zip")
_DRAFT_SUFFIX = ".tmp"
_WALKED_AT_START_BYTES = 4 * CHECKPOINT_BYTES


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

    Raises StorageError, naming what, where something may not be read or written.
    """
    report = RecoveryReport(partition)
    recovered = Recovered([], report)
    try:
        recovered.segments = segments = _find_segments(files, directory, report)
        _check_contiguity(segments, report)
        for segment in segments[:-1]:
            _trust_sealed(files, segment, recovered)
        if segments:
            _recover_last(files, directory, recovered)
    except OSError as error:
        where = error.filename or directory
        raise StorageError(f"{where}: {error.strerror or error}") from error
    report.bad.extend(bad for segment in segments for bad in segment.bad)
    return recovered


def _find_segments(
    files: FileOps, directory: Path, report: RecoveryReport
) -> list[Segment]:
    found, sidecars, drafts = [], [], []
    for name, is_directory in files.entries(directory):
        path = directory / name
        start = None if is_directory else parse_name(name)
        if start is not None:
            if not files.readable(path):
                raise StorageError(f"{path}: may not be read")
            size = files.status(path).size_bytes
            found.append(Segment(path, start, start + size))
        elif is_directory or not _is_ours(name):
            report.problems.append(f"{path}: not a file of a partition, ignored")
        elif name.endswith(sidecar.SUFFIX):
            sidecars.append(path)
        elif name.endswith(_DRAFT_SUFFIX):
            drafts.append(path)
    found.sort(key=lambda segment: segment.start)
    stems = {segment.path.stem for segment in found}
    drafts += [path for path in sidecars if path.stem not in stems]
    for path in drafts:
        with suppress(OSError):
            files.remove(path)
    return found


def _is_ours(name: str) -> bool:
    """True for what belongs to a segment, the segment itself or its archive aside:
    sidecars, archives, and drafts of either."""
    digits, _, rest = name.removesuffix(_DRAFT_SUFFIX).partition(".")
    known = sidecar.SUFFIX, *(SUFFIX + suffix for suffix in _ARCHIVE_SUFFIXES)
    return parse_name(digits + SUFFIX) is not None and f".{rest}" in known


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
    except OSError:
        return
    checkpoint = sidecar.last_checkpoint(tail, segment.end)
    if checkpoint is None:
        return
    recovered.last_id = max(recovered.last_id, checkpoint.last_id)
    if checkpoint.kind != "sealed" or checkpoint.end != segment.end:
        return
    facts: SidecarFacts | None = SidecarFacts(checkpoint)
    if checkpoint.bad_ranges:
        facts = read_facts(files, segment)
    if facts is not None:
        take_facts(segment, facts)


def _recover_last(files: FileOps, directory: Path, recovered: Recovered) -> None:
    segment = recovered.segments[-1]
    facts = read_facts(files, segment) or SidecarFacts()
    recovered.report.clean = _is_clean(files, segment, facts)
    if not recovered.report.clean:
        for sealed in reversed(recovered.segments[:-1]):
            if sealed.verified:
                break
            _finish_sealed(files, sealed, recovered)
        _remember_id(recovered, facts)
        facts = _walk_last(files, segment, facts, recovered.report)
        # The names as well: what is served from now on has to outlast a power loss.
        files.sync_directory(directory)
        files.sync_directory(directory.parent)
        write_sidecar(files, segment, facts)
    take_facts(segment, facts)
    segment.index = TimeIndex()
    for time_ms, offset in facts.times:
        segment.index.add(time_ms, offset)
    _remember_id(recovered, facts)


def _is_clean(files: FileOps, segment: Segment, facts: SidecarFacts) -> bool:
    """True when the broker had stopped in order and nobody has written since."""
    checkpoint = facts.checkpoint
    if checkpoint is None:
        return False
    if checkpoint.kind != "clean" or checkpoint.end != segment.end:
        return False
    if not facts.bad:
        return True
    with opened(files, segment.path) as fd:
        return still_bad(partial(files.read, fd), segment, facts)


def _remember_id(recovered: Recovered, facts: SidecarFacts) -> None:
    if facts.checkpoint is not None:
        recovered.last_id = max(recovered.last_id, facts.checkpoint.last_id)


def _finish_sealed(files: FileOps, segment: Segment, recovered: Recovered) -> None:
    """Look after a segment that a crash kept from being sealed.

    Of one that another broker left, too much to walk now, only the sync is made up for.
    """
    facts = read_facts(files, segment)
    checkpoint = facts.checkpoint if facts else None
    walked_to = checkpoint.end if checkpoint else segment.start
    if facts is None or segment.end - walked_to > _WALKED_AT_START_BYTES:
        with opened(files, segment.path) as fd:
            files.sync(fd)
        return
    recovered.report.scanned_bytes += segment.end - walked_to
    facts = verify_sealed(files, segment, known=facts)
    take_facts(segment, facts)
    _remember_id(recovered, facts)


def _walk_last(
    files: FileOps, segment: Segment, facts: SidecarFacts, report: RecoveryReport
) -> SidecarFacts:
    """Walk from the checkpoint, cut the tail that holds no records, sync the rest."""
    with opened(files, segment.path, writable=True) as fd:
        walked = walk(files, fd, segment, facts)
        report.scanned_bytes += walked.walked_bytes
        if walked.end < segment.end:
            report.cut_at, report.cut_bytes = walked.end, segment.end - walked.end
            files.truncate(fd, walked.end - segment.start)
            segment.end = walked.end
        files.sync(fd)
    return walked.facts
