"""The text of the local offset file, as the Java client writes and reads it (spec
client 15.2): one JSON object, keyed by group, each a list of entries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from metatwist.client.message import TopicPartition
from metatwist.coordination.formats import OffsetRecord
from metatwist.coordination.names import PartitionName

_UNKNOWN_MESSAGE = -1
_INT64 = range(-(2**63), 2**63)
_INT32 = range(2**31)


def read_groups(data: bytes) -> dict[str, Any]:
    """All groups of a file, their entries as they stand; none when it is empty, as Java
    leaves it before its first commit.

    Raises ValueError for what is no such file, also for one that is cut short.
    """
    if not data:
        return {}
    try:
        groups: Any = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(groups, dict):
        raise ValueError("is no JSON object of groups")
    return groups


def read_group(groups: Mapping[str, Any], group: str) -> dict[TopicPartition, Any]:
    """The records of one group, none when it is not there. Of two entries for one
    partition the later counts; unknown members are ignored, as older files have more.

    Raises ValueError for an entry that cannot be read.
    """
    entries: Any = groups.get(group, [])
    if not isinstance(entries, list):
        raise ValueError(f"group {group!r} is no list")
    return dict(_entry(one) for one in entries)


def _entry(entry: Any) -> tuple[TopicPartition, OffsetRecord]:
    try:
        topic, place = entry["topic"], entry["partition"]
        offset, message = entry["offset"], entry.get("messageId", _UNKNOWN_MESSAGE)
        numbers = (place["brokerId"], place["partition"])
    except (TypeError, KeyError, AttributeError):
        raise ValueError(f"entry {_shown(entry)} lacks a member") from None
    message = _UNKNOWN_MESSAGE if message is None else message
    whole = all(_is_whole(one, _INT64) for one in (offset, message))
    named = isinstance(topic, str) and all(_is_whole(one, _INT32) for one in numbers)
    if not whole or not named:
        raise ValueError(f"entry {_shown(entry)} has a value of another kind")
    record = OffsetRecord(offset, None if message == _UNKNOWN_MESSAGE else message)
    return TopicPartition(topic, PartitionName(*numbers)), record


def _is_whole(number: object, within: range) -> bool:
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return is_number and number in within


def _shown(entry: object) -> str:
    return json.dumps(entry)[:200]


def write_groups(
    groups: Mapping[str, Any], group: str, records: Mapping[TopicPartition, Any]
) -> bytes:
    """The text of a file with the records of `group`, and all other groups as they were
    read. ASCII, as Java reads it in whatever charset its platform has."""
    entries = [_written(one, records[one]) for one in sorted(records)]
    return json.dumps({**groups, group: entries}, separators=(",", ":")).encode()


def _written(partition: TopicPartition, record: OffsetRecord) -> dict[str, Any]:
    name, message = partition.partition, record.message_id
    return {
        "topic": partition.topic,
        "partition": {"brokerId": name.broker_id, "partition": name.partition},
        "offset": record.offset,
        "messageId": _UNKNOWN_MESSAGE if message is None else message,
        "modified": False,
    }
