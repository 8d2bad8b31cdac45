"""Offsets that live as long as the process: for tests, and for consumers that begin
anew each time."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from metatwist.client.errors import ClientError
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import (
    Claim,
    Commit,
    CommitOutcome,
    IOffsetStorage,
)
from metatwist.client.offsets.refusals import refusal, stopped
from metatwist.coordination.formats import OffsetRecord


@implementer(IOffsetStorage)
class MemoryOffsets:
    """See IOffsetStorage; every answer comes at once.

    Attributes:
        records: what is stored. Give a dict to begin with it, and to share it.
    """

    description = "in memory"

    def __init__(
        self, records: dict[TopicPartition, OffsetRecord] | None = None
    ) -> None:
        self.records = {} if records is None else records
        self._is_closed = False

    def load(
        self, partition: TopicPartition, claim: Claim
    ) -> Deferred[OffsetRecord | None]:
        """See IOffsetStorage."""
        if self._is_closed:
            return fail(stopped(self.description))
        return succeed(self.records.get(partition))

    def commit(self, commits: tuple[Commit, ...]) -> Deferred[CommitOutcome]:
        """See IOffsetStorage."""
        if self._is_closed:
            return fail(stopped(self.description))
        return succeed({one.partition: self._store(one) for one in commits})

    def _store(self, commit: Commit) -> ClientError | None:
        error = refusal(commit)
        if error is None:
            self.records[commit.partition] = commit.record
        return error

    def close(self) -> Deferred[None]:
        """See IOffsetStorage."""
        self._is_closed = True
        return succeed(None)
