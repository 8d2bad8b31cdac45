"""A broker and a coordinator that Java clients find it by, in three combinations.

Each serves the topics `test` and `other`; coordinator and broker ports stay over
restarts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ..support.broker_process import BrokerProcess
from ..support.child_process import PeerError, free_port
from .java_peers import JavaBroker, JavaBrokerSettings
from .zookeeper_server import DebianZooKeeper

TOPIC = "test"
OTHER_TOPIC = "other"
TOPICS = (TOPIC, OTHER_TOPIC)
PARTITIONS = 6
SESSION_MS = 4000
MOST_TRANSFERRED_BYTES = 4 * 1024 * 1024
_GONE_LIMIT_S = 30

Keys = Mapping[str, object]
_NONE: Keys = {}


class System:
    """What Java clients talk to; a base class.

    Attributes:
        work_dir: where all its files are.
        broker: the broker with id 0.
        zookeeper: the coordinator where it is a process of its own.
        topics: what the broker offers, PARTITIONS of each.
    """

    topics: tuple[str, ...] = TOPICS
    broker: BrokerProcess | JavaBroker
    zookeeper: DebianZooKeeper | None = None

    def __init__(self, work_dir: Path) -> None:
        self.work_dir = work_dir

    @property
    def address(self) -> str:
        """`host:port` of the coordinator."""
        assert self.zookeeper is not None
        return self.zookeeper.address

    def start(self) -> None:
        """Start coordinator and broker."""
        if self.zookeeper is not None:
            self.zookeeper.start()
        self.broker.start()

    def kill(self) -> None:
        """SIGKILL to everything that runs."""
        self.broker.kill()
        if self.zookeeper is not None:
            self.zookeeper.kill()

    def start_after_kill(self) -> None:
        """Start the broker, right after it was killed."""
        self.broker.start()


class OriginalSystem(System):
    """The released Java broker on Debian's ZooKeeper."""

    def __init__(self, work_dir: Path) -> None:
        super().__init__(work_dir)
        self.zookeeper = DebianZooKeeper(work_dir / "zookeeper")
        settings = JavaBrokerSettings(
            work_dir / "java",
            system={"maxTransferSize": MOST_TRANSFERRED_BYTES},
            topics={topic: {"numPartitions": PARTITIONS} for topic in TOPICS},
            zookeeper={"zk.zkSessionTimeoutMs": SESSION_MS, "zk.zkSyncTimeMs": 200},
            heap="256m",
        )
        self.broker = JavaBroker(work_dir / "data", settings, self.zookeeper)

    def start_after_kill(self) -> None:
        """Start it once its old session is gone: it cannot take over its node."""
        assert self.zookeeper is not None
        deadline = time.monotonic() + _GONE_LIMIT_S
        while "/meta/brokers/ids/0/master" in self.zookeeper.ask("dump"):
            if time.monotonic() > deadline:
                raise PeerError("the session of the killed broker does not expire")
            time.sleep(0.05)
        super().start_after_kill()


class EnsembleSystem(System):
    """Our broker on Debian's ZooKeeper."""

    def __init__(self, work_dir: Path, metatwist: Keys = _NONE) -> None:
        super().__init__(work_dir)
        self.zookeeper = DebianZooKeeper(work_dir / "zookeeper")
        ini = _ini({"zk.zkConnect": self.zookeeper.address}, metatwist)
        environ = {"METATWIST_METATWIST_coordinator": "ensemble"}
        self.broker = BrokerProcess(work_dir / "broker", ini, environ)


class EmbeddedSystem(System):
    """Our broker with the coordinator in it; the two start and stop as one."""

    def __init__(self, work_dir: Path, metatwist: Keys = _NONE) -> None:
        super().__init__(work_dir)
        self.coordinator_port = free_port()
        endpoint = f"tcp:{self.coordinator_port}:interface=127.0.0.1"
        environ = {
            "METATWIST_METATWIST_coordinator": "embedded",
            "METATWIST_METATWIST_coordinatorEndpoint": endpoint,
        }
        ini = _ini(_NONE, metatwist)
        self.broker = BrokerProcess(work_dir / "broker", ini, environ)

    @property
    def address(self) -> str:
        """See System."""
        return f"127.0.0.1:{self.coordinator_port}"


def _ini(zookeeper: Keys, metatwist: Keys) -> str:
    sections: dict[str, Keys] = {
        "system": {
            "brokerId": 0,
            "hostName": "127.0.0.1",
            "numPartitions": PARTITIONS,
            "unflushThreshold": 0,
            "unflushInterval": 10000,
            "maxSegmentSize": 1024 * 1024 * 1024,
            "maxTransferSize": MOST_TRANSFERRED_BYTES,
        },
        "zookeeper": {
            "zk.zkSessionTimeoutMs": SESSION_MS,
            "zk.zkSyncTimeMs": 200,
            **zookeeper,
        },
        "metatwist": metatwist,
        **{f"topic={topic}": {} for topic in TOPICS},
    }
    return "".join(
        f"[{section}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items())
        for section, keys in sections.items()
    )
