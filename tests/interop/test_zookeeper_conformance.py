"""The embedded coordinator and a real ZooKeeper give the same answers: kazoo, raw
frames and Apache's Java client play a script against both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import SkipTest

import pytest
from twisted.trial.unittest import SynchronousTestCase

from ..support.broker_process import ROOT
from ..support.child_process import ChildProcess, answers
from .java_driver import find_driver
from .java_jars import LIB_DIR
from .java_sources import compiled_driver
from .zookeeper_script.comparison import DEVIATIONS, Deviation, differences
from .zookeeper_script.transcript import Step
from .zookeeper_server import DebianZooKeeper, find_zookeeper

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(300)]

SCRIPT_LIMIT_S = 200
FEWEST_STEPS = 900
FEWEST_JAVA_STEPS = 190
NEWER_JARS = ("zookeeper.jar", "slf4j-nop.jar")
JARS_DIR = Path("/usr/share/java")

Script = Callable[[str], list[Step]]


class EmbeddedServer(ChildProcess):
    """The embedded coordinator alone in a process."""

    @property
    def address(self) -> str:
        """`host:port` of its port."""
        return f"127.0.0.1:{self.port}"

    def _argv(self) -> list[str]:
        module = "tests.interop.zookeeper_script.embedded_server"
        return [sys.executable, "-m", module, str(self.port), str(self.work_dir)]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def _answers(self) -> bool:
        return answers(self.port, b"ruok", b"imok")


def embedded_server(work_dir: Path) -> EmbeddedServer:
    """The embedded coordinator as a server that does not run yet."""
    return EmbeddedServer(work_dir)


def python_script(address: str) -> list[Step]:
    """The transcript of kazoo and raw frames, from a process of its own."""
    module = "tests.interop.zookeeper_script"
    return _steps_of([sys.executable, "-m", module, address])


def java_script(class_path: Sequence[object]) -> Script:
    """The script of Apache's Java client, with the client on that class path."""

    def play(address: str) -> list[Step]:
        path = ":".join(map(str, [compiled_driver(), *class_path]))
        main = "zkscript.ZooKeeperScript"
        return _steps_of(["java", "-Xmx256m", "-cp", path, main, address])

    return play


def _steps_of(command: list[str]) -> list[Step]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SCRIPT_LIMIT_S, cwd=ROOT
    )
    if done.returncode:
        raise AssertionError(f"{command}:\n{done.stderr[-2000:]}")
    return [
        Step(name, answer)
        for name, _, answer in (
            line.partition(" -> ") for line in done.stdout.splitlines()
        )
    ]


class ConformanceTest(SynchronousTestCase):
    """One script, two servers, the same transcript."""

    def setUp(self) -> None:
        """Start both servers."""
        why_not = find_zookeeper()
        if why_not is not None:
            raise SkipTest(why_not)
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.reference = DebianZooKeeper(self.directory / "zookeeper")
        self.embedded = embedded_server(self.directory / "embedded")
        for server in (self.reference, self.embedded):
            self.addCleanup(server.kill)
            server.start()

    def _play(self, script: Script, servers: Sequence[str]) -> list[list[Step]]:
        """The transcripts of the script, played at all servers at once."""
        with ThreadPoolExecutor(len(servers)) as pool:
            return list(pool.map(script, servers))

    def _compare(self, script: Script, fewest_steps: int, excused: bool) -> None:
        addresses = [self.embedded.address, self.reference.address]
        ours, reference = self._play(script, addresses)
        deviations: dict[str, Deviation] = dict(DEVIATIONS) if excused else {}
        self.assertEqual("", "\n".join(differences(ours, reference, deviations)))
        self.assertEqual([step.name for step in reference], [one.name for one in ours])
        self.assertGreater(len(reference), fewest_steps)
        self.assertEqual([], [one for one in reference if "went wrong" in one.name])
        names = {step.name for step in reference}
        self.assertEqual(len(reference), len(names))
        self.assertEqual(set(), set(deviations) - names)

    def test_kazoo_and_raw_frames(self) -> None:
        """kazoo and raw frames get the same answers but for listed deviations."""
        self._compare(python_script, FEWEST_STEPS, excused=True)

    def test_java_client(self) -> None:
        """The 3.4.3 client, which Java MetaQ uses, gets the same answers."""
        why_not = find_driver()
        if why_not is not None:
            raise SkipTest(why_not)
        script = java_script([f"{LIB_DIR}/*"])
        self._compare(script, FEWEST_JAVA_STEPS, excused=False)

    def test_newer_java_client(self) -> None:
        """The 3.8 client gets the same answers."""
        why_not = find_driver()
        if why_not is not None:
            raise SkipTest(why_not)
        script = java_script([JARS_DIR / name for name in NEWER_JARS])
        self._compare(script, FEWEST_JAVA_STEPS, excused=False)


class ComparisonTest(SynchronousTestCase):
    """A comparison that could not fail would prove nothing."""

    def test_what_differs_is_found(self) -> None:
        """Another answer, a missing step and a surplus one are told."""
        reference = [Step("a", "1"), Step("b", "2")]
        self.assertEqual([], differences(reference, reference))
        found = differences([Step("a", "9"), Step("c", "3")], reference)
        self.assertEqual(
            [
                "a\n  expected 1\n  answered 9",
                "b\n  expected 2\n  answered never asked",
                "c: not in the reference",
            ],
            found,
        )

    def test_deviations_are_held_to(self) -> None:
        """A listed deviation must be as listed, and be one."""
        listed = {"a": Deviation("9", "for good reason")}
        reference = [Step("a", "1")]
        self.assertEqual([], differences([Step("a", "9")], reference, listed))
        self.assertEqual(1, len(differences([Step("a", "1")], reference, listed)))
        self.assertEqual(
            ["a: no deviation any more"],
            differences([Step("a", "9")], [Step("a", "9")], listed),
        )
