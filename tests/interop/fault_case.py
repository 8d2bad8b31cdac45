"""Java clients that never stop, and a broker and its ZooKeeper to be harmed: what must
be so after every fault."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from kazoo.client import KazooClient

from tests.crash.own_broker import OwnBroker

from ..support.tcp_proxy import TcpProxy
from .client_case import GROUP, NAMES, JavaClientCase
from .group_tree import GroupTree
from .registered import Registration
from .systems import PARTITIONS, SESSION_MS, TOPIC, System
from .traffic import Traffic
from .zookeeper_server import DebianZooKeeper

RECONCILE_S = 1
SHORT_MS = 2000
LONG_MS = 60_000
MORE = 20


def ensemble_broker(
    work_dir: Path, connect: str, session_ms: int = SHORT_MS, number: int = 0
) -> OwnBroker:
    """A broker with that id that joins a ZooKeeper."""
    broker = OwnBroker(
        work_dir,
        {TOPIC: {"numPartitions": PARTITIONS}},
        {"brokerId": number},
        {"reconcileInterval": RECONCILE_S},
        {"METATWIST_METATWIST_coordinator": "ensemble"},
    )
    broker.zookeeper = {
        "zk.zkConnect": connect,
        "zk.zkSessionTimeoutMs": session_ms,
        "zk.zkSyncTimeMs": 200,
    }
    return broker


class FaultySystem(System):
    """Broker and ZooKeeper, and `link`, by which only the broker meets ZooKeeper."""

    broker: OwnBroker
    zookeeper: DebianZooKeeper
    topics = (TOPIC,)

    def __init__(self, work_dir: Path, session_ms: int) -> None:
        super().__init__(work_dir)
        self.zookeeper = DebianZooKeeper(work_dir / "zookeeper")
        self.link = TcpProxy(self.zookeeper.port)
        self.broker = ensemble_broker(
            work_dir / "broker", self.link.address, session_ms
        )

    def kill(self) -> None:
        """See System."""
        super().kill()
        self.link.close()


class TrafficCase(JavaClientCase):
    """`self.registration` is what the broker should have in the tree, `self.names` are
    the partitions that should have an owner."""

    def setUp(self) -> None:
        """Wait until all is registered."""
        super().setUp()
        offered = dict.fromkeys(self.system.topics, PARTITIONS)
        self.registration = Registration(self.system.broker, offered)
        self.names = list(NAMES)
        self.assert_registered()

    def assert_registered(self) -> None:
        """The tree, and what `status` says, come to be right."""
        self.wait_until(
            lambda: self.registration.is_right(self.kazoo), "all is registered"
        )

    def assert_flows(self, traffic: Traffic) -> None:
        """More messages come to be acknowledged."""
        enough = len(traffic.acknowledged) + MORE
        self.wait_until(lambda: len(traffic.acknowledged) >= enough, "messages flow")

    def assert_everywhere(self, traffic: Traffic) -> None:
        """All partitions come to take messages."""
        self.wait_until(
            lambda: (
                {one.sent.partition for one in traffic.acknowledged} == {*self.names}
            ),
            "all partitions take messages",
        )

    @contextmanager
    def traffic(self) -> Iterator[Traffic]:
        """A Java producer and a Java consumer at work; the block does some harm.

        In the end all is registered, the consumer has its share, messages flow, and
        all that were acknowledged were received.
        """
        self.join("a")
        with Traffic(self.producer(), TOPIC) as traffic:
            self.assert_flows(traffic)
            yield traffic
            self.assert_registered()
            self.assert_shared(["a"], self.names)
            self.assert_flows(traffic)
        self.assert_received(traffic, ["a"])
        self.assert_registered()

    def outlast(self, session_ms: int) -> None:
        """Let a session's time, and half of it, go by: nothing to be seen tells it."""
        time.sleep(session_ms * 1.5 / 1000)


class FaultCase(TrafficCase):
    """`self.broker`, whose session has `session_ms`, joins `self.zookeeper` by
    `self.link`."""

    session_ms: ClassVar[int] = SHORT_MS

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        system = FaultySystem(work_dir, self.session_ms)
        self.broker, self.zookeeper = system.broker, system.zookeeper
        self.link = system.link
        return system

    @contextmanager
    def zookeeper_down(self) -> Iterator[None]:
        """ZooKeeper is stopped, and started behind the block. Our own client is
        another one then."""
        self.kazoo.stop()
        self.zookeeper.stop()
        self.wait_for_state("suspended")
        yield
        self.zookeeper.start()
        self.kazoo = KazooClient(self.system.address, timeout=SESSION_MS / 1000)
        self.addCleanup(self.kazoo.close)
        self.addCleanup(self.kazoo.stop)
        self.kazoo.start()
        self.tree = GroupTree(self.kazoo, GROUP, TOPIC)

    def wait_for_state(self, state: str) -> None:
        """The broker, if it runs, comes to know how its session does."""
        view = self.registration.view
        self.wait_until(
            lambda: not self.broker.is_running or view().get("state") == state,
            f"its session is {state}",
        )

    def assert_gone(self) -> None:
        """The broker's session ends, and its nodes with it."""
        self.wait_until(
            lambda: self.registration.is_gone(self.kazoo), "the session's nodes go"
        )
