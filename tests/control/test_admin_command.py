"""`metatwist admin` against a scripted control socket."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path
from unittest import mock

from click.testing import CliRunner, Result
from fake_broker import accepted, fake_broker, refused
from twisted.trial.unittest import SynchronousTestCase

from metatwist import __version__
from metatwist.cli.control_client import BrokerUnreachable, ControlClient
from metatwist.cli.main import main
from metatwist.cli.target import AdminTarget


class CommandCase(SynchronousTestCase):
    """Runs `metatwist` on a data directory of its own."""

    def setUp(self) -> None:
        self.data = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.data)

    def run_command(self, *words: str, answer: str | None = None) -> Result:
        env = {"METATWIST_DATA": str(self.data)}
        return CliRunner().invoke(main, words, input=answer, env=env)

    def sent_by(self, *words: str) -> dict[str, object]:
        """The request that `metatwist admin WORDS` sends."""
        with fake_broker(self.data, accepted(None)) as broker:
            result = self.run_command("admin", *words)
        os.unlink(self.data / "control.sock")
        self.assertEqual((result.exit_code, result.output), (0, "done\n"))
        return broker.requests[0]

    def hold_lock(self) -> None:
        directory_fd = os.open(self.data, os.O_RDONLY)
        fcntl.flock(directory_fd, fcntl.LOCK_EX)
        self.addCleanup(os.close, directory_fd)


class VerbTests(CommandCase):
    """What each verb sends."""

    def check(self, line: str, **args: object) -> None:
        words = line.split()
        expected = {"verb": words[0], "args": args}
        self.assertEqual(self.sent_by(*words), expected)

    def test_every_verb(self) -> None:
        """Each verb sends its own name and its arguments by name."""
        news = {"topic": "news"}
        span = {**news, "first": 0, "last": 2}
        self.check("close-partitions news 0 2", **span)
        self.check("open-partitions news", **news)
        self.check("open-partitions news 0 2", **span)
        self.check("delete-partitions news 0 2 --force", **span, force=True)
        self.check("move-partitions news 0 2 4", **span, offset=4)
        self.check("reload")
        self.check("flush")
        self.check("flush news", **news)
        self.check("stats")
        self.check("stats offsets", item="offsets")
        self.check("status")
        self.check("groups")
        self.check("groups billing", group="billing")
        self.check("recovery")
        self.check(
            "offset-at news 1 1769853600000", **news, partition=1, time_ms=1769853600000
        )
        self.check("retain")
        self.check("retain news", **news)
        self.check("stop")

    def test_negative_offset(self) -> None:
        """Partitions move downwards by a negative offset, without any `--`."""
        request = self.sent_by("move-partitions", "news", "4", "5", "-2")
        self.assertEqual(request["args"]["offset"], -2)  # type: ignore[index]

    def test_delete_asks(self) -> None:
        """Without --force a deletion asks, and a no reaches no broker."""
        words = ("admin", "delete-partitions", "news", "0", "2")
        result = self.run_command(*words, answer="n\n")
        self.assertEqual(result.exit_code, 1)
        self.assertIn("Delete partitions 0 to 2 of news", result.stderr)
        with fake_broker(self.data, accepted(None)) as broker:
            result = self.run_command(*words, answer="y\n")
        self.assertTrue(broker.requests[0]["args"]["force"])

    def test_wrong_usage(self) -> None:
        """Words that make no request exit with 2 and send nothing."""
        for line in (
            "close-partitions news 2 0",
            "close-partitions news 0",
            "close-partitions news -1 0",
            "close-partitions news zero 1",
            "open-partitions news 0",
            "move-partitions news 0 1 2 --bogus",
            "offset-at news 0 yesterday",
            "closepartitions news 0 1",
            "--timeout 0 status",
        ):
            result = self.run_command("admin", *line.split())
            self.assertEqual(result.exit_code, 2, line)
            self.assertIn("Usage:", result.stderr)


class OutputTests(CommandCase):
    """What comes back."""

    def test_refused(self) -> None:
        """A refusal exits with 1 and prints the broker's sentence on stderr."""
        with fake_broker(self.data, refused("topic 'nwes' is unknown")):
            result = self.run_command("admin", "flush", "nwes")
        self.assertEqual((result.exit_code, result.stdout), (1, ""))
        self.assertIn("topic 'nwes' is unknown", result.stderr)

    def test_hostile_refusal(self) -> None:
        """A refusal can quote names from the network; they cannot steer the
        terminal."""
        with fake_broker(self.data, refused("no group; there are: a\x1b[2J, b\u202e")):
            result = self.run_command("admin", "groups", "nope")
        self.assertIn("a\\x1b[2J, b\\u202e", result.stderr)

    def test_json(self) -> None:
        """--json, at the group or at the verb, prints the result as JSON."""
        facts = {"uptime_s": 3, "marks": []}
        for words in (("--json", "status"), ("status", "--json")):
            with fake_broker(self.data, accepted(facts)):
                result = self.run_command("admin", *words)
            os.unlink(self.data / "control.sock")
            self.assertEqual(json.loads(result.stdout), facts)

    def test_failures(self) -> None:
        """Work that failed for a partition is printed and exits with 1."""
        for words in (("retain",), ("flush", "--json")):
            with fake_broker(self.data, accepted({"failed": ["news-0: no space"]})):
                result = self.run_command("admin", *words)
            os.unlink(self.data / "control.sock")
            self.assertEqual(result.exit_code, 1)
            self.assertIn("news-0: no space", result.stdout)

    def test_stats_text(self) -> None:
        """Statistics print as the lines they are."""
        with fake_broker(self.data, accepted("STATS\r\npid 7\r\nEND\r\n")):
            result = self.run_command("admin", "stats")
        self.assertEqual(result.stdout, "STATS\npid 7\nEND\n")

    def test_data_option(self) -> None:
        """--data wins over the environment, and the verb's over the group's."""
        nowhere = str(self.data / "nowhere")
        with fake_broker(self.data, accepted(5)):
            result = self.run_command(
                "admin", "--data", nowhere, "status", "--data", str(self.data)
            )
        self.assertEqual(result.stdout, "5\n")

    def test_default_directory(self) -> None:
        """Without --data and environment the directory is ./data."""
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.data)
        result = CliRunner().invoke(
            main, ["admin", "status"], env={"METATWIST_DATA": ""}
        )
        self.assertIn(f"no directory {os.getcwd()}/data;", result.stderr)

    def test_version(self) -> None:
        """--version names the release."""
        self.assertIn(__version__, self.run_command("--version").output)


