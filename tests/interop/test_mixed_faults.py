"""A member of a mixed group that stands still, and a broker that is killed below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import mixed_fault_cases
from .systems import EmbeddedSystem, EnsembleSystem, System

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(300)]


class FaultsOnEnsembleTest(mixed_fault_cases.MixedFaultCases):
    """Our broker on a real ZooKeeper."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EnsembleSystem(work_dir)


class FaultsOnEmbeddedTest(mixed_fault_cases.MixedFaultCases):
    """Our broker with nothing beside it: the coordinator dies with it."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EmbeddedSystem(work_dir)
