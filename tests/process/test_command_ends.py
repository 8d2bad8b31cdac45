"""How commands end: by signals wherever they wait, and without standard streams."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .command_case import PROGRAM, CommandCase

pytestmark = pytest.mark.process
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class EndTest(CommandCase):
    """One signal is enough, and nothing but a sentence is said."""

    def fifo(self) -> Path:
        """A FIFO that nobody has opened."""
        path = self.directory / "fifo"
        if not path.exists():
            os.mkfifo(path)
        return path

    def wait_for_its_connection(self, process: Any) -> None:
        """Until it has come as far as having an open socket to the broker."""
        folder = Path(f"/proc/{process.pid}/fd")

        def is_connected() -> bool:
            links = [os.readlink(one) for one in folder.iterdir() if one.is_symlink()]
            return any(one.startswith("socket:") for one in links)

        self.wait_until(is_connected, "it is connected")

    def test_fifo_without_other_end(self) -> None:
        """A signal ends a wait for the reader or the writer of a FIFO."""
        self.client(self.broker).put("test", 0, b"1")
        for words in (
            ("consume", "test", "--output", self.fifo()),
            ("browse", "test", "--output", self.fifo()),
            ("produce", "test", self.fifo()),
        ):
            for number, code in CODES.items():
                process = self.begin_command(*words)
                self.wait_for_its_connection(process)
                process.send_signal(number)
                self.assertEqual(self.ended(process)[0], code, words)

    def test_fifo(self) -> None:
        """What goes through a FIFO arrives, whoever opens it first."""
        fifo = self.fifo()
        consuming = self.begin_command("consume", "test", "--output", fifo)
        self.wait_for_its_connection(consuming)
        producing = self.begin_command("produce", "test", "--whole-file", fifo)
        self.wait_for_its_connection(producing)
        consuming.terminate()
        self.assertEqual(self.ended(consuming)[0], 143)
        fifo.write_bytes(b"through")
        self.assertEqual(self.ended(producing)[0], 0)
        words = ("consume", "test", "--count", "1", "--output", fifo)
        consuming = self.begin_command(*words)
        self.wait_for_its_connection(consuming)
        self.assertEqual(fifo.read_bytes(), b"through\n")
        self.assertEqual(self.ended(consuming)[0], 0)

    def test_two_signals_at_once(self) -> None:
        """Both at once kill, without a traceback."""
        process = self.begin_command("consume", "test")
        self.wait_for_its_connection(process)
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            process.send_signal(number)
        code, _, err = self.ended(process)
        self.assertIn(code, (130, 143, -signal.SIGINT, -signal.SIGTERM))
        self.assertEqual(err, b"")

    def test_interrupted_start(self) -> None:
        """SIGINT while it starts ends it quietly."""
        for module in ("click", "twisted.internet.defer"):
            code = (
                "import os, signal, sys\n"
                "class Hook:\n"
                "    def find_spec(self, name, path=None, target=None):\n"
                f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
                "sys.meta_path.insert(0, Hook())\n"
                "from metatwist.cli.main import main\n"
                "main(['consume', 'test', '--broker', '127.0.0.1:1'])\n"
            )
            argv = [str(Path(PROGRAM).with_name("python")), "-c", code]
            done = subprocess.run(argv, capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (130, b""), module)

    def test_closed_streams(self) -> None:
        """A closed stdout or stdin is told where it is needed, and no matter else."""
        self.client(self.broker).put("test", 0, b"1")

        def run(line: str) -> tuple[int, bytes]:
            words = f"{PROGRAM} {line} {' '.join(self.target())}"
            command = words + " <&- >&-" if "produce" not in line else words + " <&-"
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                capture_output=True,
                timeout=60,
                cwd=self.directory,
            )
            return done.returncode, done.stderr

        for line in ("consume test", "browse test", "bench consume test"):
            self.assertEqual(run(line), (1, b"Error: stdout is closed\n"))
        self.assertEqual(run("produce test"), (1, b"Error: stdin is closed\n"))
        self.assertEqual(run("consume test --until-end --output out"), (0, b""))
        self.assertEqual((self.directory / "out").read_bytes(), b"1\n")

    def test_full_disk(self) -> None:
        """A file that cannot grow is left with whole messages, and a group goes on
        with the rest in it."""
        bodies = [b"%d" % one * 1000 for one in range(9)]
        for body in bodies:
            self.client(self.broker).put("test", 0, body)
        group = f"--group g --offsets {self.directory} --until-end --output out"
        words = f"{PROGRAM} consume test {group} {' '.join(self.target())}"
        full = subprocess.run(
            ["/bin/sh", "-c", f"ulimit -f 10; {words}"],
            capture_output=True,
            timeout=60,
            cwd=self.directory,
        )
        self.assertEqual(full.returncode, 1)
        self.assertIn(b"cannot use out: File too large", full.stderr)
        first = (self.directory / "out").read_bytes()
        self.assertTrue(first.endswith(b"\n"))
        self.assertEqual(first.splitlines(), bodies[: len(first.splitlines())])
        self.run_command(*words.split()[1:-2])
        again = (self.directory / "out").read_bytes()
        self.assertTrue(again.startswith(first))
        self.assertEqual(set(again.splitlines()), set(bodies))

    def test_mute_broker(self) -> None:
        """Of a broker that takes connections and is silent, and one that is not there,
        each is told by its own reason, with TLS too."""
        with socket.create_server(("127.0.0.1", 0)) as mute:
            place = f"127.0.0.1:{mute.getsockname()[1]}"
            nobody = self.nobody()
            for command in ("consume", "produce"):
                for address in (place, f"tls:{place}"):
                    words = (command, "test", "--timeout", "1", "--broker", nobody)
                    done = self.run_command(*words, code=3, address=address)
                    silent = f"{address}: no answer within 1 s"
                    self.assertIn(silent.encode(), done.stderr)
                    refused = f"{nobody}: Connection was refused"
                    self.assertIn(refused.encode(), done.stderr)
