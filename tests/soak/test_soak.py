"""The soak, for a quarter of a minute."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.soak.rig import Rig
from tests.soak.run import Soak

pytestmark = pytest.mark.process
SECONDS = 12
SEED = 5


class ShortSoak(SynchronousTestCase):
    """`make soak` has the long form."""

    def test_short(self) -> None:
        """All that was acknowledged under faults is consumed, each message is answered
        once, members end in order, and something was tried."""
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        lines: list[str] = []
        with Rig(directory) as rig:
            outcome = Soak(rig, Random(SEED), lines.append).run(SECONDS)
        self.assertEqual(outcome.problems, [])
        self.assertGreater(outcome.acked, 200)
        self.assertGreaterEqual(outcome.consumed, outcome.acked)
        self.assertGreaterEqual(outcome.faults.total(), 1, lines)
