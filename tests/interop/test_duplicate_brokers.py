"""Two brokers with one id on a real ZooKeeper."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar
from unittest import SkipTest

import pytest
from kazoo.client import KazooClient

from tests.crash.own_broker import OwnBroker
from tests.process.broker_case import BrokerCase

from .fault_case import LONG_MS, SHORT_MS, ensemble_broker
from .registered import Registration
from .systems import PARTITIONS, TOPIC
from .zookeeper_server import DebianZooKeeper, ZooKeeperSettings, find_zookeeper

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

MASTER = "/meta/brokers/ids/0/master"


class DuplicateTest(BrokerCase):
    """Each test has a chroot, with a registered broker, in one ZooKeeper."""

    server: ClassVar[DebianZooKeeper]

    @classmethod
    def setUpClass(cls) -> None:
        """Start ZooKeeper."""
        why_not = find_zookeeper()
        if why_not is not None:
            raise SkipTest(why_not)
        super().setUpClass()
        directory = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, directory, ignore_errors=True)
        # As usual, the shortest session is two ticks.
        settings = ZooKeeperSettings(SHORT_MS // 2, SHORT_MS)
        cls.server = DebianZooKeeper(directory, settings)
        cls.addClassCleanup(cls.server.kill)
        cls.server.start()

    def setUp(self) -> None:
        """Start the first broker."""
        super().setUp()
        root = KazooClient(self.server.address)
        root.start()
        root.create(f"/{self.id()}")
        root.stop()
        root.close()
        self.connect = f"{self.server.address}/{self.id()}"
        self.kazoo = KazooClient(self.connect)
        self.addCleanup(self.kazoo.close)
        self.addCleanup(self.kazoo.stop)
        self.kazoo.start()

    def broker(self, name: str, session_ms: int) -> OwnBroker:
        """One with id 0 that does not run."""
        broker = ensemble_broker(self.directory / name, self.connect, session_ms)
        self.addCleanup(broker.kill)
        return broker

    def registered(self, broker: OwnBroker) -> Registration:
        """Wait until that broker is registered, and nobody else."""
        registration = Registration(broker, {TOPIC: PARTITIONS})
        self.wait_until(
            lambda: registration.is_right(self.kazoo), f"{broker.address} is registered"
        )
        return registration

    def test_refused(self) -> None:
        """The second of two ends with an error that names the id, both of them and what
        to do; the first goes on as if nothing had happened."""
        first, second = self.broker("first", LONG_MS), self.broker("second", SHORT_MS)
        first.start()
        before = self.registered(first).view()
        node = self.kazoo.exists(MASTER)
        done = second.run_once()
        self.assertGreater(done.returncode, 0)
        said = done.stdout + done.stderr
        for words in (
            "broker id 0 is taken",
            first.address,
            second.address,
            "give this one another [system] brokerId, or stop the other one",
        ):
            self.assertIn(words, said)
        self.assertNotIn("Traceback", said)
        self.assertEqual(self.kazoo.exists(MASTER), node)
        after = self.registered(first).view()
        for key in ("session_id", "repairs", "duplicate"):
            self.assertEqual(after[key], before[key])

    def test_heir(self) -> None:
        """When the first one dies without a word while the second one waits, the second
        one takes over."""
        first, second = self.broker("first", SHORT_MS), self.broker("second", LONG_MS)
        first.start()
        self.registered(first)
        second.begin()
        self.wait_until(lambda: "waiting up to" in second.output(), "the second waits")
        first.kill()
        self.registered(second)

    def test_replaced(self) -> None:
        """A broker that dies is replaced at once by one elsewhere: that one waits for
        the end of the session."""
        first, second = self.broker("first", SHORT_MS), self.broker("second", SHORT_MS)
        first.start()
        self.registered(first)
        first.kill()
        second.start()
        self.registered(second)

    def test_usurped(self) -> None:
        """A broker whose place was taken goes on without it, says so, and takes it
        again once it is free."""
        first = self.broker("first", SHORT_MS)
        first.start()
        registration = self.registered(first)
        taking = self.kazoo.transaction()
        taking.delete(MASTER)
        taking.create(MASTER, b"meta://127.0.0.1:1", ephemeral=True)
        taking.commit()
        self.wait_until(
            lambda: registration.view()["duplicate"] == "meta://127.0.0.1:1",
            "the other one is noticed",
        )
        self.assertIn("broker id 0 is taken", registration.view()["problem"])
        self.kazoo.delete(MASTER)
        self.registered(first)
