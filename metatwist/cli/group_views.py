"""Consumer groups for people: a line a group, or the partitions of one.

What is not known is shown as `?`, never as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from metatwist.cli.render import cell

UNKNOWN = "?"
NOTHING = "-"


def groups_view(result: object) -> object:
    """Of `groups`: a row for each group."""
    if not isinstance(result, list):
        return result
    if not result:
        return "no consumer group has ever registered"
    return [{**row, "lag": lag_text(row["lag"])} for row in result]


def group_view(result: object) -> object:
    """Of `groups GROUP`: members, a row for each partition, and what is wrong."""
    if not isinstance(result, Mapping) or "topics" not in result:
        return result
    shown: dict[str, Any] = {
        "group": result["name"],
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
        "id": member["id"],
        "owns": member["owned_partitions"],
        "since_time_ms": member["since_ms"],
        "topics": ", ".join(member["topics"]) or NOTHING,
    }


def _partitions(topics: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for topic in topics:
        for partition in topic["partitions"]:
            yield _partition(topic["topic"], partition)


def _partition(topic: str, partition: Mapping[str, Any]) -> dict[str, Any]:
    position = partition["position"]
    record = position["record"]
    return {
        "topic": topic,
        "partition": partition["name"],
        "owner": partition["owner"] or NOTHING,
        "committed": record["offset"] if record else position["raw"] or NOTHING,
        "log_end": _known(position["log_end"]),
        "lag": _size(position["lag_bytes"]),
        "state": position["state"],
    }


def _known(number: int | None) -> int | str:
    return UNKNOWN if number is None else number


def _size(size_bytes: int | None) -> str:
    return UNKNOWN if size_bytes is None else cell("lag_bytes", size_bytes)


def _finding(finding: Mapping[str, Any]) -> str:
    where = [finding[name] for name in ("topic", "partition", "member")]
    place = " ".join(one for one in where if one)
    return f"{finding['trouble']}: {finding['detail']}" + (
        f" ({place})" if place else ""
    )
