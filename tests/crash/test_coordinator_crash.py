"""The short form of `make crash-coordinator`, and disks that fail for good."""

from __future__ import annotations

import random
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.process.broker_case import WAIT_S, BrokerCase

from .coordinator_campaign import (
    CoordinatorCampaign,
    Plan,
    coordinator_broker,
    database_of,
)
from .offsets import OffsetWriter
from .tree_truth import TreeTruth

pytestmark = pytest.mark.process
ROUNDS = 5
GROUPS = 12
_LIMIT_BYTES = 300_000


class ShortCampaign(SynchronousTestCase):
    """A few rounds, another seed each time; the seed is in the message of a failure."""

    def test_nothing_acknowledged_is_lost(self) -> None:
        """Killed under load, in its start and its stop, the coordinator keeps what it
        acknowledged, and what is there was done in order and whole."""
        seed = random.randrange(1 << 32)
        work_dir = Path(tempfile.mkdtemp())
        plan = Plan(ROUNDS, seed, work_dir, GROUPS, 0.4, lambda _: None)
        campaign = CoordinatorCampaign(plan)
        try:
            totals = campaign.run()
        except Exception as error:
            error.args = (f"seed {seed}, {work_dir}: {error}",)
            raise
        shutil.rmtree(work_dir)
        self.assertGreater(totals.kills_in_first_start, 0)
        self.assertGreater(totals.kills, totals.kills_in_first_start)
        self.assertGreater(totals.acknowledged, 0)
        self.assertGreater(totals.checked, 0)


class CoordinatorCase(BrokerCase):
    """A broker with an embedded coordinator; `truth` is about what is in that."""

    def setUp(self) -> None:
        """Start it; nobody has written anything yet."""
        super().setUp()
        self.broker, self.port = coordinator_broker(self.directory / "broker")
        self.addCleanup(self.broker.kill)
        self.database = database_of(self.broker)
        self.truth = TreeTruth(GROUPS)
        self.broker.start()
        self.verify()

    def verify(self) -> None:
        """Check all that is there."""
        self.truth.verify(self.port, self.broker.address)

    def writer(self) -> OffsetWriter:
        """One that writes for all groups."""
        writer = OffsetWriter(self.port, self.truth.models, random.Random(1))
        writer.start()
        return writer

    def take_notes(self, writer: OffsetWriter) -> int:
        """Wait for its end, and count what was acknowledged."""
        writer.join(WAIT_S)
        self.assertEqual((writer.is_alive(), writer.error), (False, None))
        for notes in writer.notes:
            self.truth.take(notes)
        return sum(notes.answered for notes in writer.notes)


class FailingDisk(CoordinatorCase):
    """Writes to the database fail, and not for want of space."""

    def test_nothing_more_is_acknowledged(self) -> None:
        """Clients are turned away, log and `status` say why, messages are served on,
        and a stop is orderly; the next start has all that was acknowledged."""
        writer = self.writer()
        limit = (_LIMIT_BYTES, resource.RLIM_INFINITY)
        resource.prlimit(self.broker.pid, resource.RLIMIT_FSIZE, limit)
        self.assertGreater(self.take_notes(writer), 0)
        problem = self.broker.cli_json("status")["coordination"]["problem"]
        for said in (problem, self.broker.output()):
            self.assertIn("nothing more is stored until the next start", said)
        self.client(self.broker).put("test", 0, b"served")
        self.terminate(self.broker)
        self.broker.start()
        self.verify()


class DamagedDatabase(CoordinatorCase):
    """A database that cannot be what the coordinator left in it."""

    def setUp(self) -> None:
        """Fill the database and stop in order; no log is left then."""
        super().setUp()
        writer = self.writer()
        self.wait_until(
            lambda: sum(notes.answered for notes in writer.notes) > 2000,
            "much is written",
        )
        writer.finish()
        self.assertGreater(self.take_notes(writer), 0)
        self.broker.stop()
        self.whole = self.database.read_bytes()
        self.assertGreater(len(self.whole), 40_000)

    def assert_refused(self, *words: str) -> None:
        """A start ends with an error that has these words, and changes nothing."""
        damaged = self.database.read_bytes()
        done = self.broker.run_once()
        self.assertEqual(done.returncode, 1)
        said = done.stdout + done.stderr
        for one in ("cannot start", str(self.database), *words):
            self.assertIn(one, said)
        self.assertNotIn("Traceback", said)
        self.assertEqual(self.database.read_bytes(), damaged)

    def test_damage(self) -> None:
        """A head, pages or an end that are wrong are told with what to do about it;
        the file is left alone; once it is restored all is there."""
        middle = len(self.whole) // 2
        ways: dict[str, Callable[[bytes], bytes]] = {
            "head": lambda data: bytes(100) + data[100:],
            "pages": lambda data: (
                data[:4096] + b"\xa5" * middle + data[4096 + middle :]
            ),
            "end": lambda data: data[:middle],
        }
        for damage in ways.values():
            self.database.write_bytes(damage(self.whole))
            self.assert_refused("is damaged", ".recover", "move it away")
        self.database.write_bytes(self.whole)
        self.broker.start()
        self.verify()

    def test_other_database(self) -> None:
        """Some other program's database is told from a damaged one."""
        self.database.unlink()
        connection = sqlite3.connect(self.database)
        connection.execute("CREATE TABLE mine(one)")
        connection.close()
        self.assert_refused("some other program")
