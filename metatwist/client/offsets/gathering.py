"""Storages that block a thread: one job at a time, and what comes meanwhile is gathered
into the next ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.errors import ClientError
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import (
    Claim,
    Commit,
    CommitOutcome,
    IOffsetStorage,
)
from metatwist.client.offsets.open_work import OpenWork
from metatwist.client.offsets.refusals import refusal, storage_failed
from metatwist.coordination.formats import OffsetRecord

_ATTEMPTS = 3

Records = Mapping[TopicPartition, OffsetRecord]
"""What is stored; a partition that is missing has no offset."""


@define(eq=False)
class _Loads:
    """Loads that wait for one job."""

    waiting: list[tuple[TopicPartition, Deferred[OffsetRecord | None]]] = field(
        factory=list
    )


@define(eq=False)
class _Commits:
    """Calls of `commit` that wait for one job, the latest last."""

    waiting: list[tuple[tuple[Commit, ...], Deferred[CommitOutcome]]] = field(
        factory=list
    )


@implementer(IOffsetStorage)
class GatheringOffsets:
    """See IOffsetStorage; a base class, for what comes first here.

    Jobs run in the order of the calls. A commit that a later one of the same job
    replaces counts as stored with it.
    """

    def __init__(self, description: str) -> None:
        self.description = description
        self._jobs: deque[_Loads | _Commits] = deque()
        self._is_running = False
        self._open = OpenWork()

    def _read(self, partitions: frozenset[TopicPartition]) -> Deferred[Records]:
        """Read them all, or fail for all."""
        raise NotImplementedError

    def _write(self, records: Records) -> Deferred[None]:
        """Write them all, or fail for all."""
        raise NotImplementedError

    def _passes(self, result: object) -> bool:
        """Whether that result of a read or write is a failure after which the same is
        tried again at once, three times in all."""
        return False

    def _release(self) -> Deferred[None] | None:
        """All is done: let go."""
        return None

    def load(
        self, partition: TopicPartition, claim: Claim
    ) -> Deferred[OffsetRecord | None]:
        """See IOffsetStorage."""
        return self._open.run(self.description, lambda: self._queue_load(partition))

    def commit(self, commits: tuple[Commit, ...]) -> Deferred[CommitOutcome]:
        """See IOffsetStorage."""
        return self._open.run(self.description, lambda: self._queue_commit(commits))

    def close(self) -> Deferred[None]:
        """See IOffsetStorage."""
        return self._open.close(self._release)

    def _queue_load(self, partition: TopicPartition) -> Deferred[OffsetRecord | None]:
        answer: Deferred[OffsetRecord | None] = Deferred()
        job = self._jobs[-1] if self._jobs else None
        if not isinstance(job, _Loads):
            job = _Loads()
            self._jobs.append(job)
        job.waiting.append((partition, answer))
        self._next()
        return answer

    def _queue_commit(self, commits: tuple[Commit, ...]) -> Deferred[CommitOutcome]:
        answer: Deferred[CommitOutcome] = Deferred()
        job = self._jobs[-1] if self._jobs else None
        if not isinstance(job, _Commits):
            job = _Commits()
            self._jobs.append(job)
        job.waiting.append((commits, answer))
        self._next()
        return answer

    def _next(self) -> None:
        if self._is_running or not self._jobs:
            return
        self._is_running = True
        job = self._jobs.popleft()
        if isinstance(job, _Loads):
            self._run_loads(job).addCallback(self._ended)
        else:
            self._run_commits(job).addCallback(self._ended)

    def _ended(self, tell: Callable[[], None]) -> None:
        # The next job first: whoever is told may close, or commit again.
        self._is_running = False
        self._next()
        tell()

    @inlineCallbacks
    def _run_loads(self, job: _Loads) -> Any:
        partitions = frozenset(one for one, _ in job.waiting)
        result: Any = None
        for _ in range(_ATTEMPTS):
            result = yield self._read(partitions).addErrback(_value)
            if not self._passes(result):
                break
        return lambda: _tell_loads(job, result)

    @inlineCallbacks
    def _run_commits(self, job: _Commits) -> Any:
        refused: dict[Commit, ClientError | None] = {}
        cause: BaseException | None = None
        for _ in range(_ATTEMPTS):
            refused, records = _sorted_out(job)
            cause = None
            if records:
                cause = yield self._write(records).addErrback(_value)
            if not self._passes(cause):
                break
        return lambda: _tell_commits(job, refused, cause)


def _value(failure: Failure) -> Any:
    return failure.value


def _sorted_out(
    job: _Commits,
) -> tuple[dict[Commit, ClientError | None], dict[TopicPartition, OffsetRecord]]:
    """Which commits must not be written, and what is to be written: asks the claims."""
    refused: dict[Commit, ClientError | None] = {}
    records: dict[TopicPartition, OffsetRecord] = {}
    for commits, _ in job.waiting:
        for one in commits:
            refused[one] = refusal(one)
            if refused[one] is None:
                records[one.partition] = one.record
    return refused, records


def _tell_loads(job: _Loads, result: Records | BaseException) -> None:
    for partition, answer in job.waiting:
        if isinstance(result, BaseException):
            answer.errback(storage_failed("offset not loaded", partition, result))
        else:
            answer.callback(result.get(partition))


def _tell_commits(
    job: _Commits,
    refused: Mapping[Commit, ClientError | None],
    cause: BaseException | None,
) -> None:
    for commits, answer in job.waiting:
        outcome = {one.partition: refused[one] for one in commits}
        for partition, error in outcome.items():
            if error is None and cause is not None:
                outcome[partition] = _not_stored(partition, cause)
        answer.callback(outcome)


def _not_stored(partition: TopicPartition, cause: BaseException) -> ClientError:
    # What we raise ourselves, we raise before anything is written.
    unknown = not isinstance(cause, ClientError)
    return storage_failed("offset not stored", partition, cause, unknown)
