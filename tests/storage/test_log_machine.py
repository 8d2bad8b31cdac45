"""A partition against a model, through appends, faults, stops, crashes and retention.

The model is a list of records. What was synced must be there for ever, at its offset;
what was only written may be lost in a crash, record by record; nothing else appears.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.storage.segment import parse_name
from metatwist.broker.storage.slices import FileSlice, NothingThere, OffsetMoved
from metatwist.broker.storage.walking import verify_sealed
from metatwist.wire.records import HEADER_BYTES, encode
from tests.storage.log_tools import (
    append,
    consume,
    open_log,
    read_slice,
    records,
    sync,
)
from tests.support.faulty_files import FaultyFiles

SEGMENT_BYTES = 600
FAULTS = (
    {"write": 0.6},
    {"write": 0.6, "truncate": 0.6},
    {"create": 0.7},
    {"write": 0.5, "create": 0.3, "remove": 0.5, "truncate": 0.3, "append_text": 0.5},
)


def same_message(found: bytes, written: bytes) -> bool:
    """True when they differ at most in id and flag, which no checksum covers."""
    return found[:8] == written[:8] and found[HEADER_BYTES:] == written[HEADER_BYTES:]


class PartitionMachine(RuleBasedStateMachine):
    """Steps that the system under test and the model take together."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.lives = 0
        self.files = FaultyFiles()
        self.directory = self.root / "life0" / "t-0"
        self.log = self.opened()
        self.model: dict[int, bytes] = {}
        self.refused: dict[int, list[bytes]] = {}
        self.number = 1
        self.durable_names: set[str] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def opened(self) -> PartitionLog:
        """The log of the directory, with the work that follows a start done."""
        self.files.calls.clear()
        log = open_log(self.directory, self.files, SEGMENT_BYTES, descriptors=2)
        self.reads_of_start = self.files.calls["read"]
        for segment in log.segments[:-1]:
            if not segment.verified:
                log.verified(segment, verify_sealed(self.files, segment))
        return log

    # -- steps --------------------------------------------------------------------

    def try_append(self, sizes: list[int]) -> bool:
        """Append a batch; the model takes it when it is not refused."""
        batch = records(self.number, sizes)
        self.number += len(batch)
        end = self.log.log_end
        try:
            append(self.log, batch)
        except OSError:
            assert self.log.log_end == end
            for record in batch:
                self.refused.setdefault(end, []).append(record)
                end += len(record)
            return False
        self.refused.clear()
        for record in batch:
            self.model[end] = record
            end += len(record)
        assert self.log.log_end == end
        return True

    @rule(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=8))
    def append(self, sizes: list[int]) -> None:
        """Puts that go well, unless an earlier failure is still in the way."""
        self.files.heal()
        assert self.try_append(sizes)

    @rule(
        sizes=st.lists(st.integers(0, 300), min_size=1, max_size=8),
        rates=st.sampled_from(FAULTS),
    )
    def append_on_a_bad_disk(self, sizes: list[int], rates: dict[str, float]) -> None:
        """Puts that are stored whole or not at all."""
        self.files.fail_at_random(**rates)
        self.try_append(sizes)

    @rule()
    def sync(self) -> None:
        """All that is written becomes durable and readable."""
        names = {path.name for path in self.directory.iterdir()}
        job = self.log.sync_job()
        if self.directory in job.directories:
            self.durable_names = names
        for file in job.files:
            self.files.sync(file.fd)
        self.log.synced(job)
        self.log.mark_readable(self.log.durable_end)

    @rule()
    def show(self) -> None:
        """As direct mode does: readable when written."""
        self.log.mark_readable(self.log.log_end)

    @rule()
    def stop_in_order(self) -> None:
        """After an orderly stop all is there, and nothing is walked."""
        self.files.heal()
        assert self.try_append([1])
        sync(self.log, self.files)
        self.log.close()
        self.log = self.opened()
        assert self.log.report.clean
        assert self.reads_of_start <= len(self.log.report.bad)

    @rule(seed=st.integers(0, 1 << 32))
    def crash(self, seed: int) -> None:
        """Power fails: what was not synced is cut, zeroed, garbled or kept."""
        self.files.heal()
        self.lives += 1
        target = self.root / f"life{self.lives}" / "t-0"
        shutil.copytree(self.directory, target)
        for path in sorted(target.iterdir()):
            self.lose(path, random.Random(f"{seed}{path.name}"))
        lost = self.directory
        durable_end = self.log.durable_end
        self.log.close()
        shutil.rmtree(lost.parent)
        self.directory = target
        self.log = self.opened()
        self.compare(durable_end)
        self.durable_names = {path.name for path in target.iterdir()}

    def lose(self, path: Path, chance: random.Random) -> None:
        """Do to one file what the loss of power may do."""
        start = parse_name(path.name)
        kept = 0 if start is None else max(0, self.log.durable_end - start)
        if path.name not in self.durable_names and not kept and chance.random() < 0.3:
            path.unlink()
            return
        data = path.read_bytes()
        at = chance.randint(min(kept, len(data)), len(data))
        how = chance.randrange(4)
        if how == 1:
            data = data[:at]
        elif how == 2:
            data = data[:at] + bytes(len(data) - at)
        elif how == 3:
            end = chance.randint(at, len(data))
            data = data[:at] + chance.randbytes(end - at) + data[end:]
        path.write_bytes(data)

    def compare(self, durable_end: int) -> None:
        """What the new life holds is what was synced and some of what was written."""
        found = {
            record.offset: encode(record.message_id, record.flag, record.payload)
            for record in consume(self.log)
        }
        for offset, record in self.model.items():
            if offset < durable_end:
                assert found.get(offset) == record, f"lost: the record at {offset}"
        for offset, record in found.items():
            # What was refused may be there if it could not be cut off before the crash.
            written = [*self.refused.get(offset, []), self.model.get(offset, b"")]
            assert any(same_message(record, one) for one in written), offset
        self.model = found
        self.refused.clear()

    def can_drop(self) -> bool:
        """True when the oldest segment is sealed and has been readable."""
        segments = self.log.segments
        return len(segments) > 1 and segments[1].start <= self.log.readable_end

    @precondition(can_drop)
    @rule()
    def retain(self) -> None:
        """Retention takes the oldest segment."""
        segment = self.log.segments[0]
        segment.path.unlink()
        self.log.drop_front(segment)
        start = self.log.start
        self.model = {at: one for at, one in self.model.items() if at >= start}

    # -- reading ------------------------------------------------------------------

    @rule(where=st.floats(-0.1, 1.1), limit=st.integers(1, 2000))
    def read(self, where: float, limit: int) -> None:
        """Any read answers with bytes of the model, or where to go on."""
        log = self.log
        offset = log.start + int(where * (log.log_end - log.start))
        found = log.slice(offset, limit)
        if isinstance(found, FileSlice):
            assert 0 < found.size <= limit
            assert offset + found.size <= log.readable_end
            data = read_slice(log, found)
            assert data == self.bytes_at(offset, found.size)
        elif isinstance(found, OffsetMoved):
            assert found.offset > offset
            if offset < log.start:
                assert found.offset == log.start
            else:
                assert not self.bytes_at(offset, 1)
        else:
            assert isinstance(found, NothingThere)
            assert offset >= log.readable_end
            assert found.beyond == (offset > log.readable_end)

    def bytes_at(self, offset: int, size: int) -> bytes:
        """The model's bytes, empty where it has none."""
        pieces = b""
        for start, record in sorted(self.model.items()):
            if start <= offset + len(pieces) < start + len(record):
                pieces += record[offset + len(pieces) - start :]
        return pieces[:size]

    @invariant()
    def a_consumer_gets_all(self) -> None:
        """One that starts at the front gets each readable record once, in order."""
        readable = self.log.readable_end
        got = [one.offset for one in consume(self.log, limit=100)]
        assert got == sorted(at for at in self.model if at < readable)

    @invariant()
    def marks_are_in_order(self) -> None:
        """What is durable was written, what is readable too."""
        assert self.log.durable_end <= self.log.log_end
        assert self.log.start <= self.log.readable_end <= self.log.log_end


PartitionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
PartitionTests = PartitionMachine.TestCase
