"""What every measured server can be asked to do."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from procfs import Memory, memory, with_descendants

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.child_process import ChildProcess, PeerError  # noqa: E402

__all__ = ["ROOT", "ChildProcess", "Peer", "PeerError"]


class Peer:
    """One server with its data; a base class.

    Attributes:
        warm_up_puts: how many each topic that is put to needs before its figures hold.
        discard_bytes: above this its data is dropped, by a fresh start, between rows.
    """

    name = ""
    warm_up_puts = 2_000
    discard_bytes = 3 << 30

    def __init__(self, work_dir: Path) -> None:
        self.work_dir = work_dir
        self.data_dir = work_dir / "data"
        self.largest_memory = Memory()

    def servers(self) -> Sequence[ChildProcess]:
        """Its measured processes, helpers aside."""
        raise NotImplementedError

    def port(self, topic: str) -> int:
        """Where `topic` is served."""
        return self.servers()[0].port

    def start(self) -> None:
        """Start on the data that is there.

        Raises:
            PeerError: it did not start.
        """
        for server in self.servers():
            server.start()

    def stop(self) -> None:
        """Stop in order.

        Raises:
            PeerError: it had to be killed.
        """
        self.note_memory()
        for server in self.servers():
            server.stop()

    def kill(self) -> None:
        """End every process at once."""
        for server in self.servers():
            server.kill()

    def is_running(self) -> bool:
        """Whether none of its processes has ended."""
        return all(server.is_running for server in self.servers())

    def pids(self) -> list[int]:
        """All its processes, helpers included."""
        return with_descendants(server.pid for server in self.servers())

    def note_memory(self) -> None:
        """Keep the largest memory seen, over restarts."""
        self.largest_memory = self.largest_memory.largest(memory(self.pids()))

    def answered_after_s(self) -> float:
        """From the last start until it answered."""
        return max(server.answered_after_s for server in self.servers())

    def data_bytes(self) -> int:
        """The size of its files."""
        files = [path for path in self.data_dir.rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files)

    def discard(self) -> None:
        """Start again without the data that was put."""
        self.stop()
        shutil.rmtree(self.data_dir)
        self.start()

    def log_tail(self) -> str:
        """The last lines of its logs."""
        return "\n".join(server.log_tail() for server in self.servers())
