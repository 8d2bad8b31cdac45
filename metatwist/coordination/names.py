"""Names of znodes: what may be one, and those with a shape of their own.

Brokers register under `<id>-m` and `<id>-s<k>`, partitions are `<id>-<partition>`,
consumers `<group>_<unique>` (spec layout 3.3, 3.5, 3.7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import frozen

_NUMBER = "(0|[1-9][0-9]{0,9})"
_NODE_NAME = re.compile(rf"{_NUMBER}-(?:m|s{_NUMBER})")
_PARTITION_NAME = re.compile(rf"{_NUMBER}-{_NUMBER}")
_INT_MAX = 2**31 - 1
# ZooKeeper counts in UTF-16, so that anything past U+FFFF is a pair of surrogates.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
_PLAIN = re.compile("[A-Za-z0-9_-]+")
_GROUP_UNFIT = re.compile("[ ~!#$%^&*()+=`'\",;/?\\[\\]<>.:]")


@frozen
class NodeName:
    """A broker in the topic trees: a master, or its slave number `slave`."""

    broker_id: int
    slave: int | None = None

    def __str__(self) -> str:
        kind = "m" if self.slave is None else f"s{self.slave}"
        return f"{self.broker_id}-{kind}"

    @classmethod
    def parse(cls, text: str) -> NodeName | None:
        """`0-m` or `0-s1`; None for anything else, which readers skip."""
        found = _NODE_NAME.fullmatch(text)
        if found is None:
            return None
        broker_id, slave = found.groups()
        numbers = (int(broker_id), int(slave or 0))
        if max(numbers) > _INT_MAX:
            return None
        return cls(numbers[0], None if slave is None else numbers[1])


@frozen(order=True)
class PartitionName:
    """A partition of a topic on a broker; its natural order is the producer's, by
    numbers."""

    broker_id: int
    partition: int

    def __str__(self) -> str:
        return f"{self.broker_id}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> PartitionName | None:
        """`0-11`; None for anything else, which readers skip."""
        found = _PARTITION_NAME.fullmatch(text)
        if found is None:
            return None
        numbers = (int(found[1]), int(found[2]))
        return None if max(numbers) > _INT_MAX else cls(*numbers)


def producer_order(partitions: Iterable[PartitionName]) -> list[PartitionName]:
    """By broker id, then by partition (spec layout 3.7)."""
    return sorted(partitions, key=lambda one: (one.broker_id, one.partition))


def consumer_order(partitions: Iterable[PartitionName]) -> list[PartitionName]:
    """As strings: 0-0, 0-1, 0-10, 0-11, 0-2 (spec layout 3.7)."""
    return sorted(partitions, key=str)


def string_order(texts: Iterable[str]) -> list[str]:
    """As Java sorts strings, by UTF-16 code units: the order of consumer ids."""
    return sorted(texts, key=lambda text: text.encode("utf-16-be", "surrogatepass"))


def path_element_problem(name: str) -> str | None:
    """Why a text cannot be one element of a znode's path, None if it can.

    The union of what ZooKeeper's servers and its Java client refuse.
    """
    if _PLAIN.fullmatch(name):
        return None
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is a relative path"
    if "/" in name:
        return "contains a /"
    unfit = _UNFIT.search(name)
    if unfit is not None:
        return f"contains U+{ord(unfit[0]):04X}, which ZooKeeper refuses in a path"
    return None


def is_path_element(name: str) -> bool:
    """Whether a text can be one element of a znode's path."""
    return path_element_problem(name) is None


def group_problem(group: str) -> str | None:
    """Why no consumer may have this group, None if one may (spec layout 3.5)."""
    if not group.strip():
        return "is blank"
    unfit = _GROUP_UNFIT.search(group)
    if unfit is not None:
        return f"contains {unfit[0]!r}"
    return path_element_problem(group)


def consumer_id(group: str, unique: str) -> str:
    """`<group>_<unique>`; raises ValueError for what clients or ZooKeeper refuse."""
    problem = group_problem(group)
    if problem is not None:
        raise ValueError(f"the group {group!r} {problem}")
    problem = path_element_problem(unique)
    if problem is not None:
        raise ValueError(f"the consumer id {unique!r} {problem}")
    return f"{group}_{unique}"
