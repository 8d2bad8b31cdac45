"""What keeps a broker from starting, and says so; and what must not."""

from __future__ import annotations

import os
import socket

import pytest

from metatwist.local_socket import CONTROL_SOCKET_NAME
from tests.crash.own_broker import OwnBroker
from tests.support.wire_client import WireClient, put_request

from .broker_case import BrokerCase

pytestmark = pytest.mark.process
MANY = 1000


class Refusals(BrokerCase):
    """Starts that end at once, with a sentence and an exit code."""

    def test_second_broker_on_the_directory(self) -> None:
        """A second broker names the directory and leaves the first one alone."""
        first = self.own_broker()
        first.start()
        self.client(first).put("test", 0, b"one")
        second = OwnBroker(self.directory / "second")
        second.data_dir = first.data_dir
        done = second.run_once()
        self.assertEqual(done.returncode, 1)
        said = done.stdout + done.stderr
        self.assertRegex(said, f"{first.data_dir} is in use by another broker")
        self.assertNotIn("Traceback", said)
        self.client(first).put("test", 0, b"two")
        self.assertEqual(len(self.read(first, "test", 0)), 2)

    def test_port_taken(self) -> None:
        """A taken port is named; the data is left as after an orderly stop."""
        broker = self.own_broker()
        broker.start()
        self.client(broker).put("test", 0, b"one")
        self.terminate(broker)
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", broker.port))
            taken.listen()
            done = broker.run_once()
        self.assertEqual(done.returncode, 1)
        said = done.stdout + done.stderr
        self.assertRegex(said, f"cannot start: .*:{broker.port}: .*in use")
        self.assertNotIn("Traceback", said)
        broker.start()
        self.assert_clean(broker, partitions=1)

    def test_later_plugins(self) -> None:
        """-F with a plugin of the original that is not here yet is refused by name."""
        broker = self.own_broker()
        for option in ("-Fsamsa=samsa.properties", "--plugin=metaslave=x"):
            done = broker.run_once(option)
            self.assertNotEqual(done.returncode, 0)
            said = done.stdout + done.stderr
            self.assertIn("is not part of this version", said)
            self.assertIn("samsa" if "samsa" in option else "metaslave", said)
        done = broker.run_once("-Fkafka=x")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("unknown plugin 'kafka'", done.stdout + done.stderr)

    def test_wrong_settings(self) -> None:
        """A wrong key is named with file and line before anything starts."""
        broker = self.own_broker(system={"unflushTreshold": 1})
        for options in ((), ("--check",)):
            done = broker.run_once(*options)
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(broker.ini_path), done.stderr)
            self.assertIn("unflushTreshold", done.stderr)
            self.assertIn("unflushThreshold", done.stderr)
            self.assertFalse(broker.data_dir.exists())

    def test_check(self) -> None:
        """--check says that good settings are good, and touches nothing."""
        broker = self.own_broker()
        done = broker.run_once("--check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("good", done.stdout)
        self.assertFalse(broker.data_dir.exists())

    def test_missing_file(self) -> None:
        """A configuration file that is not there is named."""
        broker = self.own_broker()
        done = broker.run_once("-f", "nowhere.ini")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nowhere.ini", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class Starts(BrokerCase):
    """Starts on what other runs have left."""

    def test_many_partitions(self) -> None:
        """A thousand partitions come back clean after a stop in order."""
        topics = {"many": {"numPartitions": MANY, "unflushThreshold": 1_000_000}}
        broker = self.own_broker(topics)
        broker.start()
        requests = [
            put_request("many", partition, b"%d" % partition, opaque=partition)
            for partition in range(MANY)
        ]
        with WireClient(broker.port) as client:
            client.send(b"".join(requests))
            for partition in range(MANY):
                self.assertEqual(client.reply().stored.partition, partition)
        self.terminate(broker)
        broker.start()
        self.assert_clean(broker, partitions=MANY)
        for partition in (0, 1, 499, MANY - 1):
            (found,) = self.read(broker, "many", partition)
            self.assertEqual(found.payload, b"%d" % partition)

    def test_nothing_stays_in_the_root(self) -> None:
        """A stop in order leaves partitions in the data root, and nothing else."""
        broker = self.own_broker()
        broker.start()
        self.client(broker).put("test", 0, b"one")
        self.assertIn(CONTROL_SOCKET_NAME, os.listdir(broker.data_dir))
        self.terminate(broker)
        self.assertEqual(os.listdir(broker.data_dir), ["test-0"])

    def test_socket_of_a_killed_broker(self) -> None:
        """The control socket that a kill leaves behind is replaced."""
        broker = self.own_broker()
        broker.start()
        broker.kill()
        self.assertIn(CONTROL_SOCKET_NAME, os.listdir(broker.data_dir))
        self.assertEqual(broker.cli("status").returncode, 3)
        broker.start()
        self.assertEqual(broker.cli_json("status")["pid"], broker.pid)
