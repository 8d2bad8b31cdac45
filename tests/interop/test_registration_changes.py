"""What a broker registers changes while Java clients are at work: when the change is an
orderly one they follow at once, long before the broker would look by itself."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Set
from pathlib import Path

import pytest
from kazoo.client import TransactionRequest

from ..support.wire_client import WireClient
from .fault_case import LONG_MS, FaultCase, ensemble_broker
from .registered import Registration
from .systems import PARTITIONS, TOPIC, System

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(300)]

HOUR_S = 60 * 60
PATTERN = "log-*"


class PromptChangesTest(FaultCase):
    """The broker compares what is registered once an hour."""

    session_ms = LONG_MS

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        system = super().make_system(work_dir)
        self.broker.metatwist["reconcileInterval"] = HOUR_S
        return system

    def reload(self) -> None:
        """Have the broker read its changed configuration."""
        self.broker.write_ini()
        self.broker.admin("reload")

    def test_topics(self) -> None:
        """A topic that a reload brings appears, and one that a wildcard section allows
        when its first message comes; no node of another topic is touched."""
        topics = self.registration.topics
        before = self.kazoo.exists(f"/meta/brokers/topics-sub/{TOPIC}/0-m")
        self.broker.topics["more"] = {"numPartitions": 2}
        self.broker.topics[PATTERN] = {"numPartitions": 3}
        self.reload()
        topics |= {"more": 2, PATTERN: 3}
        self.assert_registered()
        with WireClient(self.broker.port) as client:
            client.put("log-first", 1, b"message")
        topics["log-first"] = 3
        self.assert_registered()
        after = self.kazoo.exists(f"/meta/brokers/topics-sub/{TOPIC}/0-m")
        self.assertEqual(after, before)

    def test_partitions(self) -> None:
        """More partitions after a reload: the producer sends to all of them, and the
        consumer takes all of them."""
        count = PARTITIONS + 3
        with self.traffic() as traffic:
            self.broker.topics[TOPIC] = {"numPartitions": count}
            self.reload()
            self.registration.topics[TOPIC] = count
            self.names = [f"0-{number}" for number in range(count)]
            self.assert_everywhere(traffic)

    def test_orderly_stop(self) -> None:
        """The nodes of a broker that stops are gone while it still serves; consumers
        let its partitions go, and have them again once it is back."""
        connect = self.zookeeper.address
        other = ensemble_broker(self.directory / "other", connect, LONG_MS, 1)
        self.addCleanup(other.kill)
        other.zookeeper["zk.zkSyncTimeMs"] = HOUR_S * 1000
        theirs = Registration(other, {TOPIC: PARTITIONS}, 1)
        with self.traffic() as traffic:
            other.start()
            mine = list(self.names)
            self.names += [f"1-{number}" for number in range(PARTITIONS)]
            self.assert_everywhere(traffic)
            self.assert_shared(["a"], self.names)
            with WireClient(other.port) as client:
                os.kill(other.pid, signal.SIGTERM)
                self.wait_until(lambda: theirs.found(self.kazoo) == {}, "all is gone")
                self.assert_shared(["a"], mine)
                client.put(TOPIC, 0, b"still served")
            self.assertIn(other.wait(), (0, -signal.SIGTERM))
            self.assert_flows(traffic)
            other.start()


class RepairsTest(FaultCase):
    """Somebody changes the broker's nodes behind its back."""

    def test_repairs(self) -> None:
        """Nodes that were deleted, overwritten or taken over are made good, and each
        is counted."""
        nodes = self.registration.expected(self.registration.session_id)
        ephemeral = [path for path, node in nodes.items() if node.owner]
        with self.traffic():
            deleting = self.kazoo.transaction()
            for path in reversed(nodes):
                deleting.delete(path)
            # The broker's directory may come back empty, with the first node in it.
            self.assert_repaired(deleting, len(nodes), {"missing", "wrong data"})
            overwriting = self.kazoo.transaction()
            for path in nodes:
                overwriting.set_data(path, b"nonsense")
            self.assert_repaired(overwriting, len(nodes), {"wrong data"})
            taking = self.kazoo.transaction()
            for path in ephemeral:
                taking.delete(path)
                taking.create(path, nodes[path].data, ephemeral=True)
            self.assert_repaired(taking, len(ephemeral), {"wrong owner"})

    def assert_repaired(
        self, harm: TransactionRequest, count: int, faults: Set[str]
    ) -> None:
        """After that change all comes to be right again, by so many repairs of such
        faults."""
        before = Counter(self.registration.view()["repairs"])
        refused = [one for one in harm.commit() if isinstance(one, Exception)]
        self.assertEqual(refused, [])
        self.assert_registered()
        # They are counted once ZooKeeper has confirmed what we may see before.
        self.wait_until(
            lambda: sum(self.repairs_since(before).values()) >= count, "all is counted"
        )
        made = self.repairs_since(before)
        self.assertEqual(sum(made.values()), count)
        self.assertLessEqual(made.keys(), faults)

    def repairs_since(self, before: Counter[str]) -> Counter[str]:
        """How many there were of each fault."""
        return Counter(self.registration.view()["repairs"]) - before
