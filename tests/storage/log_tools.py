"""Open, fill, sync and read partitions the way the broker and its clients do."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from metatwist.broker.storage.file_pool import FilePool
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import LogContext, PartitionLog
from metatwist.broker.storage.recovery import recover
from metatwist.broker.storage.slices import FileSlice, NothingThere, OffsetMoved
from metatwist.message_times import EPOCH_MS, TIME_SHIFT
from metatwist.wire.records import (
    HEADER_BYTES,
    Record,
    encode,
    is_intact,
    whole_records,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "java-1.4.6.2"
BASE_MS = 1_700_000_000_000


def wall_id(time_ms: int) -> int:
    """The first message id of a millisecond since 1970."""
    return (time_ms - EPOCH_MS) << TIME_SHIFT


def payload(number: int, size: int) -> bytes:
    """Bytes that differ from one number to the next."""
    return random.Random(number).randbytes(size)


def records(first: int, sizes: Iterable[int]) -> list[bytes]:
    """Whole records, one for each payload size, with ids a millisecond apart."""
    return [
        encode(wall_id(BASE_MS + number), 0, payload(number, size))
        for number, size in enumerate(sizes, first)
    ]


def copied(source: Path, target: Path) -> Path:
    """A writable copy of a directory."""
    shutil.copytree(source, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def open_log(
    directory: Path,
    files: FileOps | None = None,
    max_segment_bytes: int = 1 << 30,
    descriptors: int = 64,
) -> PartitionLog:
    """Recover a directory, created if need be, and open its log."""
    files = files or FileOps()
    files.make_directory(directory)
    context = LogContext(files, FilePool(files, descriptors), max_segment_bytes)
    return PartitionLog(directory, recover(files, directory, directory.name), context)


def append(log: PartitionLog, batch: Sequence[bytes]) -> None:
    """Append whole records as the broker does: header, payload, header, ..."""
    buffers: list[bytes] = []
    for record in batch:
        buffers += record[:HEADER_BYTES], record[HEADER_BYTES:]
    last_id = int.from_bytes(batch[-1][8:16], "big", signed=True)
    log.append(buffers, sum(map(len, batch)), last_id)


def sync(log: PartitionLog, files: FileOps) -> None:
    """Make all that is written durable and readable; OSError ends writing."""
    job = log.sync_job()
    try:
        for directory in job.directories:
            files.sync_directory(directory)
        for file in job.files:
            files.sync(file.fd)
    except OSError as error:
        log.sync_failed(job, str(error))
        raise
    log.synced(job)
    log.mark_readable(log.durable_end)


def store(log: PartitionLog, files: FileOps, batch: Sequence[bytes]) -> None:
    """Append and sync."""
    append(log, batch)
    sync(log, files)


def read_slice(log: PartitionLog, found: FileSlice) -> bytes:
    """The bytes of a slice."""
    file = log.open(found.segment)
    try:
        return FileOps().read(file.fd, found.position, found.size)
    finally:
        file.release()


def consume(
    log: PartitionLog, offset: int | None = None, limit: int = 1 << 20
) -> Iterator[Record]:
    """All records from `offset` on, as a consumer gets them; offsets are absolute.

    Goes on where it is sent by a 301, asks for more when not one record fits, and fails
    on a record that does not match its checksum.
    """
    offset = log.start if offset is None else offset
    size = limit
    while not isinstance(found := log.slice(offset, size), NothingThere):
        if isinstance(found, OffsetMoved):
            assert found.offset > offset, f"sent back from {offset} to {found.offset}"
            offset = found.offset
            continue
        data = read_slice(log, found)
        assert len(data) == found.size, "the file is shorter than the log says"
        whole = list(whole_records(data))
        if not whole:
            assert size < 1 << 26, f"nothing but half a record at {offset}"
            size *= 2
            continue
        for record in whole:
            assert is_intact(record), f"a damaged record at {offset + record.offset}"
            yield record._replace(offset=offset + record.offset)
        offset += whole[-1].offset + whole[-1].size_bytes
        size = limit


def contents(log: PartitionLog, limit: int = 1 << 20) -> list[bytes]:
    """All that a consumer gets, each record as it is stored."""
    return [
        encode(record.message_id, record.flag, record.payload)
        for record in consume(log, limit=limit)
    ]
