"""ZooKeeper, the way there, or the broker fails while Java clients are at work: once it
is over all is registered, the clients go on, and nothing acknowledged is missed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ..support.wire_client import WireClient, read_all
from .client_case import GROUP
from .fault_case import (
    LONG_MS,
    RECONCILE_S,
    FaultCase,
    TrafficCase,
    ensemble_broker,
)
from .systems import SESSION_MS, TOPIC, EmbeddedSystem, System

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(300)]

HOUR_MS = 60 * 60 * 1000


class ZooKeeperFaultsTest(FaultCase):
    """ZooKeeper is away."""

    def test_stopped(self) -> None:
        """It is away for longer than all sessions: messages flow all the time."""
        with self.traffic() as traffic:
            with self.zookeeper_down():
                self.outlast(SESSION_MS)
                self.assert_flows(traffic)
                self.assertEqual(traffic.failed, [])
            self.wait_for_state("connected")

    def test_restarted_empty(self) -> None:
        """It comes back without a memory: broker and clients begin anew in the new
        tree, the clients with offsets of 0."""
        with self.traffic() as traffic:
            with self.zookeeper_down():
                self.zookeeper.empty()
            self.assert_registered()
            self.assert_flows(traffic)
            # A new ZooKeeper does not let in who has seen more than it has, as these
            # Java clients did, before it has come as far (spec layout 7.3).
            for number in range(1000):
                self.kazoo.create(f"/{number}")

    def test_broker_starts_first(self) -> None:
        """A broker without ZooKeeper serves who knows its address, and says what is
        wrong; it registers once there is one."""
        with self.traffic():
            self.broker.stop()
            with self.zookeeper_down():
                self.broker.start()
                self.assert_serves()
                problem = self.registration.view()["problem"]
                self.assertIn(self.link.address, problem)
                self.assertIn("nothing can be registered", problem)

    def assert_serves(self) -> None:
        """One message can be put and read."""
        with WireClient(self.broker.port) as client:
            stored = client.put(TOPIC, 0, b"direct")
            found = [one.message_id for one in read_all(client, TOPIC, 0)]
        self.assertIn(stored.message_id, found)

    def test_broker_stops_later(self) -> None:
        """Without ZooKeeper a stop waits for none of the times that are set for it."""
        with self.traffic():
            self.broker.stop()
            self.broker.zookeeper["zk.zkSyncTimeMs"] = HOUR_MS
            self.broker.zookeeper["zk.zkConnectionTimeoutMs"] = HOUR_MS
            self.broker.start()
            self.assert_registered()
            with self.zookeeper_down():
                self.broker.stop()
            self.broker.start()


class LinkFaultsTest(FaultCase):
    """The network between broker and ZooKeeper fails for longer than the session: the
    broker serves who knows its address, and has another session after it."""

    def cut(self, black_hole: bool) -> None:
        """Cut until the session has ended, and heal."""
        with self.traffic():
            old = self.registration.session_id
            self.link.cut(black_hole)
            self.wait_for_state("suspended")
            self.assert_gone()
            with WireClient(self.broker.port) as client:
                client.put(TOPIC, 0, b"direct")
            self.link.heal()
            self.assert_registered()
            self.assertNotEqual(self.registration.session_id, old)

    def test_refused(self) -> None:
        """Nobody listens."""
        self.cut(black_hole=False)

    def test_black_hole(self) -> None:
        """What is sent vanishes."""
        self.cut(black_hole=True)


class ShortFaultsTest(FaultCase):
    """What is over long before the broker's session."""

    session_ms = LONG_MS

    def test_short_cuts(self) -> None:
        """The session lives on and no node is touched: clients notice nothing."""
        with self.traffic() as traffic:
            before = self.history()
            self.link.cut()
            self.wait_for_state("suspended")
            self.link.heal()
            self.wait_for_state("connected")
            self.link.cut(black_hole=True)
            overdue_s = 2 * RECONCILE_S
            self.wait_until(lambda: self.pass_age_s() > overdue_s, "no pass ends")
            self.link.heal()
            self.wait_until(lambda: self.pass_age_s() < overdue_s, "a pass ends")
            self.assert_registered()
            self.assertEqual(self.history(), before)
        self.assertEqual(traffic.failed, [])

    def history(self) -> dict[str, tuple[int, int]]:
        """The transactions that made and last changed each node of the broker."""
        paths = self.registration.found(self.kazoo)
        stats = {path: self.kazoo.exists(path) for path in paths}
        return {path: (stat.czxid, stat.mzxid) for path, stat in stats.items()}

    def pass_age_s(self) -> float:
        """The time since all nodes were last read."""
        age_s: float = self.registration.view()["last_pass_age_s"]
        return age_s

    def test_same_id(self) -> None:
        """A second broker with the same id comes and ends; clients notice nothing."""
        second = ensemble_broker(self.directory / "second", self.zookeeper.address)
        self.addCleanup(second.kill)
        with self.traffic() as traffic:
            before = self.history()
            self.assertGreater(second.run_once().returncode, 0)
            self.assertEqual(self.history(), before)
        self.assertEqual(traffic.failed, [])

    def test_killed(self) -> None:
        """After SIGKILL and an immediate start the broker takes its nodes over from its
        old session, while that lives on."""
        with self.traffic():
            old = self.registration.session_id
            self.broker.kill()
            self.broker.start()
            self.assert_registered()
            self.assertIn(f"{old:#x}", self.zookeeper.ask("dump"))
            self.assertNotEqual(self.registration.session_id, old)


class FrozenBrokerTest(FaultCase):
    """SIGSTOP, with ZooKeeper elsewhere."""

    def test_frozen(self) -> None:
        """A broker that sleeps through the end of its session registers anew."""
        with self.traffic():
            old = self.registration.session_id
            os.kill(self.broker.pid, signal.SIGSTOP)
            self.assert_gone()
            os.kill(self.broker.pid, signal.SIGCONT)
            self.assert_registered()
            self.assertNotEqual(self.registration.session_id, old)


class FrozenCoordinatorTest(TrafficCase):
    """SIGSTOP to broker and coordinator in one."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EmbeddedSystem(work_dir, {"reconcileInterval": RECONCILE_S})

    def test_frozen(self) -> None:
        """What the clients could not say while it slept is not held against them: their
        sessions live on."""
        with self.traffic():
            before = self.member(), self.kazoo.client_id
            os.kill(self.system.broker.pid, signal.SIGSTOP)
            self.outlast(SESSION_MS)
            os.kill(self.system.broker.pid, signal.SIGCONT)
        self.assertEqual((self.member(), self.kazoo.client_id), before)

    def member(self) -> int:
        """The session of the Java consumer."""
        path = f"/meta/consumers/{GROUP}/ids/{GROUP}_a"
        owner: int = self.kazoo.retry(self.kazoo.exists, path).ephemeralOwner
        return owner
