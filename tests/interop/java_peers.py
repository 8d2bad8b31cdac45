"""The released Java MetaQ 1.4.6.2 and the ZooKeeper of its time, as child processes.

Plain subprocess code for tests and benchmarks that meet the original. `find_java`
says why Java peers cannot run here; ask it before starting one.

    with JavaZooKeeper(work / "zk") as zookeeper:
        settings = JavaBrokerSettings(work / "broker", topics={"test": {}})
        with JavaBroker(work / "data", settings, zookeeper) as broker:
            ...  # broker.port

Leaving the block stops the process in order, or kills it after an error. Logs stay in
the work directory. ZooKeeper listens on loopback; the Java broker can only listen on
every interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from ..support.child_process import PeerError, answers, answers_version, free_port
from .java_jars import find_java
from .java_process import JavaProcess

__all__ = [
    "JavaBroker",
    "JavaBrokerSettings",
    "JavaZooKeeper",
    "PeerError",
    "answers_version",
    "find_java",
    "free_port",
]

_STARTED = "Start metamorphosis server successfully"


class JavaZooKeeper(JavaProcess):
    """A standalone ZooKeeper 3.4.3 on a loopback port; keeps its tree over restarts."""

    def _command(self) -> list[str]:
        config = self.work_dir / "zk.cfg"
        config.write_text(
            f"tickTime=2000\ndataDir={self.work_dir}/tree\n"
            f"clientPort={self.port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return ["-Xmx128m", "-Dzookeeper.jmx.log4j.disable=true", main, str(config)]

    def _answers(self) -> bool:
        return answers(self.port, b"ruok", b"imok")

    @property
    def address(self) -> str:
        """`host:port`, as `zk.zkConnect` wants it."""
        return f"127.0.0.1:{self.port}"


class Coordinator(Protocol):
    """Anything that serves a ZooKeeper tree."""

    @property
    def address(self) -> str:
        """`host:port`, as `zk.zkConnect` wants it."""


@frozen
class JavaBrokerSettings:
    """Where a Java broker works, and what its server.ini says beyond the defaults.

    Attributes:
        work_dir: holds server.ini and logs.
        system, zookeeper: keys laid over the sections of that name (spec
            configuration 3 and 4).
        topics: settings of each topic section (spec configuration 5).
        heap: as `-Xmx` takes it.
        port: None takes a free one.
    """

    work_dir: Path
    system: Mapping[str, str | int] = field(factory=dict)
    zookeeper: Mapping[str, str | int] = field(factory=dict)
    topics: Mapping[str, Mapping[str, str | int]] = field(factory=lambda: {"test": {}})
    heap: str = "2g"
    port: int | None = None


class JavaBroker(JavaProcess):
    """The released plain broker on `data_dir`; needs a running coordinator.

    After `kill` its nodes stay in ZooKeeper until the session times out, and a start
    before that fails to register: pass a fresh `JavaZooKeeper`, or wait
    `zk.zkSessionTimeoutMs`.
    """

    def __init__(
        self, data_dir: Path, settings: JavaBrokerSettings, zookeeper: Coordinator
    ) -> None:
        super().__init__(settings.work_dir, settings.port)
        self.data_dir = data_dir.resolve()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self._zookeeper = zookeeper
        self._starts_logged = 0

    def server_ini(self) -> str:
        """The whole text of server.ini."""
        system = {
            "brokerId": 0,
            "hostName": "127.0.0.1",
            "serverPort": self.port,
            "numPartitions": 4,
            "unflushThreshold": 0,
            "unflushInterval": 10000,
            "maxSegmentSize": 1024 * 1024 * 1024,
            "maxTransferSize": 1024 * 1024,
            "dataPath": self.data_dir,
            # In the data root it would hide partitions (spec storage 19, D-1).
            "dataLogPath": self.work_dir / "journal",
            **self.settings.system,
        }
        zookeeper = {
            "zk.zkConnect": self._zookeeper.address,
            "zk.zkEnable": "true",
            "zk.zkSessionTimeoutMs": 10000,
            "zk.zkSyncTimeMs": 200,
            **self.settings.zookeeper,
        }
        sections: dict[str, Mapping[str, object]] = {
            "system": system,
            "zookeeper": zookeeper,
        }
        for name, values in self.settings.topics.items():
            sections[f"topic={name}"] = values
        return "".join(
            f"[{section}]\n"
            + "".join(f"{key}={value}\n" for key, value in keys.items())
            for section, keys in sections.items()
        )

    def _command(self) -> list[str]:
        # The broker reads the parent of the parent of its ini file.
        config = self.work_dir / "home" / "conf" / "server.ini"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(self.server_ini())
        (self.work_dir / "journal").mkdir(exist_ok=True)
        main = "com.taobao.metamorphosis.server.MetamorphosisStartup"
        return [f"-Xmx{self.settings.heap}", main, "-f", str(config)]

    def start(self) -> None:
        """Start and wait until it is registered in ZooKeeper.

        A put between its first answer and its registration would break the latter
        (spec wire 3.2).
        """
        self._starts_logged = self._count_starts() + 1
        super().start()

    def _count_starts(self) -> int:
        if not self.log_path.exists():
            return 0
        return self.log_path.read_text(errors="replace").count(_STARTED)

    def _answers(self) -> bool:
        return answers_version(self.port)

    def _has_settled(self) -> bool:
        return self._count_starts() >= self._starts_logged
