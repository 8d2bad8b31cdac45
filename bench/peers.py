"""The servers that are measured: the floor, the released Java broker, and ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen
from peer import ROOT, ChildProcess, Peer
from rows import PARTITIONS

# Found on the path that `peer` has extended.
from tests.support.child_process import answers_version  # isort: skip
from tests.interop.java_peers import (  # isort: skip
    JavaBroker,
    JavaBrokerSettings,
    JavaZooKeeper,
    find_java,
)

TOPICS = {
    "sync": {"unflushThreshold": 0},
    "direct": {"unflushThreshold": 1000, "unflushInterval": 10000},
    "read": {"unflushThreshold": 1000, "unflushInterval": 10000},
}


# Dropped data leaves memory at hand for the next run, whoever's it is; files that only
# grow go on into pages that the machine has yet to get, which is another row.
SOON = 256 << 20
LATER = 1 << 30  # for a server that takes long to start and warm up


@frozen
class FloorOptions:
    """How a floor process is started: program, data directory, `direct` or `sync`."""

    program: Path
    data_dir: Path
    mode: str


class FloorServer(ChildProcess):
    """One process of bench/floor.c."""

    def __init__(self, work_dir: Path, options: FloorOptions) -> None:
        super().__init__(work_dir)
        self.options = options

    def _argv(self) -> list[str]:
        self.options.data_dir.mkdir(parents=True, exist_ok=True)
        options = ["-p", f"{self.port}", "-P", f"{PARTITIONS}"]
        options += ["-m", self.options.mode, "-d", str(self.options.data_dir)]
        return [str(self.options.program), *options]

    def _answers(self) -> bool:
        return answers_version(self.port)


class Floor(Peer):
    """A floor process for each topic, since the floor knows no topics."""

    name = "floor"
    discard_bytes = SOON

    def __init__(self, work_dir: Path, program: Path) -> None:
        super().__init__(work_dir)
        self._by_topic = {
            topic: FloorServer(
                work_dir / topic,
                FloorOptions(
                    program,
                    self.data_dir / topic,
                    "sync" if topic == "sync" else "direct",
                ),
            )
            for topic in TOPICS
        }

    def servers(self) -> Sequence[ChildProcess]:
        """The processes in the order of TOPICS."""
        return list(self._by_topic.values())

    def port(self, topic: str) -> int:
        """Where the topic's own process listens."""
        return self._by_topic[topic].port


class JavaMetaQ(Peer):
    """The released Java broker, with a ZooKeeper of its own that is not measured."""

    name = "java"
    discard_bytes = LATER
    warm_up_puts = 100_000

    def __init__(self, work_dir: Path) -> None:
        super().__init__(work_dir)
        self._zookeeper = JavaZooKeeper(work_dir / "zookeeper")
        settings = JavaBrokerSettings(work_dir / "broker", topics=TOPICS)
        self._broker = JavaBroker(self.data_dir, settings, self._zookeeper)

    def servers(self) -> Sequence[ChildProcess]:
        """The broker alone."""
        return [self._broker]

    def start(self) -> None:
        """Start the broker, and its ZooKeeper before the first time."""
        if not self._zookeeper.is_running:
            self._zookeeper.start()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        super().start()

    def kill(self) -> None:
        """End the broker and its ZooKeeper."""
        super().kill()
        self._zookeeper.kill()


class TwistdMetaq(ChildProcess):
    """`twistd metaq` of the Python that runs this."""

    def __init__(self, work_dir: Path, data_dir: Path, reactor: str | None) -> None:
        super().__init__(work_dir)
        self.data_dir = data_dir
        self.reactor = reactor

    def _argv(self) -> list[str]:
        ini = self.work_dir / "server.ini"
        ini.write_text(self._server_ini())
        reactor = [f"--reactor={self.reactor}"] if self.reactor else []
        twistd = Path(sys.executable).parent / "twistd"
        options = ["--nodaemon", "--pidfile=", "metaq", "-f", str(ini)]
        return [str(twistd), *reactor, *options]

    def _environment(self) -> dict[str, str]:
        inherited = os.environ.get("PYTHONPATH")
        path = f"{ROOT}{os.pathsep}{inherited}" if inherited else str(ROOT)
        alone = {"METATWIST_METATWIST_coordinator": "none"}
        return {**os.environ, "PYTHONPATH": path, **alone}

    def _server_ini(self) -> str:
        topics = "".join(
            f"[topic={topic}]\n" + "".join(f"{key}={keys[key]}\n" for key in keys)
            for topic, keys in TOPICS.items()
        )
        return (
            "[system]\nbrokerId=0\n"
            f"numPartitions={PARTITIONS}\nserverPort={self.port}\n"
            "unflushThreshold=0\nunflushInterval=10000\n"
            "maxSegmentSize=1024*1024*1024\nmaxTransferSize=1024*1024\n"
            f"dataPath={self.data_dir}\n"
            "[zookeeper]\nzk.zkConnect=localhost:2181\nzk.zkEnable=false\n"
            "[metatwist]\n"
            f"brokerEndpoint=tcp:{self.port}:interface=127.0.0.1\n{topics}"
        )

    def _answers(self) -> bool:
        return answers_version(self.port)


class Ours(Peer):
    """metatwist."""

    name = "ours"
    discard_bytes = SOON

    def __init__(self, work_dir: Path, reactor: str | None) -> None:
        super().__init__(work_dir)
        self._broker = TwistdMetaq(work_dir / "broker", self.data_dir, reactor)

    def servers(self) -> Sequence[ChildProcess]:
        """The one twistd."""
        return [self._broker]


def why_not(name: str) -> str | None:
    """The reason why the peer called `name` cannot run here, or None."""
    if name == "java":
        return find_java()
    if name == "ours" and not (Path(sys.executable).parent / "twistd").exists():
        return f"no twistd beside {sys.executable}"
    return None


def make_peer(name: str, work_dir: Path, reactor: str | None) -> Peer:
    """A peer that is not started yet.

    Raises:
        ValueError: no peer has that name.
    """
    if name == "floor":
        return Floor(work_dir, ROOT / "bench" / "build" / "floor")
    if name == "java":
        return JavaMetaQ(work_dir)
    if name == "ours":
        return Ours(work_dir, reactor)
    raise ValueError(f"no server is named {name}; there are: floor, java, ours")