class UnreachableTests(CommandCase):
    """Exit code 3, each time with what was found."""

    def refusal(self, *words: str) -> str:
        result = self.run_command("admin", *(words or ("status",)))
        self.assertEqual((result.exit_code, result.stdout), (3, ""))
        return result.stderr

    def test_no_socket(self) -> None:
        """Without a socket the message names the directory and how to choose one."""
        message = self.refusal()
        self.assertIn(f"no broker runs on {self.data}", message)
        self.assertIn("--data", message)

    def test_no_directory(self) -> None:
        """A directory that does not exist is called that."""
        gone = str(self.data / "gone")
        self.assertIn(f"no directory {gone}", self.refusal("--data", gone, "status"))

    def test_stale_socket(self) -> None:
        """A socket that nobody listens on is told from no socket."""
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(self.data / "control.sock"))
        left.close()
        self.assertIn("nobody listens", self.refusal())

    def test_permission(self) -> None:
        """A socket of another user's broker says who may use it."""
        denied = PermissionError(13, "Permission denied")
        with mock.patch("socket.socket.connect", side_effect=denied):
            self.assertIn("permission denied", self.refusal())

    def test_queue_full(self) -> None:
        """A broker that accepts nobody is given up on after the connect timeout."""
        path = str(self.data / "control.sock")
        with (
            socket.socket(socket.AF_UNIX) as busy,
            socket.socket(socket.AF_UNIX) as one,
        ):
            busy.bind(path)
            busy.listen(0)
            one.connect(path)
            client = ControlClient(self.data, connect_timeout_s=0.01)
            error = self.assertRaises(BrokerUnreachable, client.call, "status")
        self.assertIn("accepts no connection within 0.01 s", str(error))

    def test_gone_mid_answer(self) -> None:
        """A broker that leaves mid-answer leaves the outcome open, and it says so."""
        with fake_broker(self.data, b'{"ok": true, "res'):
            message = self.refusal("reload")
        self.assertIn("reload may or may not have been done", message)

    def test_no_answer_in_time(self) -> None:
        """With --timeout a broker that hangs is given up on."""
        with socket.socket(socket.AF_UNIX) as hanging:
            hanging.bind(str(self.data / "control.sock"))
            hanging.listen()
            message = self.refusal("--timeout", "0.01", "reload")
        self.assertIn("no answer to reload within 0.01 s", message)

    def test_default_timeout(self) -> None:
        """What needs only memory is waited for 30 s; what needs the disk, for ever."""
        slow = {"flush", "retain", "move-partitions", "delete-partitions", "stop"}
        quick = {"status", "stats", "metrics", "recovery", "reload", "offset-at"}
        for verb in slow | quick | {"open-partitions", "close-partitions"}:
            with mock.patch("metatwist.cli.target.ControlClient") as client:
                AdminTarget(self.data).call(verb)
            expected = None if verb in slow else 30.0
            client.assert_called_with(self.data, answer_timeout_s=expected)

    def test_stranger(self) -> None:
        """Something else that listens there is not taken for a broker."""
        for line in (b"hello\n", b"[]\n", b'{"ok": true}\n'):
            with fake_broker(self.data, line):
                self.assertIn("no metatwist broker", self.refusal())
            os.unlink(self.data / "control.sock")


