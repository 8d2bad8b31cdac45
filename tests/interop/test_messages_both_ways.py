"""What our client sends the Java client reads, and the reverse, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import both_ways_cases
from .systems import EmbeddedSystem, EnsembleSystem, OriginalSystem, System

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(300)]


class BothWaysOnEnsembleTest(both_ways_cases.BothWaysCases):
    """Our broker on a real ZooKeeper."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EnsembleSystem(work_dir)


class BothWaysOnEmbeddedTest(both_ways_cases.BothWaysCases):
    """Our broker with nothing beside it."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EmbeddedSystem(work_dir)


class BothWaysOnOriginalTest(both_ways_cases.BothWaysCases):
    """The released Java broker."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return OriginalSystem(work_dir)
