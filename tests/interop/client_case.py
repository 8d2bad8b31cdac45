"""What unmodified Java clients must find, whatever coordinates: cases to inherit."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from unittest import SkipTest

from kazoo.client import KazooClient
from twisted.trial.unittest import SynchronousTestCase

from .group_tree import GroupTree, shares
from .java_driver import (
    Consumption,
    DriverSession,
    JavaDriver,
    Received,
    find_driver,
)
from .systems import PARTITIONS, SESSION_MS, TOPIC, System
from .traffic import Traffic
from .zookeeper_server import find_zookeeper

WAIT_S = 60
GROUP = "readers"
NAMES = [f"0-{number}" for number in range(PARTITIONS)]


class JavaClientCase(SynchronousTestCase):
    """`self.system` runs, with a driver and kazoo as a witness, until the test ends."""

    def make_system(self, work_dir: Path) -> System:
        """The system under test, not started."""
        raise NotImplementedError

    def setUp(self) -> None:
        """Start all and wait for the broker's registration."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.system = self.make_system(self.directory)
        why_not = find_driver()
        if why_not is None and self.system.zookeeper is not None:
            why_not = find_zookeeper()
        if why_not is not None:
            raise SkipTest(why_not)
        self.addCleanup(self.system.kill)
        self.system.start()
        self.driver = JavaDriver(self.directory / "driver")
        self.addCleanup(self.driver.kill)
        self.driver.start()
        self.kazoo = KazooClient(self.system.address, timeout=SESSION_MS / 1000)
        self.addCleanup(self.kazoo.close)
        self.addCleanup(self.kazoo.stop)
        self.kazoo.start()
        self.tree = GroupTree(self.kazoo, GROUP, TOPIC)
        self.wait_until(
            lambda: self.registered_by() is not None, "the broker's topic is registered"
        )

    def session(self, name: str) -> DriverSession:
        """A session of the Java client."""
        return self.driver.session(name, self.system.address)

    def registered_by(self) -> int | None:
        """The session that holds the topic's last node (spec layout 4.2), if any."""
        path = f"/meta/brokers/topics-sub/{TOPIC}/0-m"
        found = self.kazoo.retry(self.kazoo.exists, path)
        return None if found is None else found.ephemeralOwner

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Return once `is_so()`; fail with `what` after WAIT_S."""
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            if time.monotonic() > deadline:
                self.fail(f"still not so after {WAIT_S} s: {what}")
            time.sleep(0.02)

    def producer(self) -> DriverSession:
        """A session that has published the topic."""
        producer = self.session("producer")
        producer.publish(TOPIC)
        return producer

    def join(self, name: str) -> DriverSession:
        """A session with a consumer `readers_<name>` that has joined the group."""
        session = self.session(name)
        session.consume(GROUP, [TOPIC], Consumption(consumer_id=name))
        return session

    def assert_shared(
        self, names: Sequence[str], partitions: Sequence[str] = NAMES
    ) -> None:
        """Those consumers come to own just what they should (spec client 10.4)."""
        members = [f"{GROUP}_{name}" for name in names]
        expected = (sorted(members), shares(partitions, members))
        self.wait_until(
            lambda: (self.tree.members(), self.tree.owners()) == expected,
            f"{expected} are members and owners",
        )

    def received(self, names: Iterable[str]) -> set[Received]:
        """All that the consumers of those sessions were given."""
        return {
            one for name in names for one in DriverSession(self.driver, name).received()
        }

    def assert_received(self, traffic: Traffic, names: Sequence[str]) -> None:
        """All that was acknowledged comes to be received, just as it was sent."""
        expected = {one.as_received(TOPIC) for one in traffic.acknowledged}
        self.assertGreater(len(expected), 10)
        self.wait_until(
            lambda: expected <= self.received(names),
            "all that was acknowledged is received",
        )
