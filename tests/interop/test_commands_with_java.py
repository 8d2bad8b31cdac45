"""`metatwist produce` and `consume` through the released Java broker."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import SkipTest

import pytest
from twisted.trial.unittest import SynchronousTestCase

from .java_peers import JavaBroker, JavaBrokerSettings, JavaZooKeeper, find_java

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(300)]

PROGRAM = str(Path(sys.executable).with_name("metatwist"))


class CommandsWithJavaTest(SynchronousTestCase):
    """A Java broker and the ZooKeeper of its time."""

    def setUp(self) -> None:
        """Start both."""
        why_not = find_java()
        if why_not is not None:
            raise SkipTest(why_not)
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.zookeeper = JavaZooKeeper(self.directory / "zk")
        self.addCleanup(self.zookeeper.kill)
        self.zookeeper.start()
        settings = JavaBrokerSettings(self.directory / "broker", heap="512m")
        broker = JavaBroker(self.directory / "data", settings, self.zookeeper)
        self.addCleanup(broker.kill)
        broker.start()

    def run_command(self, *words: str, data: bytes = b"") -> bytes:
        """What `metatwist WORDS` prints; it must succeed and say nothing."""
        done = subprocess.run(
            [PROGRAM, *words, "--zookeeper", self.zookeeper.address],
            input=data,
            capture_output=True,
            timeout=60,
            cwd=self.directory,
        )
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout

    def test_produce_and_consume(self) -> None:
        """What is produced is consumed, without polls that wait; a group goes on where
        it was, and the new message of a second round alone comes."""
        lines = [b"%d" % number for number in range(100)]
        self.run_command("produce", "test", data=b"\n".join(lines))
        group = ("consume", "test", "--group", "g", "--until-end")
        self.assertCountEqual(self.run_command(*group).split(), lines)
        self.run_command("produce", "test", "--partition", "0-1", data=b"more")
        self.assertEqual(self.run_command(*group), b"more\n")
        everything = self.run_command("consume", "test", "--until-end")
        self.assertCountEqual(everything.split(), [*lines, b"more"])
        self.assertEqual(len(self.run_command("browse", "test").split()), 101)
