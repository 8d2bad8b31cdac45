"""`metatwist browse` and `metatwist bench` on a real broker."""

from __future__ import annotations

import json
import signal

import pytest

from .command_case import CommandCase, objects

pytestmark = pytest.mark.process


class BrowseTest(CommandCase):
    """All messages once."""

    def setUp(self) -> None:
        """Three messages in each of two partitions."""
        super().setUp()
        wire = self.client(self.broker)
        for partition in (0, 2):
            for number in (1, 2, 3):
                wire.put("test", partition, b"%d of %d" % (number, partition))

    def browse(self, *words: str, code: int = 0) -> list[bytes]:
        """The lines that it prints."""
        done = self.run_command("browse", "test", *words, code=code)
        return bytes(done.stdout).splitlines()

    def test_everything(self) -> None:
        """All messages, partition by partition, and the end."""
        expected = [b"%d of %d" % (one, part) for part in (0, 2) for one in (1, 2, 3)]
        self.assertEqual(self.browse(), expected)
        self.assertEqual(self.browse("--partition", "2"), expected[3:])
        self.assertEqual(self.browse("--partition", "0-0"), expected[:3])
        self.assertEqual(self.browse("--last", "1"), [b"3 of 0", b"3 of 2"])
        self.assertEqual(self.browse("--last", "2"), expected[1:3] + expected[4:])
        self.assertEqual(self.browse("--last", "9"), expected)
        chosen = ("--last", "1", "--grep", "[12] of 2")
        self.assertEqual(self.browse(*chosen), [b"2 of 2"])

    def test_choice(self) -> None:
        """Bodies are chosen by what is in them, and by offsets."""
        self.assertEqual(self.browse("--grep", "^2.*0$"), [b"2 of 0"])
        self.assertEqual(self.browse("--contains", "^2"), [])
        second = str(26)
        part = ("--partition", "2")
        self.assertEqual(self.browse(*part, "--from-offset", second)[0], b"2 of 2")
        self.assertEqual(self.browse(*part, "--to-offset", second), [b"1 of 2"])
        window = ("--from-offset", second, "--to-offset", str(52))
        self.assertEqual(self.browse(*part, *window), [b"2 of 2"])

    def test_json(self) -> None:
        """JSON tells where each message is."""
        done = self.run_command("browse", "test", "--format", "json", "--last", "1")
        places = [(one["partition"], one["offset"]) for one in objects(done.stdout)]
        self.assertEqual(places, [("0-0", "52"), ("0-2", "52")])

    def test_refused(self) -> None:
        """What cannot be shown is exit code 1, a broker that is not there 3."""
        for words, reason in (
            (("test", "--partition", "7"), b"has no partition 7; it has 0-0, "),
            (("test", "--from-offset", "0"), b"offsets are for one --partition"),
            (("nope",), b"topic nope has no partition"),
        ):
            done = self.run_command("browse", *words, code=1)
            self.assertIn(reason, done.stderr)
        address = self.nobody()
        done = self.run_command("browse", "test", code=3, address=address)
        self.assertIn(address.encode(), done.stderr)

    def test_damaged(self) -> None:
        """A damaged message is passed over, and stderr says so."""
        (log,) = self.broker.data_dir.glob("test-2/*.meta")
        with log.open("r+b") as stored:
            stored.seek(log.read_bytes().index(b"2 of 2"))
            stored.write(b"?")
        done = self.run_command("browse", "test", "--partition", "2")
        self.assertEqual(done.stdout.splitlines(), [b"1 of 2", b"3 of 2"])
        self.assertIn(b": corrupt, goes on at 52 instead of 26", done.stderr)

    def test_reader_leaves(self) -> None:
        """A reader that leaves ends it with exit code 0."""
        self.run_command("bench", "produce", "other", "--messages", "2000")
        process = self.begin_command("browse", "other", "--format", "hex")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(process.stderr.read(), b"")


class BenchTest(CommandCase):
    """Figures."""

    def test_produce_and_consume(self) -> None:
        """As many as asked for are stored, and read again; figures as JSON."""
        sizes = ("--messages", "500", "--size", "10")
        for more in ((), ("--batch", "64"), ("--in-flight", "3")):
            done = self.run_command("bench", "produce", "test", "--json", *sizes, *more)
            found = json.loads(done.stdout)
            self.assertEqual(
                (found["messages"], found["bytes"], found["failed"]), (500, 5000, 0)
            )
            self.assertGreater(found["latency_ms"]["max"], 0)
            self.assertGreaterEqual(
                found["latency_ms"]["max"], found["latency_ms"]["p50"]
            )
        done = self.run_command("bench", "consume", "test", "--json")
        found = json.loads(done.stdout)
        self.assertEqual((found["messages"], found["bytes"]), (1500, 15_000))
        done = self.run_command("bench", "consume", "test", "--messages", "700")
        self.assertIn(b"700 messages in", done.stdout)
        self.assertEqual(len(self.stored()), 1500)

    def test_limits(self) -> None:
        """It ends after the time it was given, at the rate it was given."""
        done = self.run_command(
            *("bench", "produce", "test", "--seconds", "1", "--rate", "20", "--json")
        )
        found = json.loads(done.stdout)
        self.assertGreaterEqual(found["seconds"], 1)
        self.assertLessEqual(found["messages"], 20 * found["seconds"] + 2)

    def test_refused(self) -> None:
        """Failures are exit code 1, nobody there is 3."""
        words = ("bench", "produce", "nope", "--messages", "5")
        done = self.run_command(*words, code=1)
        self.assertIn(b"5 not stored", done.stderr)
        self.run_command("bench", "consume", "nope", code=1)
        for verb in ("produce", "consume"):
            self.run_command("bench", verb, "test", code=3, address=self.nobody())

    def test_interrupted(self) -> None:
        """SIGINT ends it with the figures so far."""
        process = self.begin_command("bench", "produce", "test", "--rate", "5")
        self.wait_until(lambda: bool(self.stored()), "it has begun")
        process.send_signal(signal.SIGINT)
        code, out, _ = self.ended(process)
        self.assertEqual(code, 130)
        self.assertIn(b"latency in ms", out)
