"""Directories left by the released Java broker, message by message."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.catalog import Catalog
from metatwist.broker.storage.file_pool import FilePool
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import LogContext, PartitionLog
from metatwist.broker.storage.slices import OffsetMoved
from metatwist.broker.storage.walking import verify_sealed
from tests.storage.log_tools import FIXTURES, consume, copied

VARIANTS = ("torn-tail", "zero-tail", "zero-block", "last-middle", "sealed-middle")


def manifest(name: str) -> dict[str, Any]:
    """What is in a fixture."""
    found: dict[str, Any] = json.loads((FIXTURES / name / "manifest.json").read_text())
    return found


def body_of(value: dict[str, Any]) -> bytes:
    """The bytes that a manifest describes."""
    if "hex" in value:
        return bytes.fromhex(value["hex"])
    if "text" in value:
        return str(value["text"]).encode()
    made, block = b"", 0
    while len(made) < value["length"]:
        made += hashlib.sha256(f"{value['seed']}:{block}".encode()).digest()
        block += 1
    return made[: value["length"]]


def ranges(log: PartitionLog) -> list[list[int]]:
    """The unbroken runs of records that a consumer gets."""
    found: list[list[int]] = []
    for record in consume(log):
        end = record.offset + record.size_bytes
        if found and found[-1][1] == record.offset:
            found[-1][1] = end
        else:
            found.append([record.offset, end])
    return found


class FixtureCase(SynchronousTestCase):
    """Opens copies of fixtures with a real catalog."""

    def load(self, source: Path) -> Catalog:
        """A catalog of all partitions in a copy of a data root."""
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        root = copied(source, Path(temporary.name) / "data")
        files = FileOps()
        catalog = Catalog(LogContext(files, FilePool(files, 16), 1 << 30))
        catalog.lock([root])
        self.addCleanup(catalog.close)
        for directory in catalog.discover([root]).directories:
            catalog.loaded(directory, catalog.load(directory))
        return catalog

    def assert_holds(self, log: PartitionLog, messages: list[dict[str, Any]]) -> None:
        """The log gives exactly these messages."""
        got = list(consume(log, limit=3000))
        self.assertEqual([one.offset for one in got], [m["offset"] for m in messages])
        for record, expected in zip(got, messages, strict=True):
            self.assertEqual(record.message_id, expected["id"])
            if "body" in expected:
                self.assertEqual(record.flag, expected["flag"])
                self.assertEqual(record.attribute, expected["attribute"])
                self.assertEqual(record.body, body_of(expected["body"]))


class DirectoryTests(FixtureCase):
    """Whole directories."""

    def partitions(self, name: str) -> Iterator[tuple[PartitionLog, dict[str, Any]]]:
        """Each log of a fixture with what the manifest says of it."""
        catalog = self.load(FIXTURES / name / "data")
        expected = manifest(name)["partitions"]
        found = {log.directory.name: log for log in catalog.logs.values()}
        self.assertEqual(set(found), set(expected))
        for partition, log in found.items():
            yield log, expected[partition]

    def assert_all(self, name: str) -> None:
        """Every partition holds its messages at their offsets."""
        for log, expected in self.partitions(name):
            self.assert_holds(log, expected["messages"])
            self.assertEqual(log.start, expected["min_offset"])
            self.assertEqual(log.readable_end, expected["max_offset"])
            self.assertEqual(log.report.bad, [])
            self.assertEqual(log.report.problems, [])
            starts = [(one.start, one.size_bytes) for one in log.segments]
            self.assertEqual(
                starts, [(one["start"], one["size"]) for one in expected["segments"]]
            )

    def test_plain(self) -> None:
        """What a broker left that was stopped in order is read, message by message."""
        self.assert_all("plain")

    def test_killed(self) -> None:
        """What a killed broker left is read, all it had acknowledged included."""
        self.assert_all("killed")

    def test_archived(self) -> None:
        """Archived segments are ignored, the live ones are read, the last one empty."""
        self.assert_all("archived")

    def test_transactions(self) -> None:
        """Messages published by transactions are plain messages on disk."""
        catalog = self.load(FIXTURES / "transactions" / "data")
        visible = manifest("transactions")["after_recovery"]["visible"]
        self.assertEqual(
            {log.directory.name for log in catalog.logs.values()}, set(visible)
        )
        for log in catalog.logs.values():
            self.assert_holds(log, visible[log.directory.name])

    def test_second_start_finds_the_same(self) -> None:
        """What the first start writes down changes nothing for the second."""
        catalog = self.load(FIXTURES / "plain" / "data")
        first = {key: list(consume(log)) for key, log in catalog.logs.items()}
        roots = {log.directory.parent for log in catalog.logs.values()}
        catalog.close()
        catalog.logs.clear()
        for directory in catalog.discover(roots).directories:
            log = catalog.loaded(directory, catalog.load(directory))
            self.assertTrue(log.report.clean)
        second = {key: list(consume(log)) for key, log in catalog.logs.items()}
        self.assertEqual(first, second)


class VariantTests(FixtureCase):
    """Damaged copies of two segments."""

    def variant(self, name: str) -> tuple[PartitionLog, dict[str, Any]]:
        """The log of a variant, and what the manifest says of it."""
        catalog = self.load(FIXTURES / "killed" / "variants" / name)
        return catalog.logs["load", 0], manifest("killed")["variants"][name]

    def verify(self, log: PartitionLog) -> None:
        """What the broker does in the background after a start."""
        for segment in log.segments[:-1]:
            log.verified(segment, verify_sealed(FileOps(), segment))

    def test_readable(self) -> None:
        """After verification a consumer gets all good records and no other byte."""
        for name in VARIANTS:
            log, expected = self.variant(name)
            self.verify(log)
            self.assertEqual(ranges(log), expected["readable"], name)
            self.assert_holds(log, expected["messages"])
            self.assertEqual(log.readable_end, expected["readable"][-1][1], name)
            self.assertEqual(log.messages, len(expected["messages"]), name)

    def test_tails_are_cut(self) -> None:
        """A torn tail and one of zeros are cut off, and the cut is reported."""
        for name in ("torn-tail", "zero-tail", "zero-block"):
            log, expected = self.variant(name)
            begin, end = expected["unreadable"]
            self.assertEqual(log.report.cut_at, begin, name)
            self.assertEqual(log.report.cut_bytes, end - begin, name)
            size = (log.segments[-1].path).stat().st_size
            self.assertEqual(log.segments[-1].start + size, begin, name)

    def test_middle_is_passed_over(self) -> None:
        """Readers in a damaged range are sent behind it, and nothing is cut."""
        for name in ("last-middle", "sealed-middle"):
            log, expected = self.variant(name)
            self.verify(log)
            begin, end = expected["unreadable"]
            self.assertEqual(log.report.bad, [(begin, end)], name)
            self.assertEqual(log.report.cut_bytes, 0, name)
            for offset in (begin, begin + 1, end - 1):
                self.assertEqual(log.slice(offset, 100), OffsetMoved(end), name)

    def test_damage_is_known_at_the_next_start(self) -> None:
        """A damaged range is passed over after a restart without a new walk."""
        for name in ("last-middle", "sealed-middle"):
            log, expected = self.variant(name)
            self.verify(log)
            log.close()
            files = FileOps()
            catalog = Catalog(LogContext(files, FilePool(files, 16), 1 << 30))
            (directory,) = catalog.discover([log.directory.parent]).directories
            again = catalog.loaded(directory, catalog.load(directory))
            self.assertTrue(again.report.clean, name)
            self.assertEqual(again.report.scanned_bytes, 0, name)
            self.assertEqual(ranges(again), expected["readable"], name)
            catalog.close()
