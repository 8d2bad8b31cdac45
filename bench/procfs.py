"""Memory and processor time of a server and its helper processes, from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@frozen
class Memory:
    """Sums over processes, in bytes.

    Attributes:
        resident: VmRSS; pages shared by helpers count once for each.
        proportional: Pss; shared pages are split among those that share them.
        peak: VmHWM.
    """

    resident: int = 0
    proportional: int = 0
    peak: int = 0

    def largest(self, other: Memory) -> Memory:
        """The larger of each figure."""
        return Memory(
            max(self.resident, other.resident),
            max(self.proportional, other.proportional),
            max(self.peak, other.peak),
        )


def with_descendants(roots: Iterable[int]) -> list[int]:
    """The processes `roots` and all that they started."""
    children: dict[int, list[int]] = {}
    for pid, fields in _stats():
        children.setdefault(int(fields[1]), []).append(pid)
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def memory(pids: Iterable[int]) -> Memory:
    """What the processes hold now; one that has ended counts nothing."""
    resident = proportional = peak = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            status = _kilobytes(Path(f"/proc/{pid}/status"))
            rollup = _kilobytes(Path(f"/proc/{pid}/smaps_rollup"))
            resident += status.get("VmRSS", 0)
            peak += status.get("VmHWM", 0)
            proportional += rollup.get("Pss", 0)
    return Memory(resident, proportional, peak)


def cpu_s(pids: Iterable[int]) -> float:
    """User and system seconds the processes have used."""
    wanted = set(pids)
    ticks = sum(
        int(fields[11]) + int(fields[12]) for pid, fields in _stats() if pid in wanted
    )
    return ticks / _TICKS_A_SECOND


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Process id and the fields of /proc/PID/stat after the command name."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                text = (entry / "stat").read_text()
                yield int(entry.name), text.rpartition(")")[2].split()


def _kilobytes(path: Path) -> dict[str, int]:
    """The `Name: N kB` lines of a /proc file, in bytes."""
    values = {}
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[1] == "kB":
            values[name] = int(words[0]) * 1024
    return values
