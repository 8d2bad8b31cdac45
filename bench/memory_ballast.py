"""Takes the memory that this machine has at hand, so that files grow into fresh pages.

A virtual machine gets memory from its host as it first touches it, at a fraction of
the speed of memory it used a moment ago; a file that has grown by a gigabyte or two is
bound by that, whoever writes it. Where memory is all at hand this changes nothing.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path

CHUNK_BYTES = 64 << 20
MAX_BYTES = 8 << 30
SLOW_CHUNKS = 3


class MemoryBallast:
    """Memory that is held until `release`."""

    def __init__(self) -> None:
        self._chunks: list[mmap.mmap] = []
        self._fastest_s = float("inf")

    def grow(self) -> None:
        """Take memory until it comes slowly, or two fifths of it (8 GiB) are taken."""
        slow = 0
        most_bytes = min(MAX_BYTES, _available_bytes() * 2 // 5)
        for _ in range(most_bytes // CHUNK_BYTES):
            took_s = self._take_chunk()
            self._fastest_s = min(self._fastest_s, took_s)
            slow = slow + 1 if took_s > 2 * self._fastest_s else 0
            if slow == SLOW_CHUNKS or len(self._chunks) * CHUNK_BYTES >= MAX_BYTES:
                return

    def _take_chunk(self) -> float:
        """Seconds that it took to have every page of one more chunk."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        begun_s = time.monotonic()
        self._chunks.append(mmap.mmap(-1, CHUNK_BYTES, flags=flags))
        return time.monotonic() - begun_s

    def release(self) -> None:
        """Give it all back."""
        for chunk in self._chunks:
            chunk.close()
        self._chunks.clear()


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
