"""The examples and snippets of docs/client.md, run against a real broker."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.crash.own_broker import OwnBroker
from tests.support.broker_process import ROOT
from tests.support.child_process import free_port
from tests.support.guide_page import EXAMPLES, GUIDE, snippets
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.process
SNIPPETS = Path(__file__).with_name("guide_snippets.py")
LIMIT_S = 60
TOPICS = (
    *("acks", "asyncio", "asyncio2", "batches", "broadcast", "browser"),
    *("consumer", "letters", "letters.dead", "direct", "iterator", "ordered"),
    *("printer", "producer", "selector", "orders", "prices", "storage"),
)


def received(output: str) -> list[str]:
    """The lines of the first consumer without its log."""
    return [line for line in output.splitlines() if line.startswith("0-0 ")]


class GuideCase(SynchronousTestCase):
    """One broker with an embedded coordinator for all; a topic for each test."""

    broker: ClassVar[OwnBroker]
    directory: ClassVar[Path]
    zookeeper: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the broker."""
        super().setUpClass()
        cls.directory = Path(tempfile.mkdtemp())
        port = free_port()
        cls.zookeeper = f"127.0.0.1:{port}"
        cls.broker = OwnBroker(
            cls.directory / "broker",
            {topic: {} for topic in TOPICS},
            environ={
                "METATWIST_METATWIST_coordinator": "embedded",
                "METATWIST_METATWIST_coordinatorEndpoint": (
                    f"tcp:{port}:interface=127.0.0.1"
                ),
            },
        )
        cls.broker.start()

    @classmethod
    def tearDownClass(cls) -> None:
        """End it."""
        cls.broker.kill()
        shutil.rmtree(cls.directory, ignore_errors=True)
        super().tearDownClass()

    def put(self, topic: str, *bodies: bytes, partition: int = 0) -> None:
        """Store messages in one partition."""
        with WireClient(self.broker.port) as client:
            for body in bodies:
                client.put(topic, partition, body)

    def environment(self, **more: str) -> dict[str, str]:
        """Of a child: the code is this tree's, and nothing of the home is touched."""
        home = str(self.directory)
        return {**os.environ, "PYTHONPATH": str(ROOT), "HOME": home, **more}

    def run_program(self, program: Path, *arguments: str) -> str:
        """What it prints; it ends by itself and well, and logs nothing."""
        printed, logged = self.run_logging_program(program, *arguments)
        self.assertEqual(logged, "", printed)
        return printed

    def run_logging_program(self, program: Path, *arguments: str) -> tuple[str, str]:
        """What it prints and what it logs; it ends by itself and well."""
        done = subprocess.run(
            [sys.executable, str(program), *arguments],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=self.environment(),
            cwd=self.directory,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def run_example(self, name: str, topic: str, *more: str) -> list[str]:
        """The lines that `docs/examples/<name>.py` prints."""
        arguments = (self.zookeeper, topic, *more)
        return self.run_program(EXAMPLES / f"{name}.py", *arguments).splitlines()

    def run_until_interrupted(
        self, argv: list[str], awaited: str, **environ: str
    ) -> tuple[int, str]:
        """Run until `awaited` is printed, then Ctrl-C; exit code and all output."""
        path = self.directory / f"{awaited.replace(' ', '-')}.out"
        with open(path, "wb") as output:
            child = subprocess.Popen(
                argv,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment(**environ),
                cwd=self.directory,
            )
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        deadline = time.monotonic() + LIMIT_S
        while awaited not in path.read_text():
            self.assertIsNone(child.poll(), path.read_text())
            self.assertLess(time.monotonic(), deadline, path.read_text())
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        return child.wait(LIMIT_S), path.read_text()


class ExampleTests(GuideCase):
    """docs/examples."""

    def test_producer(self) -> None:
        """Three messages are stored, in three partitions."""
        printed = self.run_example("producer", "producer")
        expected = [f"stored in 0-{number} at 0" for number in (1, 2, 3)]
        self.assertEqual(printed, expected)

    def test_consumer(self) -> None:
        """It prints what comes, and its offset is stored when it is interrupted."""
        self.put("consumer", b"one", b"two")
        argv = [sys.executable, str(EXAMPLES / "consumer.py"), self.zookeeper]
        code, printed = self.run_until_interrupted([*argv, "consumer"], "0-0 23: two")
        self.assertEqual(received(printed), ["0-0 0: one", "0-0 23: two"])
        self.assertIn(code, (0, -signal.SIGINT))
        self.put("consumer", b"three")
        _, printed = self.run_until_interrupted([*argv, "consumer"], "0-0 46: three")
        self.assertEqual(received(printed), ["0-0 46: three"])

    def test_iterator(self) -> None:
        """Those it has printed do not come again."""
        self.put("iterator", b"one", b"two", b"three")
        self.assertEqual(self.run_example("iterator", "iterator", "2"), ["one", "two"])
        self.assertEqual(self.run_example("iterator", "iterator", "1"), ["three"])

    def test_batches(self) -> None:
        """A batch has messages of one partition, and is committed."""
        self.put("batches", b"one", b"two", partition=1)
        printed = self.run_example("batches", "batches", "2")
        self.assertEqual(printed, ["batches:0-1 one two"])
        self.put("batches", b"three", partition=1)
        printed = self.run_example("batches", "batches", "1")
        self.assertEqual(printed, ["batches:0-1 three"])

    def test_acks(self) -> None:
        """What is behind the last ack comes again."""
        self.put("acks", b"book", b"pen", b"end", b"ink")
        printed = self.run_example("acks", "acks", "1")
        self.assertEqual(printed, ["order: book pen end"])
        self.put("acks", b"end")
        self.assertEqual(self.run_example("acks", "acks", "1"), ["order: ink end"])

    def test_asyncio(self) -> None:
        """A task awaits Deferreds, and a listener what is asyncio's."""
        printed = self.run_example("asyncio_program", "asyncio")
        self.assertEqual(printed, ["hello"])

    def test_asyncio_iterator(self) -> None:
        """Those it has printed do not come again."""
        self.put("asyncio2", b"one", b"two", b"three")
        name = "asyncio_iterator"
        self.assertEqual(self.run_example(name, "asyncio2", "2"), ["one", "two"])
        self.assertEqual(self.run_example(name, "asyncio2", "1"), ["three"])

    def test_dead_letters(self) -> None:
        """The message that fails twice is a dead letter; the others pass, and the log
        says what has failed."""
        self.put("letters", b"1", b"two")
        program = EXAMPLES / "dead_letters.py"
        printed, logged = self.run_logging_program(program, self.zookeeper, "letters")
        self.assertIn("the listener failed: ValueError", logged)
        first, second = printed.splitlines()
        self.assertEqual(first, "order 1")
        self.assertRegex(second, r"^sent to letters\.dead:0-\d at 0$")

    def test_broadcast(self) -> None:
        """Both instances get the message."""
        offsets = self.directory / "offsets"
        printed = self.run_example("broadcast", "broadcast", str(offsets))
        groups = ("guide-broadcast-first", "guide-broadcast-second")
        expected = [f"{group} prices have changed" for group in groups]
        self.assertEqual(printed, expected)

    def test_browser(self) -> None:
        """It prints all messages of all partitions, and ends."""
        self.put("browser", b"one", b"two")
        self.put("browser", b"three", partition=3)
        printed = self.run_example("browser", "browser")
        self.assertEqual(printed, ["0-0 0 one", "0-0 23 two", "0-3 0 three"])

    def test_direct(self) -> None:
        """A broker's address is enough, and offsets are in the file."""
        program, offsets = EXAMPLES / "direct.py", self.directory / "direct"
        arguments = (self.broker.address, "direct", str(offsets))
        self.assertEqual(self.run_program(program, *arguments), "hello\n")
        [found] = [one for one in offsets.iterdir() if one.suffix != ".lock"]
        self.assertIn("guide-direct", found.read_text())

    def test_own_storage(self) -> None:
        """Offsets are given to the storage."""
        self.put("storage", b"one")
        self.assertIn("committed 23", self.run_example("own_storage", "storage"))

    def test_own_selector(self) -> None:
        """Urgent messages have a partition, and keys have theirs."""
        printed = self.run_example("own_selector", "selector")
        self.assertEqual(printed, ["urgent 0-0", "same True"])

    def test_ordered(self) -> None:
        """Messages of a key are in one partition, in their order."""
        parked = self.directory / "parked"
        printed = self.run_example("ordered", "ordered", str(parked))
        self.assertEqual([line.split()[0] for line in printed], ["ordered", "paid"])
        self.assertEqual(len({line.split()[3] for line in printed}), 1)
        self.assertEqual({line.split()[1] for line in printed}, {"stored"})

    def test_service(self) -> None:
        """twistd runs the client, and stops it."""
        self.put("printer", b"paper")
        twistd = Path(sys.executable).with_name("twistd")
        code, printed = self.run_until_interrupted(
            [str(twistd), "-ny", str(EXAMPLES / "printer.tac"), "--pidfile="],
            "got paper",
            METAQ=self.zookeeper,
            TOPIC="printer",
        )
        self.assertIn(code, (0, -signal.SIGINT))
        self.assertNotIn("Traceback", printed)
        self.assertIn("Server Shut Down.", printed)


class SnippetTests(GuideCase):
    """The other code of the guide."""

    def test_snippets(self) -> None:
        """Each runs without an error, in the order of the page."""
        self.put("orders", *(b"%d" % number for number in range(20)))
        printed = self.run_program(SNIPPETS, self.zookeeper, str(GUIDE))
        last = len(snippets(GUIDE.read_text(encoding="utf-8")))
        self.assertTrue(printed.endswith(f"ran {last}\n"), printed)
