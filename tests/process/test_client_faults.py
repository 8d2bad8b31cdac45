"""Our client in processes of its own, while the broker and the links to it fail."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.soak.rig import SESSION_S, Rig

pytestmark = pytest.mark.process


class ClientFaults(SynchronousTestCase):
    """Two members that send and consume: what was acknowledged is consumed, and they
    end in order, with nothing left in the reactor."""

    def setUp(self) -> None:
        """Start them."""
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        self.rig = Rig(directory)
        self.rig.__enter__()
        self.addCleanup(self.rig.__exit__, None, None, None)
        self.rig.member()
        self.rig.member()
        self.rig.some_more()

    def test_broker_killed(self) -> None:
        """The broker, and the coordinator in it, are killed under load and come back,
        twice."""
        for _ in range(2):
            self.rig.broker.kill()
            self.rig.broker.start()
            self.rig.some_more()
        self.rig.finish()

    def test_broker_stopped(self) -> None:
        """The broker's process stands still for longer than heartbeats allow."""
        os.kill(self.rig.broker.pid, signal.SIGSTOP)
        time.sleep(4)  # the fault itself: past the heartbeats of the members
        os.kill(self.rig.broker.pid, signal.SIGCONT)
        self.rig.some_more()
        self.rig.finish()

    def test_cut(self) -> None:
        """Connections end in the middle of answers, again and again."""
        for _ in range(3):
            self.rig.broker_link.cut()
            self.rig.broker_link.heal()
            self.rig.some_more(50)
        self.rig.finish()

    def test_black_hole(self) -> None:
        """Nothing passes for a while, and nobody is told."""
        self.rig.broker_link.cut(black_hole=True)
        time.sleep(4)  # the fault itself
        self.rig.broker_link.heal()
        self.rig.some_more()
        self.rig.finish()

    def test_session_expired(self) -> None:
        """The coordinator is away until all sessions have ended."""
        self.rig.coordinator_link.cut()
        time.sleep(SESSION_S + 2)  # the fault itself
        self.rig.coordinator_link.heal()
        self.rig.some_more()
        self.rig.finish()

    def test_member_killed(self) -> None:
        """What a killed member had under way is consumed by the other."""
        first, second = self.rig.members
        first.kill()
        self.rig.some_more()
        self.assertTrue(second.is_running)
        self.rig.finish()
