"""Offsets that are looked at and never stored, for `consume --no-commit`."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import (
    Claim,
    Commit,
    CommitOutcome,
    IOffsetStorage,
)
from metatwist.coordination.formats import OffsetRecord


@implementer(IOffsetStorage)
class ReadOnlyOffsets:
    """See IOffsetStorage; loads from another storage, which it closes too."""

    def __init__(self, storage: Any) -> None:
        self.description = f"{storage.description}, not written"
        self._storage = storage

    def load(
        self, partition: TopicPartition, claim: Claim
    ) -> Deferred[OffsetRecord | None]:
        """See IOffsetStorage."""
        found: Deferred[OffsetRecord | None] = self._storage.load(partition, claim)
        return found

    def commit(self, commits: tuple[Commit, ...]) -> Deferred[CommitOutcome]:
        """See IOffsetStorage; nothing is written, which is what is wanted."""
        return succeed(dict.fromkeys(one.partition for one in commits))

    def close(self) -> Deferred[None]:
        """See IOffsetStorage."""
        closing: Deferred[None] = self._storage.close()
        return closing
