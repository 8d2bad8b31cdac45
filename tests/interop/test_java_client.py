"""Released Java clients find the broker, share its partitions and survive its restarts:
on a real ZooKeeper, on the coordinator inside our broker, and, to prove the cases
themselves, with the released Java broker."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from . import client_case, client_cases
from .client_case import NAMES
from .java_driver import Body
from .java_peers import JavaBroker, JavaBrokerSettings
from .systems import (
    SESSION_MS,
    TOPIC,
    EmbeddedSystem,
    EnsembleSystem,
    OriginalSystem,
    System,
)
from .traffic import Traffic

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(300)]

IDLE_TIMEOUT_S = 12


class ClientOnOriginalTest(client_cases.ClientCases):
    """The cases hold for the released Java broker."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return OriginalSystem(work_dir)


class ClientOnEnsembleTest(client_cases.ClientCases):
    """The cases hold for our broker on a real ZooKeeper."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EnsembleSystem(work_dir)


class ClientOnEmbeddedTest(client_cases.ClientCases):
    """The cases hold for our broker with nothing beside it."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EmbeddedSystem(work_dir)


class IdleClientTest(client_case.JavaClientCase):
    """A connection without traffic."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EmbeddedSystem(work_dir, {"idleTimeout": IDLE_TIMEOUT_S})

    def test_heartbeats_keep_the_connection(self) -> None:
        """A Java producer that sends nothing keeps its one connection for longer than
        a silent connection lives."""
        producer = self.producer()
        self.assertTrue(producer.send(TOPIC, [Body(b"before")])[0].success)
        address = ("127.0.0.1", self.system.broker.port)
        with socket.create_connection(address, 2 * IDLE_TIMEOUT_S) as silent:
            self.assertTrue(_was_closed(silent))
        self.assertTrue(producer.send(TOPIC, [Body(b"after")])[0].success)
        self.assertEqual(len(self.driver.events("connected")), 1)
        self.assertEqual(self.driver.events("disconnected"), [])


class BesideJavaBrokerTest(client_case.JavaClientCase):
    """The released Java broker in our coordinator."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EmbeddedSystem(work_dir)

    def test_both_serve_one_group(self) -> None:
        """A Java broker registers beside ours, producers and one group of consumers use
        both, and once it stops they use ours alone."""
        settings = JavaBrokerSettings(
            self.directory / "java",
            system={"brokerId": 1},
            topics={TOPIC: {"numPartitions": 2}},
            zookeeper={"zk.zkSyncTimeMs": 200, "zk.zkSessionTimeoutMs": SESSION_MS},
            heap="256m",
        )
        java = JavaBroker(self.directory / "java-data", settings, self.system)
        self.addCleanup(java.kill)
        java.start()
        names = [*NAMES, "1-0", "1-1"]
        with Traffic(self.producer(), TOPIC) as traffic:
            for count, name in enumerate(("a", "b"), 1):
                self.join(name)
                self.assert_shared(["a", "b"][:count], names)
            self.wait_until(
                lambda: (
                    {one.sent.partition for one in traffic.acknowledged} == set(names)
                ),
                "both brokers take messages",
            )
        self.assertEqual(traffic.failed, [])
        self.assert_received(traffic, ["a", "b"])
        java.stop()
        self.assert_shared(["a", "b"])


def _was_closed(end: socket.socket) -> bool:
    """Wait until something arrives; whether that is the end of the connection."""
    try:
        return end.recv(1) == b""
    except ConnectionResetError:
        return True
