"""Real brokers with an embedded coordinator, alone and as the others' ensemble."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.crash.own_broker import OwnBroker
from tests.support.child_process import free_port
from tests.support.wire_client import WireClient

from .broker_case import BrokerCase

pytestmark = pytest.mark.process
SESSION_S = 2


class CoordinationCase(BrokerCase):
    """`port` is that of the embedded coordinator."""

    def setUp(self) -> None:
        """Choose the port."""
        super().setUp()
        self.port = free_port()
        self.endpoint = f"tcp:{self.port}:interface=127.0.0.1"

    def broker(self, name: str, **environ: str) -> OwnBroker:
        """A broker that is not started; the variables are those of [metatwist]."""
        variables = {f"METATWIST_METATWIST_{key}": environ[key] for key in environ}
        broker = OwnBroker(self.directory / name, environ=variables)
        self.addCleanup(broker.kill)
        return broker

    def embedded(self, name: str = "first") -> OwnBroker:
        """A broker with its own coordinator."""
        return self.broker(
            name, coordinator="embedded", coordinatorEndpoint=self.endpoint
        )

    def joining(self, name: str, broker_id: int) -> OwnBroker:
        """A broker for which that coordinator is an ensemble."""
        broker = self.broker(name, coordinator="ensemble")
        broker.system["brokerId"] = broker_id
        broker.zookeeper = {
            "zk.zkConnect": f"127.0.0.1:{self.port}",
            "zk.zkSessionTimeoutMs": SESSION_S * 1000,
        }
        return broker

    def zookeeper(self) -> KazooClient:
        """A client of the coordinator."""
        client = KazooClient(f"127.0.0.1:{self.port}")
        client.start(timeout=20)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        return client

    def coordination(self, broker: OwnBroker) -> Any:
        """That part of `status`."""
        return broker.cli_json("status")["coordination"]


class EmbeddedBroker(CoordinationCase):
    """One broker, with nothing beside it."""

    def test_registered(self) -> None:
        """A ZooKeeper client finds the broker and its topic, and `status` says so."""
        broker = self.embedded()
        broker.start()
        client = self.zookeeper()
        self.wait_until(
            lambda: client.exists("/meta/brokers/topics-sub/test/0-m"),
            "the topic is registered",
        )
        url, _ = client.get("/meta/brokers/ids/0/master")
        self.assertEqual(url.decode(), broker.address)
        found = self.coordination(broker)
        self.assertEqual((found["kind"], found["state"]), ("embedded", "connected"))
        self.assertEqual((found["registered_nodes"], found["problem"]), (6, None))
        self.assertRegex(broker.cli("status").stdout, "registered nodes +6")
        metrics = broker.cli("metrics").stdout
        self.assertIn('metatwist_coordination_state{state="connected"} 1.0', metrics)
        self.assertIn("metatwist_registered_nodes 6.0", metrics)

    def test_ipv6_host(self) -> None:
        """An IPv6 address of `hostName` is registered in brackets."""
        broker = self.embedded()
        broker.system["hostName"] = "::1"
        broker.start()
        client, master = self.zookeeper(), "/meta/brokers/ids/0/master"
        self.wait_until(lambda: client.exists(master), "it is registered")
        url, _ = client.get(master)
        self.assertEqual(url.decode(), f"meta://[::1]:{broker.port}")

    def test_unfit_host(self) -> None:
        """A host that Java clients cannot use is a warning of `--check`, of the start
        and of `status`, once in each."""
        broker = self.embedded()
        broker.system["hostName"] = "my_host"
        told = "[system] hostName: clients are told meta://my_host:"
        done = broker.run_once("--check")
        self.assertEqual((done.returncode, done.stderr.count(told)), (0, 1), done)
        broker.start()
        self.wait_until(
            lambda: self.coordination(broker)["registered_nodes"] == 6, "registered"
        )
        warnings = broker.cli_json("status")["warnings"]
        self.assertEqual(len([one for one in warnings if "my_host" in one]), 1)
        self.assertEqual(broker.output().count(told), 1)

    def test_stop(self) -> None:
        """The nodes go first; the wait ends when the last client has left; offsets and
        the like are there after the next start."""
        broker = self.embedded()
        broker.start()
        client = self.zookeeper()
        client.create("/meta/consumers/g/offsets/test/0-0", b"1-2", makepath=True)
        peer = WireClient(broker.port)
        self.addCleanup(peer.close)
        self.wait_until(
            lambda: self.coordination(broker)["registered_nodes"] == 6, "registered"
        )
        os.kill(broker.pid, signal.SIGTERM)
        self.wait_until(
            lambda: not client.exists("/meta/brokers/ids/0"), "it has withdrawn"
        )
        peer.put("test", 0, b"still served")
        peer.close()
        self.assertIn(broker.wait(), (0, -signal.SIGTERM))
        self.assertNotIn("Traceback", broker.output())
        broker.start()
        client = self.zookeeper()
        data, _ = client.get("/meta/consumers/g/offsets/test/0-0")
        self.assertEqual(data, b"1-2")

    def test_beside_the_data(self) -> None:
        """The database lies beside the data, not in it."""
        broker = self.embedded()
        broker.start()
        beside = Path(f"{broker.data_dir}.coordinator")
        self.assertTrue(any(beside.iterdir()))
        self.terminate(broker)
        self.assertEqual(os.listdir(broker.data_dir), [])

    def test_moved_without_offsets(self) -> None:
        """Where there are messages and no consumer group, as after a move that left the
        coordinator's directory behind, the start names that directory."""
        broker, told = self.embedded(), "knows no consumer group yet"
        broker.start()
        with WireClient(broker.port) as peer:
            peer.put("test", 0, b"a message")
        self.assertNotIn(told, broker.output())
        path = "/meta/consumers/g/offsets/test/0-0"
        self.zookeeper().create(path, b"1-2", makepath=True)
        self.terminate(broker)
        broker.start()
        self.assertNotIn(told, broker.output())
        self.terminate(broker)
        beside = Path(f"{broker.data_dir}.coordinator")
        beside.rename(self.directory / "left-behind")
        broker.start()
        self.assertIn(told, broker.output())
        self.assertIn(f"move {beside} as well", broker.output())

    def test_port_taken(self) -> None:
        """A coordinator's port that is taken ends the start, with what to do."""
        broker = self.embedded()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            done = broker.run_once()
        self.assertEqual(done.returncode, 1)
        said = done.stdout + done.stderr
        for words in ("cannot start", "coordinatorEndpoint", "coordinator=none"):
            self.assertIn(words, said)
        self.assertNotIn("Traceback", said)

    def test_bad_credentials_file(self) -> None:
        """A file with credentials that is not there ends the start before it begins."""
        broker = self.broker("first", zooKeeperAuthFile=str(self.directory / "auth"))
        done = broker.run_once()
        self.assertEqual(done.returncode, 1)
        self.assertIn("zooKeeperAuthFile", done.stderr)


