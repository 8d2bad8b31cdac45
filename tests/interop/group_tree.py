"""A consumer group as the tree shows it, read with kazoo's own client."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError


def shares(partitions: Sequence[str], members: Sequence[str]) -> dict[str, str]:
    """By partition: who should own it, by the default strategy (spec client 10.4)."""
    if not members:
        return {}
    ordered = sorted(partitions)
    quotient, remainder = divmod(len(ordered), len(members))
    found = {}
    for index, member in enumerate(sorted(members)):
        begin = quotient * index + min(index, remainder)
        size = quotient + (index < remainder)
        found.update(dict.fromkeys(ordered[begin : begin + size], member))
    return found


class GroupTree:
    """What the coordinator's tree says of a consumer group and a topic."""

    def __init__(self, client: KazooClient, group: str, topic: str) -> None:
        self._client = client
        self._group = f"/meta/consumers/{group}"
        self._topic = topic

    def members(self) -> list[str]:
        """The consumers that are registered, sorted."""
        return sorted(self._children(f"{self._group}/ids"))

    def owners(self) -> dict[str, str]:
        """By partition as `brokerId-partition`: its owner."""
        return self._values(f"{self._group}/owners/{self._topic}")

    def offsets(self) -> dict[str, int]:
        """By partition: the committed offset."""
        stored = self._values(f"{self._group}/offsets/{self._topic}")
        return {
            partition: int(value.rpartition("-")[2])
            for partition, value in stored.items()
        }

    def _children(self, path: str) -> list[str]:
        with contextlib.suppress(NoNodeError):
            found: list[str] = self._client.retry(self._client.get_children, path)
            return found
        return []

    def _values(self, path: str) -> dict[str, str]:
        found = {}
        for name in self._children(path):
            # It may have gone since it was listed.
            with contextlib.suppress(NoNodeError):
                data, _ = self._client.retry(self._client.get, f"{path}/{name}")
                found[name] = data.decode()
        return found
