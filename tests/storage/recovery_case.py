"""A partition directory that a test tampers with between two starts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.storage.segment import segment_path
from metatwist.broker.storage.walking import verify_sealed
from tests.storage.log_tools import open_log
from tests.support.faulty_files import FaultyFiles

SEGMENT_BYTES = 1000


class RecoveryCase(SynchronousTestCase):
    """A partition directory to be tampered with."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name) / "t-0"
        self.directory.mkdir()
        self.files = FaultyFiles()

    def open(self) -> PartitionLog:
        """The log after a start."""
        return open_log(self.directory, self.files, SEGMENT_BYTES)

    def write(self, start: int, data: bytes) -> Path:
        """A segment as another broker leaves it, without a sidecar."""
        path = segment_path(self.directory, start)
        path.write_bytes(data)
        return path

    def verify(self, log: PartitionLog) -> None:
        """What the broker does in the background after a start."""
        for segment in log.segments[:-1]:
            if not segment.verified:
                log.verified(segment, verify_sealed(self.files, segment))
