"""`metatwist consume` on a real broker."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from .command_case import CommandCase, objects

pytestmark = pytest.mark.process


class ConsumeTest(CommandCase):
    """With and without a group; all its ends."""

    def put(self, *bodies: bytes, topic: str = "test", partition: int = 0) -> None:
        """Store messages in one partition."""
        for body in bodies:
            self.client(self.broker).put(topic, partition, body)

    def until_end(self, *words: str | Path, **more: Any) -> bytes:
        """What `consume` prints up to the present end."""
        done = self.run_command("consume", *words, "--until-end", **more)
        output: bytes = done.stdout
        return output

    def test_round_trip(self) -> None:
        """What consume prints as JSON, produce sends identically."""
        bodies = [b"", b"\xff\0\n", "ä\u2028".encode(), b"a\r\n", b'{"x":1}']
        self.put(*bodies)
        self.client(self.broker).put("test", 1, b"\0\0\0\1ab", flag=1)
        lines = self.until_end("test", "--format", "json")
        self.run_command("produce", "other", "--json", data=lines)
        again = self.until_end("other", "--format", "json")

        def content(text: bytes) -> list[str]:
            places = ("topic", "partition", "offset", "next_offset", "id")
            return sorted(
                repr([one for one in sorted(found.items()) if one[0] not in places])
                for found in objects(text)
            )

        self.assertEqual(len(objects(lines)), 6)
        self.assertEqual(content(lines), content(again))

    def test_begin(self) -> None:
        """Without a group reading begins where it is told: first, last, an offset."""
        self.put(b"one", b"two")
        self.assertEqual(self.until_end("test"), b"one\ntwo\n")
        self.assertEqual(self.until_end("test", "--from", "23"), b"two\n")
        self.assertEqual(self.until_end("test", "--from", "latest"), b"")
        self.put(b"three", topic="other")
        found = self.until_end("test", "other", "--delimiter", "")
        self.assertEqual(sorted(found), sorted(b"onetwothree"))

    def test_count_and_idle(self) -> None:
        """It ends after so many messages, or when none have come for a while."""
        self.put(b"1", b"2", b"3")
        done = self.run_command("consume", "test", "--count", "2")
        self.assertEqual(done.stdout, b"1\n2\n")
        done = self.run_command("consume", "test", "--idle", "0.5")
        self.assertEqual(done.stdout, b"1\n2\n3\n")

    def test_group(self) -> None:
        """A group goes on where it was; only what was written counts as read."""
        offsets = self.directory / "offsets"
        group = ("test", "--group", "g", "--offsets", offsets)
        self.put(b"1", b"2", b"3")
        done = self.run_command("consume", *group, "--count", "2")
        self.assertEqual(done.stdout, b"1\n2\n")
        self.assertEqual(self.until_end(*group, "--no-commit"), b"3\n")
        out = self.directory / "out"
        self.until_end(*group, "--output", out)
        self.assertEqual(self.until_end(*group), b"")
        self.put(b"4")
        self.until_end(*group, "--output", out)
        self.assertEqual(out.read_bytes(), b"3\n4\n")

    def test_stored_only(self) -> None:
        """With `--from stored` a partition without an offset is an error."""
        self.put(b"1")
        offsets = self.directory / "offsets"
        words = ("consume", "test", "--group", "g", "--offsets", offsets)
        done = self.run_command(*words, "--from", "stored", "--until-end", code=1)
        self.assertIn(b"no offset is stored", done.stderr)
        self.assertEqual(done.stdout, b"")

    def test_interrupted(self) -> None:
        """A signal ends it in order: what was written is committed."""
        self.put(b"1")
        offsets = self.directory / "offsets"
        group = ("test", "--group", "g", "--offsets", offsets)
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process = self.begin_command("consume", *group)
            self.assertEqual(process.stdout.readline(), b"1\n")
            process.send_signal(number)
            self.assertEqual(self.ended(process)[:2], (code, b""))
            self.assertEqual(self.until_end(*group), b"")
            self.put(b"1")

    def test_reader_leaves(self) -> None:
        """A reader that leaves ends it quietly; what it did not take comes again."""
        self.put(*(b"%d" % one * 500 for one in range(1000, 1400)))
        offsets = self.directory / "offsets"
        group = ("test", "--group", "g", "--offsets", offsets)
        process = self.begin_command("consume", *group)
        self.assertEqual(process.stdout.readline(), b"1000" * 500 + b"\n")
        process.stdout.close()
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(process.stderr.read(), b"")
        again = self.until_end(*group)
        self.assertTrue(again.endswith(b"1399" * 500 + b"\n"))
        self.assertIn(b"1399" * 500, again)

    def test_slow_reader(self) -> None:
        """A reader that does not read cannot keep it from ending at a signal."""
        self.put(*(b"x" * 1000 for _ in range(300)))
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        with os.fdopen(write, "wb") as full:
            process = self.begin_command("consume", "test", stdout=full)
        self.wait_until(lambda: len(os.read(read, 1)) == 1, "it writes")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)

    def test_unwritable(self) -> None:
        """An output that fails is exit code 1, with its name."""
        self.put(b"1")
        gone = self.directory / "no" / "such"
        done = self.run_command("consume", "test", "--output", gone, code=1)
        self.assertIn(b"No such file or directory", done.stderr)
        self.assertIn(str(gone).encode(), done.stderr)
        offsets = ("--group", "g", "--offsets", self.directory)
        words = ("consume", "test", *offsets, "--output", "/dev/full")
        done = self.run_command(*words, code=1)
        self.assertIn(b"cannot use /dev/full: No space left", done.stderr)
        self.assertEqual(self.until_end("test", *offsets), b"1\n")

    def test_unknown_and_unreached(self) -> None:
        """An unknown topic is exit code 1, nobody there is 3, each in one sentence."""
        done = self.run_command("consume", "nope", code=1)
        self.assertIn(b"topic nope has no partition to be read", done.stderr)
        address = self.nobody()
        done = self.run_command("consume", "test", code=3, address=address)
        self.assertIn(address.encode(), done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1)
