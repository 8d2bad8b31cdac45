"""A storage of the user's own, held to the interface: whatever it does is an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.errors import ClientError, OffsetStorageFailed, Where
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import (
    Claim,
    Commit,
    CommitOutcome,
    IOffsetStorage,
)
from metatwist.coordination.formats import OffsetRecord


@implementer(IOffsetStorage)
class GuardedOffsets:
    """What `storage` raises, fails with or answers against the interface becomes
    OffsetStorageFailed, with its cause, and is logged."""

    _log = Logger()

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    @property
    def description(self) -> str:
        """See IOffsetStorage."""
        return str(self._storage.description)

    def load(
        self, partition: TopicPartition, claim: Claim
    ) -> Deferred[OffsetRecord | None]:
        """See IOffsetStorage."""

        def check(found: Any) -> OffsetRecord | None:
            if found is not None and not isinstance(found, OffsetRecord):
                raise TypeError(f"load answered {found!r}")
            return found

        loading = maybeDeferred(self._storage.load, partition, claim)
        loading.addCallback(check)
        return loading.addErrback(self._failed, "load", Where(None, *partition))

    def commit(self, commits: tuple[Commit, ...]) -> Deferred[CommitOutcome]:
        """See IOffsetStorage; never fails."""

        def check(outcome: Any) -> CommitOutcome:
            if not isinstance(outcome, Mapping):
                raise TypeError(f"commit answered {outcome!r}")
            return outcome

        def all_failed(failure: Failure) -> CommitOutcome:
            failure.trap(ClientError)
            error: Any = failure.value
            return dict.fromkeys((one.partition for one in commits), error)

        storing = maybeDeferred(self._storage.commit, commits).addCallback(check)
        storing.addErrback(self._failed, "commit", Where())
        return storing.addErrback(all_failed)

    def close(self) -> Deferred[None]:
        """See IOffsetStorage."""
        return maybeDeferred(self._storage.close)

    def _failed(self, failure: Failure, what: str, where: Where) -> Failure:
        if isinstance(failure.value, (ClientError, CancelledError)):
            return failure
        self._log.failure("the offset storage failed", failure)
        error = OffsetStorageFailed(f"{what}: {failure.getErrorMessage()}", where)
        error.__cause__ = failure.value
        return Failure(error)
