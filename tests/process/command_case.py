"""A case with one broker, and the `metatwist` command as a process of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from tests.crash.own_broker import OwnBroker
from tests.support.child_process import free_port

from .broker_case import WAIT_S, BrokerCase

PROGRAM = str(Path(sys.executable).with_name("metatwist"))
Done = subprocess.CompletedProcess[bytes]


class CommandCase(BrokerCase):
    """`self.broker` runs, with the topics `test`, `other` and `empty`."""

    broker: OwnBroker

    def setUp(self) -> None:
        """Start it."""
        super().setUp()
        self.broker = self.make_broker()
        self.broker.start()

    def make_broker(self) -> OwnBroker:
        """The broker, not started."""
        return self.own_broker({"test": {}, "other": {}, "empty": {}})

    def target(self) -> tuple[str, ...]:
        """The options by which commands find it."""
        return ("--broker", f"127.0.0.1:{self.broker.port}")

    def run_command(
        self, *words: str | Path, data: bytes = b"", code: int = 0, address: str = ""
    ) -> Done:
        """Run `metatwist WORDS` with `data` on stdin to its end, which is `code`."""
        done = subprocess.run(
            self._argv(words, address),
            input=data,
            capture_output=True,
            timeout=4 * WAIT_S,
            cwd=self.directory,
        )
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn(b"Traceback", done.stderr)
        return done

    def begin_command(self, *words: str | Path, **streams: IO[bytes] | int) -> Any:
        """The same as a process under way, with pipes where nothing else is given; it
        ends with the test."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(
            self._argv(words, ""), cwd=self.directory, **{**pipes, **streams}
        )

        def end() -> None:
            process.kill()
            with contextlib.suppress(BrokenPipeError):
                process.communicate()

        self.addCleanup(end)
        return process

    def _argv(self, words: tuple[str | Path, ...], address: str) -> list[str]:
        target = ("--broker", address) if address else self.target()
        return [PROGRAM, *map(str, words), *target]

    def ended(self, process: Any) -> tuple[int, bytes, bytes]:
        """Exit code, stdout and stderr, once it has ended."""
        out, err = process.communicate(timeout=WAIT_S)
        self.assertNotIn(b"Traceback", err)
        return process.returncode, out, err

    def nobody(self) -> str:
        """An address where nobody listens."""
        return f"127.0.0.1:{free_port()}"

    def stored(self, topic: str = "test") -> list[bytes]:
        """All payloads of a topic's four partitions, one after the other."""
        return [
            record.payload
            for partition in range(4)
            if self.client(self.broker).get(topic, partition, 0).code != 404
            for record in self.read(self.broker, topic, partition)
        ]


def objects(text: bytes) -> list[dict[str, Any]]:
    """The JSON objects of lines."""
    return [json.loads(line) for line in text.splitlines()]
