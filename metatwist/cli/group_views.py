"""Consumer groups for people: a line a group, or the partitions of one.

What is not known is shown as `?`, never as 0. Names come from the tree, where anybody
may write: they are cut, so that one of them does not widen every line. JSON has all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from metatwist.cli.render import cell

UNKNOWN = "?"
NOTHING = "-"
MOST_OF_A_NAME = 100
MOST_OF_A_FINDING = 300
MOST_TOPICS = 5
_GROUP_KEYS = {"name", "lag", "members", "topics", "findings"}


def groups_view(result: object) -> object:
    """Of `groups`: a row for each group."""
    if not isinstance(result, list) or not all(map(_is_summary, result)):
        return result
    if not result:
        return "no consumer group has ever registered"
    return [
        {**row, "name": _short(row["name"]), "lag": lag_text(row["lag"])}
        for row in result
    ]


def _is_summary(row: object) -> bool:
    if not isinstance(row, Mapping):
        return False
    return isinstance(row.get("name"), str) and isinstance(row.get("lag"), Mapping)


def group_view(result: object) -> object:
    """Of `groups GROUP`: members, a row for each partition, and what is wrong."""
    if not isinstance(result, Mapping) or not result.keys() >= _GROUP_KEYS:
        return result
    shown: dict[str, Any] = {
        "group": _short(result["name"]),
        **({"kind": "slave brokers"} if result.get("replication") else {}),
        "lag": lag_text(result["lag"]),
        "members": [_member(one) for one in result["members"]] or "none",
        "partitions": list(_partitions(result["topics"])) or "none",
    }
    findings = [_finding(one) for one in result["findings"]]
    return {**shown, "findings": findings} if findings else shown


def lag_text(lag: Mapping[str, Any]) -> str:
    """A sum of bytes, and how many partitions it leaves out."""
    known, unknown = cell("lag_bytes", lag["known_bytes"]), lag["unknown_partitions"]
    if lag["total_bytes"] is not None:
        return cell("lag_bytes", lag["total_bytes"])
    if not unknown or not lag["known_bytes"]:
        return UNKNOWN
    return f"{known} and {unknown} unknown"


def _member(member: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": _short(member["id"]),
        "owns": member["owned_partitions"],
        "since_time_ms": member["since_ms"],
        "topics": _topics(member["topics"]) or NOTHING,
    }


def _topics(names: list[str]) -> str:
    shown = ", ".join(map(_short, names[:MOST_TOPICS]))
    more = len(names) - MOST_TOPICS
    return f"{shown}, and {more} more" if more > 0 else shown


def _partitions(topics: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for topic in topics:
        for partition in topic["partitions"]:
            yield _partition(topic["topic"], partition)


def _partition(topic: str, partition: Mapping[str, Any]) -> dict[str, Any]:
    position = partition["position"]
    record = position["record"]
    return {
        "topic": _short(topic),
        "partition": partition["name"],
        "owner": _short(partition["owner"] or NOTHING),
        "committed": record["offset"] if record else _short(position["raw"] or NOTHING),
        "log_end": _known(position["log_end"]),
        "lag": _size(position["lag_bytes"]),
        "state": position["state"],
    }


def _known(number: int | None) -> int | str:
    return UNKNOWN if number is None else number


def _size(size_bytes: int | None) -> str:
    return UNKNOWN if size_bytes is None else cell("lag_bytes", size_bytes)


def _short(text: str, most: int = MOST_OF_A_NAME) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _finding(finding: Mapping[str, Any]) -> str:
    return _short(f"{finding['trouble']}: {finding['detail']}", MOST_OF_A_FINDING)