class StopTests(CommandCase):
    """`metatwist admin stop`."""

    def test_still_holds(self) -> None:
        """A broker that does not let go of its directory in time exits with 1."""
        self.hold_lock()
        with fake_broker(self.data, accepted("stopping")):
            result = self.run_command("admin", "stop", "--wait", "0.01")
        self.assertEqual(result.exit_code, 1)
        self.assertIn("still holds", result.stderr)

    def test_no_wait(self) -> None:
        """--wait 0 returns with the broker's word."""
        self.hold_lock()
        with fake_broker(self.data, accepted("stopping")):
            result = self.run_command("admin", "stop", "--wait", "0")
        self.assertEqual((result.exit_code, result.stdout), (0, "stopping\n"))

    def test_leaves_without_a_word(self) -> None:
        """A broker that is gone without an answer has stopped; that is success."""
        with fake_broker(self.data, b""):
            result = self.run_command("admin", "stop")
        self.assertEqual(result.exit_code, 0)


class OfflineTests(CommandCase):
    """`metatwist admin offline`, whose rules `test_offline` covers."""

    def test_move(self) -> None:
        """A move prints old and new names."""
        (self.data / "news-4").mkdir()
        words = ("admin", "offline", "move-partitions", "news", "4", "4", "-4")
        result = self.run_command(*words)
        self.assertEqual(result.stdout, "from    to\nnews-4  news-0\n")
        self.assertEqual(os.listdir(self.data), ["news-0"])

    def test_in_use(self) -> None:
        """A directory with a running broker is refused with exit code 1."""
        self.hold_lock()
        for words in (
            ("move-partitions", "t", "0", "0", "1"),
            ("delete-partitions", "t", "0", "0", "--force"),
        ):
            result = self.run_command("admin", "offline", *words)
            self.assertEqual(result.exit_code, 1)
            self.assertIn("is in use", result.stderr)

    def test_delete(self) -> None:
        """A deletion lists what goes and asks; a no keeps it, --force skips asking."""
        (self.data / "news-0").mkdir()
        words = ("admin", "offline", "delete-partitions", "news", "0", "0")
        result = self.run_command(*words, answer="n\n")
        self.assertEqual(result.exit_code, 1)
        self.assertIn("news-0: 0 files, 0 B", result.stderr)
        self.assertEqual(os.listdir(self.data), ["news-0"])
        result = self.run_command(*words, "--force", "--json")
        self.assertEqual(json.loads(result.stdout), [{"deleted": "news-0"}])
        self.assertEqual(os.listdir(self.data), [])
