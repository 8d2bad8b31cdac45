"""`metatwist produce` on a real broker."""

from __future__ import annotations

import contextlib
import os
import re
import signal

import pytest

from .command_case import CommandCase, objects

pytestmark = pytest.mark.process


class ProduceTest(CommandCase):
    """Lines, files, JSON, and what becomes of them."""

    def test_lines(self) -> None:
        """Each line is a message as it is, the last one without its newline too."""
        data = b"one\r\n\n\xff\xfe\0\nlast"
        done = self.run_command("produce", "test", data=data)
        self.assertEqual((done.stdout, done.stderr), (b"", b""))
        expected = [b"one\r", b"", b"\xff\xfe\0", b"last"]
        self.assertCountEqual(self.stored(), expected)

    def test_files(self) -> None:
        """Files come in their order, stdin among them; other delimiters do."""
        (self.directory / "a").write_bytes(b"1\0\n2\0")
        (self.directory / "b").write_bytes(b"4")
        place = ("--null", "--selector", "round-robin")
        first = self.run_command(
            "produce", "test", "a", "-", "b", "--print", "json", *place, data=b"3"
        )
        found = objects(first.stdout)
        self.assertCountEqual(
            [(one.get("file"), one["line"]) for one in found],
            [("a", 1), ("a", 2), (None, 1), ("b", 1)],
        )
        self.assertCountEqual(self.stored(), [b"1", b"\n2", b"3", b"4"])
        self.run_command("produce", "other", "--delimiter", r"\r\n", data=b"x\r\ny\n")
        self.assertCountEqual(self.stored("other"), [b"x", b"y\n"])

    def test_keys_and_partitions(self) -> None:
        """A key keeps messages together; a partition may be named; it must exist."""
        lines = b"".join(b"k%d:%d\n" % (one % 3, one) for one in range(30))
        words = ("produce", "test", "--print", "json")
        self.run_command(*words[:2], data=b"".join(b"%d\n" % one for one in range(4)))
        done = self.run_command(*words, "--key-delimiter", ":", data=lines)
        places: dict[int, set[str]] = {}
        for one in objects(done.stdout):
            places.setdefault(one["line"] % 3, set()).add(one["partition"])
        self.assertEqual([len(one) for one in places.values()], [1, 1, 1])
        self.assertIn(b"29", self.stored())
        done = self.run_command(
            "produce", "test", "--partition", "0-2", "--print", "text", data=b"x\ny\n"
        )
        for line in done.stdout.splitlines():
            self.assertRegex(line, rb"^0-2 \d+ \d+$")
        away = self.run_command("produce", "test", "--partition", "0-9", code=1)
        self.assertIn(b"has no partition 0-9; it has 0-0, 0-1", away.stderr)

    def test_bad_lines(self) -> None:
        """What is no message is told of by its line; the others are stored."""
        data = b'{"body":"a"}\nnonsense\n\n{"body":"b","attribute":"x"}\n{}\n'
        done = self.run_command("produce", "test", "--json", data=data, code=1)
        self.assertIn(b"2 not stored: lines 2, 5", done.stderr)
        self.assertIn(b"is no JSON", done.stderr)
        self.assertCountEqual(self.stored(), [b"a", b"\0\0\0\1xb"])
        large = b"x" * ((4 << 20) + 1)
        done = self.run_command("produce", "other", data=large + b"\ny", code=1)
        self.assertIn(b"1 not stored: line 1", done.stderr)
        self.assertEqual(self.stored("other"), [b"y"])
        words = ("produce", "other", "--encoding", "latin-1")
        self.run_command(*words, data=b"\xe4")
        self.assertIn("ä".encode(), self.stored("other"))
        words = ("produce", "other", "--encoding", "utf-8")
        lines = b"".join(b"a" * one + b"%c\n" % (200 + one) for one in range(9))
        done = self.run_command(*words, data=lines, code=1)
        self.assertEqual(done.stderr.splitlines()[2:], [b"  9 times: is no utf-8"])

    def test_unknown_topic(self) -> None:
        """What the broker refuses is exit code 1, with its words, and known as not
        stored."""
        words = ("produce", "nope", "--print", "json")
        done = self.run_command(*words, data=b"a\nb\n", code=1)
        self.assertIn(b"0 stored\n2 not stored: lines 1 to 2", done.stderr)
        self.assertIn(b"do not accept topic nope", done.stderr)
        self.assertNotIn(b"partition 0--1", done.stderr)
        self.assertEqual(
            [one["outcome_unknown"] for one in objects(done.stdout)], [False] * 2
        )

    def test_nobody(self) -> None:
        """Without a broker nothing is read; exit code 3 and every address tried."""
        first, second = self.nobody(), self.nobody()
        for more in ((), ("--timeout", "1")):
            words = ("produce", "test", "--broker", first, *more)
            done = self.run_command(*words, data=b"a\n", code=3, address=second)
            self.assertEqual(done.stderr.count(b"\n"), 1)
            for address in (first, second):
                self.assertIn(address.encode(), done.stderr)

    def test_lost_broker(self) -> None:
        """A broker that dies leaves lines that are told of as lost or unknown, and the
        command comes to an end."""
        words = ("produce", "test", "--print", "text", "--timeout", "1")
        process = self.begin_command(*words)
        process.stdin.write(b"first\n")
        process.stdin.flush()
        self.assertRegex(process.stdout.readline(), rb"^0-\d 0 \d+$")
        self.broker.kill()
        process.stdin.write(b"second\n")
        code, _, err = self.ended(process)
        self.assertEqual(code, 1)
        self.assertIn(b"1 stored\n", err)
        self.assertIn(b"line 2", err)

    def test_interrupted(self) -> None:
        """SIGINT ends the reading; what was read is stored; the exit code says it."""
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process = self.begin_command("produce", "test", "--print", "text")
            process.stdin.write(b"whole\nhalf")
            process.stdin.flush()
            self.assertRegex(process.stdout.readline(), rb"^0-\d \d+ \d+$")
            process.send_signal(number)
            self.assertEqual(process.wait(20), code)
        self.assertEqual(self.stored(), [b"whole", b"whole"])

    def test_rate(self) -> None:
        """A stop does not wait for a slow rate; results nobody reads do not matter."""
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "wb") as gone:
            process = self.begin_command(
                "produce", "test", "--rate", "0.01", "--print", "text", stdout=gone
            )
        process.stdin.write(b"a\nb\n")
        process.stdin.flush()
        self.wait_until(lambda: self.stored() == [b"a"], "the first one is stored")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)
        self.assertEqual(self.stored(), [b"a"])

    def progress(self, *words: str, data: bytes = b"") -> bytes:
        """What `produce` shows on a terminal that is its stderr."""
        terminal, stderr = os.openpty()
        self.addCleanup(os.close, terminal)
        with os.fdopen(stderr, "wb") as shown:
            process = self.begin_command("produce", "test", *words, stderr=shown)
        process.stdin.write(data)
        process.stdin.close()
        process.stdin = None
        self.assertEqual(process.wait(20), 0)
        os.set_blocking(terminal, False)
        found = b""
        with contextlib.suppress(OSError):  # EIO is the end
            while chunk := os.read(terminal, 1 << 16):
                found += chunk
        return re.sub(rb"\x1b\[[0-9;]*m", b"", found)  # without colours

    def test_progress(self) -> None:
        """On a terminal the bytes of files are shown, messages of other input, and
        nothing when that is not wanted."""
        (self.directory / "a").write_bytes(b"x" * 99 + b"\n")
        (self.directory / "b").write_bytes(b"y" * 199 + b"\n")
        self.assertIn(b"300/300 bytes", self.progress("a", "b"))
        self.assertIn(b" 3/?", self.progress("a", "-", data=b"1\n2\n"))
        self.assertEqual(self.progress("a", "--no-progress"), b"")
        self.assertEqual(self.progress("a", "--quiet"), b"")
        self.assertEqual(len(self.stored()), 7)

    def test_whole_files(self) -> None:
        """A binary file goes through as one message, and comes out identically."""
        content = os.urandom(1_500_000) + b"\r\n\0"
        path = self.directory / "binary"
        path.write_bytes(content)
        self.run_command("produce", "test", "--whole-file", path)
        done = self.run_command("consume", "test", "--until-end", "--format", "raw")
        self.assertEqual(done.stdout, content)
        folder = self.directory / "out"
        words = ("--format", "raw", "--output", f"{folder}/")
        self.run_command("consume", "test", "--until-end", *words)
        (found,) = folder.iterdir()
        self.assertRegex(found.name, r"^test\.0-\d\.0$")
        self.assertEqual(found.read_bytes(), content)
