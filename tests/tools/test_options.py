"""Wrong usage of `produce`, `consume`, `browse` and `bench`, and what help says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from click.testing import CliRunner, Result
from twisted.trial.unittest import SynchronousTestCase

from metatwist.cli.main import main

COMMANDS = ("produce", "consume", "browse", "bench produce", "bench consume")


def run(line: str, env: Mapping[str, str] | None = None) -> Result:
    """`metatwist LINE`, in this process; nothing that needs a reactor."""
    return CliRunner().invoke(main, line.split(), env=env)


class UsageTest(SynchronousTestCase):
    """Exit code 2, and a sentence."""

    def check(
        self, line: str, words: str, env: Mapping[str, str] | None = None
    ) -> None:
        """The command is refused with these words."""
        result = run(line, env)
        self.assertEqual(result.exit_code, 2, result.output)
        self.assertIn(words, " ".join(result.output.split()))

    def test_addresses(self) -> None:
        """What is no address or connect string is refused before anything is tried."""
        for command in COMMANDS:
            self.check(f"{command} t --broker http://a:1", "http:// is not spoken here")
            self.check(f"{command} t --broker a", "there is no port")
            self.check(f"{command} t --zookeeper a:b", "a:b")
            self.check(
                f"{command} t --broker tcp:x", "client endpoint: 'port' is missi"
            )
            self.check(f"{command} t --broker tls:h:p", "is no client endpoint")
            both = f"{command} t --broker a:1 --zookeeper b:1"
            self.check(both, "not both")
        env = {"METATWIST_BROKER": "a", "METATWIST_ZOOKEEPER": "b:1"}
        self.check("browse t", "not both", env)

    def test_the_command_line_wins(self) -> None:
        """An option beats the other one's environment variable."""
        self.check("browse t --broker a", "no port", {"METATWIST_ZOOKEEPER": "b:1"})
        self.check("browse t", "no port", {"METATWIST_BROKER": "b:1 a"})

    def test_produce(self) -> None:
        """Options of produce that do not fit."""
        self.check("produce", "Missing argument 'TOPIC'")
        self.check("produce t no-such-file", "does not exist")
        self.check("produce t --null --whole-file", "give one of")
        self.check("produce t --delimiter \\q", "is no escape")
        self.check("produce t --json --key-delimiter :", "JSON has its keys")
        self.check("produce t --partition 3", "no partition; one is 0-3")
        self.check("produce t --encoding utf-16", "a newline is not one byte")
        self.check("produce t --encoding nonsense", "is no encoding")
        self.check("produce t --rate 0", "--rate")

    def test_consume(self) -> None:
        """Options of consume that do not fit."""
        self.check("consume", "Missing argument 'TOPIC...'")
        self.check("consume t t", "named twice")
        for option in (
            "--no-commit",
            "--offsets x",
            "--consumer-id x",
            "--from stored",
        ):
            self.check(f"consume t {option}", "needs a --group")
        self.check("consume t --group g", "needs --zookeeper, or --offsets")
        self.check("consume t --group a/b --offsets x", "contains '/'")
        self.check("consume t --from yesterday", "is none of earliest")
        self.check("consume t --from -1", "is none of earliest")
        self.check(f"consume t --from {2**63}", "is none of earliest")

    def test_browse_and_bench(self) -> None:
        """Options of the others that do not fit."""
        self.check("browse t --grep (", "no regular expression")
        self.check("browse t --grep a --contains b", "not both")
        self.check("browse t --last 0", "--last")
        self.check("browse t --last 1000001", "--last")
        self.check("bench produce t --size -1", "--size")
        self.check("bench consume t --messages 0", "--messages")


class HelpTest(SynchronousTestCase):
    """What users see first."""

    def test_exit_codes(self) -> None:
        """Each command documents its exit codes."""
        for command in COMMANDS:
            result = run(f"{command} --help")
            self.assertEqual(result.exit_code, 0)
            self.assertIn("Exit codes: 0 done", result.output)

    def test_start_is_quick(self) -> None:
        """`metatwist` loads nothing of Twisted before a command needs it."""
        code = "import sys, metatwist.cli.main; print('twisted' in sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        self.assertEqual(done.stdout, "False\n")
