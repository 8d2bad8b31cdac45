"""When offsets are stored: by time, by count, when asked; only what has changed.

What failed stays to be stored and is tried with the next commit (spec client 15.1,
21 W12-W14). A claim that cannot be proven now may be proven again later: what is done
under it is not written meanwhile, and stays to be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, DeferredLock, succeed
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from metatwist.client.errors import (
    ClientError,
    ClientStopped,
    NotOwner,
    Where,
)
from metatwist.client.events import CommitFailed, Event
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import Claim, Commit, CommitOutcome
from metatwist.client.progress import Progress
from metatwist.client.settings import CommitSettings
from metatwist.coordination.formats import OffsetRecord


@define
class _Tracked:
    claim: Claim
    progress: Progress
    stored: OffsetRecord | None
    counted: int = 0


class Commits:
    """Stores the progress of the partitions that it tracks.

    `storage` is a `GuardedOffsets`. One commit at a time: the next begins when the one
    under way has ended, with what is done by then.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        storage: Any,
        settings: CommitSettings,
        emit: Callable[[Event], object],
    ) -> None:
        self._storage = storage
        self._settings = settings
        self._emit = emit
        self._tracked: dict[TopicPartition, _Tracked] = {}
        self._lock = DeferredLock()
        self._waiting: dict[Deferred[CommitOutcome], tuple[TopicPartition, ...]] = {}
        self._loop = LoopingCall(self._by_time)
        self._loop.clock = clock

    def start(self) -> None:
        """Begin to commit by time, if that is wanted."""
        if self._settings.auto:
            self._loop.start(self._settings.period_s, now=False)

    def stop(self) -> None:
        """Commit no more by itself."""
        if self._loop.running:
            self._loop.stop()

    def end(self) -> None:
        """Whoever still waits is not told by the storage any more: ClientStopped."""
        waiting, self._waiting = self._waiting, {}
        error = ClientStopped("the consumer was stopped")
        for told, partitions in waiting.items():
            if not told.called:
                told.callback(dict.fromkeys(partitions, error))

    def track(
        self,
        partition: TopicPartition,
        claim: Claim,
        progress: Progress,
        stored: OffsetRecord | None,
    ) -> None:
        """Commit this one too; `stored` is what the storage has."""
        self._tracked[partition] = _Tracked(claim, progress, stored)
        if self._settings.auto and self._settings.every is not None:
            progress.advanced = self._by_count

    def untrack(self, partition: TopicPartition) -> OffsetRecord | None:
        """Leave it alone from now on; returns what the storage is known to have."""
        tracked = self._tracked.pop(partition, None)
        return None if tracked is None else tracked.stored

    def commit(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> Deferred[CommitOutcome]:
        """Store what has changed, of these or all partitions.

        Fires with an entry for each partition that had to be stored. Never fails.
        Cancelling ends the wait; what has begun to be written is written.
        """
        wanted = None if partitions is None else tuple(partitions)
        # Not the lock's own Deferred: to cancel that would cancel what is written.
        told: Deferred[CommitOutcome] = Deferred()
        self._waiting[told] = tuple(self._tracked) if wanted is None else wanted

        def tell(outcome: CommitOutcome) -> None:
            if self._waiting.pop(told, None) is not None and not told.called:
                told.callback(outcome)

        self._lock.run(self._commit, wanted).addCallback(tell)
        return told

    def _by_time(self) -> Deferred[Any] | None:
        return None if self._lock.locked else self.commit()

    def _by_count(self) -> None:
        every = self._settings.every or 0
        done = sum(
            one.progress.done_count - one.counted for one in self._tracked.values()
        )
        if done >= every and not self._lock.locked:
            self.commit()

    def _commit(
        self, wanted: tuple[TopicPartition, ...] | None
    ) -> Deferred[CommitOutcome]:
        changed = tuple(self._changed(wanted))
        commits = tuple(one for one in changed if one.claim.holds())
        refused = {one.partition: _not_ours(one) for one in changed}
        for one in commits:
            del refused[one.partition]
        if not commits:
            return succeed(refused)
        storing: Deferred[CommitOutcome] = self._storage.commit(commits)
        storing.addCallback(self._note, commits)
        return storing.addCallback(lambda outcome: {**refused, **outcome})

    def _changed(self, wanted: tuple[TopicPartition, ...] | None) -> Iterable[Commit]:
        for partition, tracked in self._tracked.items():
            if wanted is not None and partition not in wanted:
                continue
            record = tracked.progress.record
            tracked.counted = tracked.progress.done_count
            if record is not None and not _same_offset(record, tracked.stored):
                yield Commit(partition, record, tracked.claim)

    def _note(
        self, outcome: CommitOutcome, commits: tuple[Commit, ...]
    ) -> CommitOutcome:
        for commit in commits:
            error = outcome.get(commit.partition)
            tracked = self._tracked.get(commit.partition)
            if error is not None:
                self._emit(CommitFailed(commit.partition, error))
            if tracked is None or tracked.claim is not commit.claim:
                continue
            if error is None:
                tracked.stored = commit.record
        return outcome


def _not_ours(commit: Commit) -> ClientError:
    return NotOwner("the claim cannot be proven now", Where(None, *commit.partition))


def _same_offset(record: OffsetRecord, stored: OffsetRecord | None) -> bool:
    return stored is not None and record.offset == stored.offset
