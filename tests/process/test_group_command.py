"""The commands of the client by way of ZooKeeper, which an embedded coordinator is."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.crash.own_broker import OwnBroker
from tests.support.child_process import free_port

from .command_case import CommandCase

pytestmark = pytest.mark.process
OFFSET = "/meta/consumers/g/offsets/test/0-0"


class GroupTest(CommandCase):
    """One broker, one coordinator, one group."""

    def make_broker(self) -> OwnBroker:
        """With a coordinator in it."""
        self.port = free_port()
        environ = {
            "METATWIST_METATWIST_coordinator": "embedded",
            "METATWIST_METATWIST_coordinatorEndpoint": (
                f"tcp:{self.port}:interface=127.0.0.1"
            ),
        }
        broker = OwnBroker(self.directory / "broker", environ=environ)
        self.addCleanup(broker.kill)
        return broker

    def target(self) -> tuple[str, ...]:
        """By the coordinator."""
        return ("--zookeeper", f"127.0.0.1:{self.port}")

    def tree(self) -> KazooClient:
        """The coordinator's tree, once the topic is in it."""
        tree = KazooClient(f"127.0.0.1:{self.port}")
        tree.start(timeout=20)
        self.addCleanup(tree.close)
        self.addCleanup(tree.stop)
        node = "/meta/brokers/topics-sub/test/0-m"
        self.wait_until(lambda: tree.exists(node) is not None, "it is registered")
        return tree

    def produce(self, data: bytes) -> None:
        """Into one partition."""
        self.run_command("produce", "test", "--partition", "0-0", data=data)

    def consume(self, *words: str, code: int = 0) -> bytes:
        """What the group reads up to the present end."""
        group = ("consume", "test", "--group", "g", "--until-end")
        output: bytes = self.run_command(*group, *words, code=code).stdout
        return output

    def offset(self, tree: KazooClient) -> Any:
        """What is committed, None for nothing."""
        found = tree.exists(OFFSET)
        return None if found is None else tree.get(OFFSET)[0]

    def test_group(self) -> None:
        """The group's offset moves as far as was written, unless told not to."""
        tree = self.tree()
        self.produce(b"1\n2\n")
        self.assertEqual(self.consume("--no-commit"), b"1\n2\n")
        self.assertTrue(self.offset(tree) is None or self.offset(tree).endswith(b"-0"))
        self.assertEqual(self.consume(), b"1\n2\n")
        self.assertTrue(self.offset(tree).endswith(b"-42"), self.offset(tree))
        self.produce(b"3\n")
        self.assertEqual(self.consume("--from", "stored"), b"3\n")
        self.assertEqual(self.consume(), b"")

    def test_interrupted(self) -> None:
        """A signal makes it commit and leave the group at once."""
        tree = self.tree()
        self.produce(b"1\n")
        words = ("consume", "test", "--group", "g", "--consumer-id", "me")
        process = self.begin_command(*words)
        self.assertEqual(process.stdout.readline(), b"1\n")
        self.assertEqual(tree.get_children("/meta/consumers/g/ids"), ["g_me"])
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.ended(process)[0], 130)
        self.assertEqual(tree.get_children("/meta/consumers/g/ids"), [])
        self.assertEqual(tree.get_children("/meta/consumers/g/owners/test"), [])
        self.assertTrue(self.offset(tree).endswith(b"-21"), self.offset(tree))

    def test_killed_member(self) -> None:
        """What a member that was killed still holds is not taken for read: the end is
        waited for, and when nothing at all is assigned the exit code is 1."""
        self.tree()
        self.produce(b"1\n")
        words = ("consume", "test", "--group", "g", "--consumer-id", "gone")
        process = self.begin_command(*words)
        self.assertEqual(process.stdout.readline(), b"1\n")
        process.kill()
        process.wait()
        self.produce(b"2\n")
        group = ("consume", "test", "--group", "g", "--until-end")
        done = self.run_command(*group, "--timeout", "1", code=1)
        self.assertEqual(done.stdout, b"")
        self.assertIn(b"no partition was assigned within 1 s: ", done.stderr)
        self.assertIn(b"test:0-0, test:0-1, test:0-2, test:0-3 held by g_", done.stderr)

    def test_contested(self) -> None:
        """A partition that should be ours and another still has is waited for, also
        when all others have been read."""
        tree = self.tree()
        self.produce(b"1\n")
        node = "/meta/consumers/g/owners/test/0-0"
        tree.create(node, b"g_gone", makepath=True)
        group = ("consume", "test", "--group", "g", "--until-end")
        process = self.begin_command(*group, "--timeout", "1")
        note = b"waits for partitions: test:0-0 held by g_gone\n"
        self.assertEqual(process.stderr.readline(), note)
        self.assertIsNone(process.poll())
        tree.delete(node)
        self.assertEqual(self.ended(process), (0, b"1\n", b""))

    def test_shared(self) -> None:
        """What a living member has as its share is not waited for."""
        tree = self.tree()
        words = ("consume", "test", "--group", "g", "--consumer-id", "me")
        self.begin_command(*words)
        owners = "/meta/consumers/g/owners/test"

        def all_taken() -> bool:
            return tree.exists(owners) and len(tree.get_children(owners)) == 4

        self.wait_until(all_taken, "all partitions are its own")
        self.assertEqual(self.consume(), b"")
        self.wait_until(all_taken, "it has all of them again")

    def test_without_a_group(self) -> None:
        """Everything is read, nothing is written in the tree; browse and bench too."""
        tree = self.tree()
        self.produce(b"1\n")
        words = ("consume", "test", "--until-end")
        self.assertEqual(self.run_command(*words).stdout, b"1\n")
        self.assertEqual(self.run_command("browse", "test").stdout, b"1\n")
        done = self.run_command("bench", "consume", "test")
        self.assertIn(b"1 messages in", done.stdout)
        self.assertIsNone(tree.exists("/meta/consumers"))

    def test_unreached(self) -> None:
        """Without an ensemble the exit code is 3, and so it is without the brokers that
        are registered; the addresses are told."""
        tree = self.tree()
        self.produce(b"1\n")
        commands = (("produce", "test"), ("browse", "test"), ("consume", "test"))
        tree.set("/meta/brokers/ids/0/master", b"meta://127.0.0.1:1")
        for command in commands:
            done = self.run_command(*command, "--timeout", "1", data=b"x", code=3)
            self.assertIn(b"127.0.0.1:1: ", done.stderr)
        self.port = free_port()
        for command in commands:
            done = self.run_command(*command, "--timeout", "1", data=b"x", code=3)
            self.assertIn(f"127.0.0.1:{self.port}: ".encode(), done.stderr)
