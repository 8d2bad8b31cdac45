"""What is measured: one row for each kind of work."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from attrs import frozen

PARTITIONS = 4
GET_BYTES = 1024 * 1024


@frozen
class Row:
    """One kind of work, named as `--rows` takes it.

    Attributes:
        topic: `sync` (group commit: answered after fsync), `direct` (answered after
            the write) or `read` (direct, filled once).
        depth: puts in flight on each connection.
        is_get: read the whole topic, with replies of GET_BYTES.
        is_fresh: files grow into memory that the machine has yet to get, as they do
            after a gigabyte or two (see memory_ballast).
    """

    name: str
    title: str
    topic: str
    connections: int
    depth: int
    body_bytes: int
    is_get: bool = False
    is_fresh: bool = False

    @property
    def in_flight(self) -> int:
        """The most unanswered puts at one time."""
        return self.connections * self.depth


_LOADS = [("1", "1 connection", 1, 1), ("50", "50 connections", 50, 1)]
_LOADS += [("10x64", "10 x 64 in flight", 10, 64)]
_BODIES = [("1k", "1 KiB", 1024), ("100b", "100 B", 100)]
_MODES = [("sync", "fsync first"), ("direct", "after the write")]


def _all_rows() -> list[Row]:
    rows = [
        Row(
            f"put-{topic}-{load}-{size}",
            f"{mode}, {load_title}, {body}",
            topic,
            connections,
            depth,
            body_bytes,
        )
        for size, body, body_bytes in _BODIES
        for topic, mode in _MODES
        for load, load_title, connections, depth in _LOADS
    ]
    fresh = "after the write, 10 x 64, 1 KiB, fresh memory"
    fresh_name = "put-direct-10x64-1k-fresh"
    rows.append(Row(fresh_name, fresh, "direct", 10, 64, 1024, is_fresh=True))
    get = "get, 4 readers of 1 MiB, page cache"
    rows.append(Row("get-4-1m", get, "read", 4, 1, 1024, is_get=True))
    return rows


ALL_ROWS = _all_rows()


def choose_rows(patterns: Sequence[str]) -> list[Row]:
    """The rows that match any of the shell patterns, in measuring order.

    Raises:
        ValueError: a pattern matches no row.
    """
    for pattern in patterns:
        if not fnmatch.filter([row.name for row in ALL_ROWS], pattern):
            known = ", ".join(row.name for row in ALL_ROWS)
            raise ValueError(f"no row is named {pattern}; there are: {known}")
    return [
        row for row in ALL_ROWS if any(fnmatch.fnmatch(row.name, p) for p in patterns)
    ]
