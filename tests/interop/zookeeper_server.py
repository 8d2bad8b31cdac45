"""Debian's ZooKeeper (3.8) as child processes on loopback, alone or as an ensemble.

`find_zookeeper` says why it cannot run here; ask it before starting one.

    with DebianZooKeeper(work / "zk") as zookeeper:
        ...  # zookeeper.address
        zookeeper.stop()
        zookeeper.empty()
        zookeeper.start()

    with ZooKeeperEnsemble(work / "ensemble") as ensemble:
        ...  # ensemble.address, ensemble.servers[0].kill()

A server keeps its port and its tree over restarts.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from attrs import frozen
from typing_extensions import Self

from ..support.child_process import (
    START_TIMEOUT_S,
    ChildProcess,
    PeerError,
    answers,
    free_port,
)

HOW_TO_GET_ZOOKEEPER = (
    "needs Debian's ZooKeeper: apt-get install zookeeper default-jdk-headless"
)
_JARS_DIR = Path("/usr/share/java")
_JARS = [_JARS_DIR / name for name in ("zookeeper.jar", "slf4j-simple.jar")]
_REPLY_LIMIT_S = 2.0


def find_zookeeper() -> str | None:
    """Why Debian's ZooKeeper cannot run here, or None."""
    if shutil.which("java") is None or not all(jar.exists() for jar in _JARS):
        return HOW_TO_GET_ZOOKEEPER
    return None


@frozen
class ZooKeeperSettings:
    """What a server's configuration says.

    Attributes:
        tick_ms: its unit of time; sessions expire on multiples of it.
        min_session_ms, max_session_ms: what a client's session timeout is clamped to.
        lines: more `key=value` lines, as of an ensemble.
        heap: as `-Xmx` takes it.
    """

    tick_ms: int = 500
    min_session_ms: int = 1000
    max_session_ms: int = 60_000
    lines: Sequence[str] = ()
    heap: str = "64m"


class DebianZooKeeper(ChildProcess):
    """One ZooKeeper 3.8; `settings` may be replaced between starts."""

    def __init__(
        self,
        work_dir: Path,
        settings: ZooKeeperSettings | None = None,
        port: int | None = None,
    ) -> None:
        super().__init__(work_dir, port)
        self.settings = settings or ZooKeeperSettings()
        self.tree_dir = self.work_dir / "tree"

    @property
    def address(self) -> str:
        """`host:port`, as `zk.zkConnect` wants it."""
        return f"127.0.0.1:{self.port}"

    def empty(self) -> None:
        """Forget the whole tree and all sessions.

        Raises:
            PeerError: it runs.
        """
        if self.is_running:
            raise PeerError("stop ZooKeeper before it is emptied")
        shutil.rmtree(self.tree_dir, ignore_errors=True)

    def restart(self) -> None:
        """Stop in order and start again, with the same tree."""
        self.stop()
        self.start()

    def ask(self, word: str) -> str:
        """The reply to a four-letter word such as `mntr`, `cons` or `dump`.

        Raises:
            OSError: it does not answer.
        """
        reply = b""
        with socket.create_connection(("127.0.0.1", self.port), _REPLY_LIMIT_S) as peer:
            peer.sendall(word.encode())
            # It closes hard, now and then, once all is said.
            with contextlib.suppress(ConnectionResetError):
                while received := peer.recv(65536):
                    reply += received
        return reply.decode()

    def serves(self) -> bool:
        """Whether it serves sessions: its tree is loaded, its ensemble has a quorum."""
        return answers(self.port, b"srvr", b"Zookeeper version")

    def _config(self) -> str:
        settings = self.settings
        lines = [
            f"tickTime={settings.tick_ms}",
            f"minSessionTimeout={settings.min_session_ms}",
            f"maxSessionTimeout={settings.max_session_ms}",
            f"dataDir={self.tree_dir}",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            *settings.lines,
        ]
        return "".join(f"{line}\n" for line in lines)

    def _argv(self) -> list[str]:
        config = self.work_dir / "zoo.cfg"
        config.write_text(self._config())
        flags = [f"-Xmx{self.settings.heap}", "-XX:+UseSerialGC"]
        flags += ["-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true"]
        # What was written survives SIGKILL unsynced, and the machine stays up.
        flags += ["-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024"]
        class_path = ":".join(map(str, _JARS))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return ["java", *flags, "-cp", class_path, main, str(config)]

    def _answers(self) -> bool:
        return answers(self.port, b"ruok", b"imok")

    def _has_settled(self) -> bool:
        return self.serves()


class _EnsembleMember(DebianZooKeeper):
    """Serves only once others run too, so that a start does not wait for it."""

    def _has_settled(self) -> bool:
        return True


class ZooKeeperEnsemble:
    """`size` servers that elect a leader among them; each may be stopped and started.

    Attributes:
        servers: in the order of their ids, 1 to `size`.
    """

    def __init__(self, work_dir: Path, size: int = 3, tick_ms: int = 500) -> None:
        ids = range(1, size + 1)
        lines = ["initLimit=20", "syncLimit=10"]
        lines += [
            f"server.{one}=127.0.0.1:{free_port()}:{free_port()}:participant"
            for one in ids
        ]
        settings = ZooKeeperSettings(tick_ms=tick_ms, lines=lines)
        self.servers = [_EnsembleMember(work_dir / str(one), settings) for one in ids]
        for one, server in zip(ids, self.servers, strict=True):
            server.tree_dir.mkdir(exist_ok=True)
            (server.tree_dir / "myid").write_text(f"{one}\n")

    @property
    def address(self) -> str:
        """`host:port,...` of all, as `zk.zkConnect` wants it."""
        return ",".join(server.address for server in self.servers)

    def start(self) -> None:
        """Start those that do not run, and return once all of them serve.

        Raises:
            PeerError: they did not within START_TIMEOUT_S.
        """
        # Those that come while others elect a leader may elect another, and that costs
        # ten seconds; those that come later just follow.
        majority = len(self.servers) // 2 + 1
        self._start(self.servers[:majority])
        self._start(self.servers)

    def _start(self, servers: Sequence[DebianZooKeeper]) -> None:
        for server in servers:
            if not server.is_running:
                server.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not all(server.serves() for server in servers):
            if time.monotonic() > deadline:
                tails = "\n".join(server.log_tail() for server in servers)
                raise PeerError(f"the ensemble elected no leader:\n{tails}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop all in order."""
        for server in self.servers:
            server.stop()

    def kill(self) -> None:
        """SIGKILL to all."""
        for server in self.servers:
            server.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
