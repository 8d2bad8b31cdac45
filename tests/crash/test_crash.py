"""The short form of `make crash`."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from twisted.trial.unittest import SynchronousTestCase

from .campaign import Campaign, Plan

pytestmark = pytest.mark.process
ROUNDS = 6


class ShortCampaign(SynchronousTestCase):
    """A few rounds, another seed each time; the seed is in the message of a failure."""

    def test_nothing_acknowledged_is_lost(self) -> None:
        """Killed under load, in its start and its stop, the broker keeps its word."""
        seed = random.randrange(1 << 32)
        work_dir = Path(tempfile.mkdtemp())
        campaign = Campaign(Plan(ROUNDS, seed, work_dir, longest_load_s=0.6))
        try:
            totals = campaign.run()
        except Exception as error:
            error.args = (f"seed {seed}, {work_dir}: {error}",)
            raise
        shutil.rmtree(work_dir)
        self.assertGreaterEqual(totals.kills, ROUNDS - totals.kills_in_stop)
        self.assertGreater(totals.acknowledged, 0)
        self.assertGreaterEqual(totals.checked, totals.acknowledged)
