"""Results of single verbs, prepared for people before they are laid out.

Each takes what the broker answered and leaves alone what has not the expected shape.
Consumer groups are in `group_views`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

MOST_RANGES = 5
_SAID_ELSEWHERE = {"enabled", "problem", "warnings"}


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
    """Of `status`: what keeps clients away first, the closed partitions as ranges, and
    of coordination what there is to say."""
    if not isinstance(result, Mapping):
        return result
    shown = dict(result)
    if result.get("closed"):
        shown["closed"] = _closed_ranges(result["closed"])
    found = result.get("coordination")
    if not isinstance(found, Mapping):
        return shown
    shown["coordination"] = coordination_view(found)
    problem = found.get("problem")
    return {"problem": problem, **shown} if problem else shown


def _closed_ranges(names: Iterable[str]) -> list[str]:
    topics: dict[str, list[int]] = {}
    for name in names:
        topic, _, number = name.rpartition("-")
        topics.setdefault(topic, []).append(int(number))
    return [f"{topic} {number_ranges(found)}" for topic, found in topics.items()]


def coordination_view(found: Mapping[str, Any]) -> object:
    """That part of `status`; problem and warnings stand elsewhere in it."""
    if found.get("kind") == "none":
        return "none: clients must know the address"
    shown = {name: one for name, one in found.items() if name not in _SAID_ELSEWHERE}
    if found.get("enabled") is False:
        shown["registered_nodes"] = "none, since zk.zkEnable=false"
    if not found.get("duplicate"):
        shown.pop("duplicate", None)
    for name in ("repairs", "other_brokers"):
        if isinstance(found.get(name), Mapping):
            shown[name] = _pairs(found[name]) or "none"
    count = shown.pop("other_brokers_count", None)
    unnamed = 0 if count is None else count - len(found["other_brokers"])
    if unnamed > 0:
        shown["other_brokers"] += f", and {unnamed} more"
    return shown


def _pairs(found: Mapping[str, object]) -> str:
    """`missing 3, unwanted 1`, without the zeros."""
    return ", ".join(f"{name} {one}" for name, one in found.items() if one)


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
