"""Results of single verbs, prepared for people before they are laid out.

Each takes what the broker answered and leaves alone what has not the expected shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

MOST_RANGES = 5


def number_ranges(numbers: Iterable[int]) -> str:
    """`0 to 2, 5` for 0, 1, 2, 5."""
    ordered = sorted(set(numbers))
    runs = groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    return ", ".join(
        str(span[0]) if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans
    )


def closed_view(result: object) -> object:
    """Of `close-partitions` and `open-partitions`: the closed ones as ranges."""
    if not isinstance(result, Mapping) or "closed" not in result:
        return result
    return {**result, "closed": number_ranges(result["closed"]) or "none"}


def status_view(result: object) -> object:
    """Of `status`: the closed partitions as ranges, a text for each topic."""
    if not isinstance(result, Mapping) or not result.get("closed"):
        return result
    topics: dict[str, list[int]] = {}
    for name in result["closed"]:
        topic, _, number = name.rpartition("-")
        topics.setdefault(topic, []).append(int(number))
    closed = [f"{topic} {number_ranges(found)}" for topic, found in topics.items()]
    return {**result, "closed": closed}


def recovery_view(result: object) -> object:
    """Of `recovery`: the summary, then a line for each partition that is notable."""
    if not isinstance(result, Mapping) or "summary" not in result:
        return result
    lines = [
        f"{row['partition']}: {'; '.join(_happened(row))}"
        for row in result["partitions"]
    ]
    return {**result["summary"], "findings": lines}


def _happened(row: Mapping[str, Any]) -> Iterator[str]:
    if not row["usable"]:
        yield "cannot be used"
    if row["cut_bytes"]:
        yield f"cut {row['cut_bytes']} bytes from offset {row['cut_at']} on"
    bad = row["bad"]
    if bad:
        shown = ", ".join(f"{begin} to {end}" for begin, end in bad[:MOST_RANGES])
        more = f" and {len(bad) - MOST_RANGES} more" if len(bad) > MOST_RANGES else ""
        yield f"damaged bytes that stay, offsets {shown}{more}"
    yield from row["problems"]