class NoZooKeeper(CoordinationCase):
    """What answers at `zk.zkConnect` is no ZooKeeper, or nothing does."""

    def problem(self, broker: OwnBroker) -> str:
        """What `status` begins with."""
        return str(self.coordination(broker)["problem"])

    def test_refused(self) -> None:
        """Who is missing is told with the reason; nothing of kazoo's log is in ours,
        however often it tries."""
        broker = self.joining("first", 0)
        broker.start()
        self.wait_until(
            lambda: "refused" in self.problem(broker), "status has the reason"
        )
        output = broker.output()
        self.assertIn(f"no full connection to ZooKeeper 127.0.0.1:{self.port}", output)
        self.assertNotIn("kazoo", output)
        self.assertNotIn("#debug", output)

    def test_another_broker(self) -> None:
        """The port of a MetaQ broker accepts connections and does not answer: it is
        asked whether that is a ZooKeeper."""
        first, second = self.broker("first", coordinator="none"), self.joining("x", 1)
        first.start()
        second.zookeeper["zk.zkConnect"] = f"127.0.0.1:{first.port}"
        second.zookeeper["zk.zkSessionTimeoutMs"] = 60_000
        second.start()
        self.wait_until(
            lambda: "is that a ZooKeeper?" in self.problem(second), "it is asked"
        )
        self.assertIn("is that a ZooKeeper?", second.output())


class SeveralBrokers(CoordinationCase):
    """Brokers that meet in one tree."""

    def test_second_broker(self) -> None:
        """A second broker registers beside the first, whose log and status warn."""
        first, second = self.embedded(), self.joining("second", 1)
        first.start()
        second.start()
        client = self.zookeeper()
        self.wait_until(
            lambda: client.exists("/meta/brokers/topics-sub/test/1-m"), "registered"
        )
        self.wait_until(
            lambda: "1" in self.coordination(first)["other_brokers"],
            "seen by the first",
        )
        (warning,) = first.cli_json("status")["warnings"]
        self.assertIn("coordinator=ensemble", warning)
        self.assertIn("coordinator=ensemble", first.output())
        self.assertEqual(self.coordination(second)["warnings"], [])

    def test_duplicate(self) -> None:
        """A broker whose id is taken ends with an error that names both."""
        first, second = self.embedded(), self.joining("second", 0)
        first.start()
        self.wait_until(
            lambda: self.coordination(first)["registered_nodes"] == 6, "registered"
        )
        done = second.run_once()
        self.assertEqual(done.returncode, 1)
        said = done.stdout + done.stderr
        for words in ("broker id 0 is taken", first.address, second.address):
            self.assertIn(words, said)
        self.assertNotIn("Traceback", said)
        client = self.zookeeper()
        url, _ = client.get("/meta/brokers/ids/0/master")
        self.assertEqual(url.decode(), first.address)

    def test_killed(self) -> None:
        """After kill -9 and an immediate start the broker is registered, by its new
        session."""
        first, second = self.embedded(), self.joining("second", 1)
        first.start()
        second.start()
        client = self.zookeeper()
        master = "/meta/brokers/ids/1/master"
        self.wait_until(lambda: client.exists(master), "registered")
        second.kill()
        second.start()
        self.wait_until(
            lambda: self.coordination(second)["registered_nodes"] == 6, "registered"
        )
        owner = client.exists(master).ephemeralOwner
        self.assertEqual(f"{owner:#x}", self.coordination(second)["session_id"])

    def test_coordinator_away(self) -> None:
        """Without its coordinator a broker starts, serves and stops; once there is one
        it registers."""
        second = self.joining("second", 1)
        second.start()
        self.client(second).put("test", 0, b"one")
        found = self.coordination(second)
        self.assertIn("nothing can be registered", found["problem"])
        first = self.embedded()
        first.start()
        self.wait_until(
            lambda: self.coordination(second)["registered_nodes"] == 6, "registered"
        )
        self.terminate(first)
        self.client(second).put("test", 0, b"two")
        self.terminate(second)
