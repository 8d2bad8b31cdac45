"""Orderly stops under load, and with connections that do nothing or do not read."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections import defaultdict

import pytest

from tests.crash.ledger import PartitionLedger
from tests.crash.own_broker import OwnBroker
from tests.crash.payloads import Payloads
from tests.crash.producer import Key, Producer
from tests.support.wire_client import WireClient, chunks, get_request

from .broker_case import BrokerCase

pytestmark = pytest.mark.process
TOPICS = {"grouped": {}, "direct": {"unflushThreshold": 1000}}
KEYS: list[Key] = [(topic, partition) for topic in TOPICS for partition in range(2)]
LOAD_S = 0.7


class SecondStop(BrokerCase):
    """Somebody loses patience."""

    def test_second_signal(self) -> None:
        """A second signal ends the wait for clients that were to notice, without an
        error in the log."""
        broker = OwnBroker(
            self.directory / "broker",
            {"t": {}},
            environ={"METATWIST_METATWIST_coordinator": "embedded"},
            metatwist={"coordinatorEndpoint": "tcp:0:interface=127.0.0.1"},
        )
        broker.zookeeper = {"zk.zkSyncTimeMs": 600_000}
        self.addCleanup(broker.kill)
        broker.start()
        with WireClient(broker.port) as client:
            client.put("t", 0, b"x")
            os.kill(broker.pid, signal.SIGTERM)
            self.wait_until(lambda: "shutting down" in broker.output(), "it stops")
            os.kill(broker.pid, signal.SIGTERM)
            broker.stop()
        self.assertIn("not waiting for clients", broker.output())
        self.assertNotIn("Traceback", broker.output())
        self.assertIn("is on disk", broker.output())


class StopUnderLoad(BrokerCase):
    """Six pipelining producers, and a stop in the middle of their puts."""

    def load(self, broker: OwnBroker) -> list[Producer]:
        """Producers that have been putting for a while."""
        self.payloads = Payloads(3)
        producers = [
            Producer(broker.port, (1, number), KEYS, self.payloads)
            for number in range(6)
        ]
        for producer in producers:
            producer.start()
        time.sleep(LOAD_S)
        return producers

    def assert_kept(self, broker: OwnBroker, producers: list[Producer]) -> None:
        """All replies were whole and what they say is true after the next start."""
        ledgers = {
            key: PartitionLedger(f"{key[0]}-{key[1]}", self.payloads) for key in KEYS
        }
        acknowledged: dict[int, int] = defaultdict(int)
        for number, producer in enumerate(producers):
            producer.join(20)
            self.assertFalse(producer.is_alive())
            self.assertEqual((producer.error, producer.partial), (None, b""))
            for key, sending in producer.sendings:
                ledgers[key].take(sending)
                acknowledged[number] += sending.stored is not None
        self.assertEqual(len([one for one in acknowledged.values() if one]), 6)
        broker.start()
        self.assert_clean(broker, partitions=len(KEYS))
        with WireClient(broker.port) as client:
            for key, ledger in ledgers.items():
                ledger.verify(chunks(client, *key), earlier_id=0)

    def test_sigterm(self) -> None:
        """SIGTERM loses nothing, cuts no reply, and leaves a clean directory."""
        broker = self.own_broker(TOPICS, system={"maxSegmentSize": 1 << 20})
        broker.start()
        producers = self.load(broker)
        self.terminate(broker)
        self.assert_kept(broker, producers)

    def test_admin_stop(self) -> None:
        """`metatwist admin stop` does the same, with an exit code of 0."""
        broker = self.own_broker(TOPICS)
        broker.start()
        producers = self.load(broker)
        done = broker.cli("stop")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(broker.wait(), 0)
        self.assert_kept(broker, producers)


class StopWithQuietPeers(BrokerCase):
    """Connections that wait for nothing, or do not read what they asked for."""

    def test_idle_connections(self) -> None:
        """Idle connections are closed in order, none is cut off."""
        broker = self.own_broker()
        broker.start()
        clients = [self.client(broker) for _ in range(50)]
        clients[0].put("test", 0, b"one")
        clients[1].send(b"put test 0 100 0 1\r\nnot all of it")
        self.terminate(broker)
        for client in clients:
            self.assertEqual(client.socket.recv(1), b"")
        broker.start()
        payloads = [one.payload for one in self.read(broker, "test", 0)]
        self.assertEqual(payloads, [b"one"])

    def test_peer_that_does_not_read(self) -> None:
        """Who does not read is cut off in the end, and the stop is still clean."""
        broker = self.own_broker()
        broker.start()
        with WireClient(broker.port) as client:
            for _ in range(40):
                client.put("test", 0, bytes(100_000))
        reader = socket.create_connection(("127.0.0.1", broker.port))
        self.addCleanup(reader.close)
        reader.sendall(get_request("test", 0, 0, 1 << 20) * 100)
        time.sleep(0.3)
        self.terminate(broker)
        broker.start()
        self.assert_clean(broker, partitions=1)
        self.assertEqual(len(self.read(broker, "test", 0)), 40)

    def test_reset_connections(self) -> None:
        """Peers that vanish in the middle of a reply leave nothing behind."""
        broker = self.own_broker()
        broker.start()
        with WireClient(broker.port) as client:
            for _ in range(20):
                client.put("test", 0, bytes(100_000))
        for _ in range(20):
            peer = socket.create_connection(("127.0.0.1", broker.port))
            peer.sendall(get_request("test", 0, 0, 1 << 20) * 20)
            now = struct.pack("ii", 1, 0)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
            peer.close()
        self.wait_until(
            lambda: broker.cli_json("status")["connections"] == 0,
            "no connection is left",
        )
        self.terminate(broker)
        self.assertNotIn("Traceback", broker.output())

    def test_second_signal(self) -> None:
        """A second SIGTERM while it stops does no harm."""
        broker = self.own_broker()
        broker.start()
        self.client(broker).put("test", 0, b"one")
        os.kill(broker.pid, signal.SIGTERM)
        self.terminate(broker)
        broker.start()
        self.assert_clean(broker, partitions=1)
