"""Offsets in the coordinator's tree, where Java consumers keep theirs (spec layout 3.6,
5.4), fenced by ownership.

A write goes out in the session that made the owner node, checks that the partition has
an owner, and replaces that version of the offset node which the owner has last seen: of
two that take themselves for the owner, the one that has lost it finds a version it does
not know, looks who owns the partition, and gives up. The version is what counts: the
owner nodes of two owners look alike to a Check, each is in version 0.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from attrs import define, field
from twisted.internet.defer import (
    Deferred,
    DeferredLock,
    gatherResults,
    inlineCallbacks,
)
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
from metatwist.client.offsets.refusals import not_owner, refusal, storage_failed
from metatwist.coordination.errors import (
    BadVersion,
    ConnectionLost,
    CoordinationError,
    NodeExists,
    NoNode,
    OperationTimeout,
    SessionExpired,
    TransactionFailed,
)
from metatwist.coordination.formats import read_offset
from metatwist.coordination.interface import (
    Check,
    Create,
    Data,
    ICoordinator,
    Operation,
    SetData,
)
from metatwist.coordination.layout import Layout
from metatwist.coordination.unreadable import Unreadable

MOST_TRIES = 5
"""Of one commit, each after somebody else had changed the node."""

_ABSENT = -2
_ANY = -1


@define(eq=False)
class _Place:
    """What is known of a partition's offset node.

    `version` is what `claim` last saw of it while it owned the partition, None while
    it has seen nothing; `lock` keeps commits in order.
    """

    lock: DeferredLock = field(factory=DeferredLock)
    claim: Claim | None = None
    version: int | None = None

    def known_to(self, claim: Claim) -> int | None:
        if claim.session_id == 0 and self.claim != claim:
            return _ANY
        return self.version if self.claim == claim else None

    def learn(self, claim: Claim, version: int) -> None:
        self.claim, self.version = claim, version

    def forget(self) -> None:
        self.claim = self.version = None


@implementer(IOffsetStorage)
class CoordinatorOffsets:
    """See IOffsetStorage; of one group.

    A claim without session, as of a broadcast consumer, is not fenced: the last write
    wins. Closing does not stop the coordinator, which others use.
    """

    def __init__(self, coordinator: ICoordinator, layout: Layout, group: str) -> None:
        self._coordinator = coordinator
        self._layout = layout
        self._group = group
        self._work = OpenWork()
        self._places: dict[TopicPartition, _Place] = {}

    @property
    def description(self) -> str:
        """See IOffsetStorage."""
        where = self._layout.offsets(self._group)
        return f"{where} in {self._coordinator.description}"

    # -- loading ----------------------------------------------------------------

    def load(self, partition: TopicPartition, claim: Claim) -> Deferred[Any]:
        """See IOffsetStorage."""
        return self._work.run(self.description, lambda: self._load(partition, claim))

    @inlineCallbacks
    def _load(self, partition: TopicPartition, claim: Claim) -> Any:
        try:
            found, is_owner = yield self._look(partition, claim)
        except CoordinationError as error:
            raise storage_failed("offset not loaded", partition, error) from error
        except ValueError as error:
            text = "offset not loaded"
            raise storage_failed(text, partition, error, retriable=False) from error
        if is_owner:
            self._place(partition).learn(claim, _version_of(found))
        record = None if found is None else read_offset(found[0])
        if isinstance(record, Unreadable):
            path = self._offset_path(partition)
            text = f"{path} {record.reason}: {record.text!r}"
            raise storage_failed(text, partition, retriable=False)
        return record

    @inlineCallbacks
    def _look(self, partition: TopicPartition, claim: Claim) -> Any:
        """The offset node, None if there is none, and whether the claim's consumer owns
        the partition.

        The order matters: who owns it after the node was read owned it at that version.
        """
        found = yield self._get(self._offset_path(partition))
        if claim.session_id == 0:
            return found, False
        owner = yield self._get(self._owner_path(partition))
        if owner is None:
            return found, False
        data, stat = owner
        is_ours = stat.ephemeral_owner == claim.session_id
        return found, is_ours and data == claim.consumer.encode()

    @inlineCallbacks
    def _get(self, path: str) -> Any:
        try:
            found = yield self._coordinator.get(path)
        except NoNode:
            return None
        return found

    # -- committing -------------------------------------------------------------

    def commit(self, commits: tuple[Commit, ...]) -> Deferred[CommitOutcome]:
        """See IOffsetStorage; the partitions are written at the same time."""
        return self._work.run(self.description, lambda: self._commit(commits))

    def _commit(self, commits: tuple[Commit, ...]) -> Deferred[CommitOutcome]:
        partitions = [one.partition for one in commits]
        answers = gatherResults([self._store(one) for one in commits])
        return answers.addCallback(
            lambda errors: dict(zip(partitions, errors, strict=True))
        )

    @inlineCallbacks
    def _store(self, commit: Commit) -> Any:
        place = self._place(commit.partition)
        yield place.lock.acquire()
        try:
            yield self._write(place, commit)
        except ClientError as error:
            return error
        except CoordinationError as error:
            place.forget()
            return _commit_error(commit, error)
        except ValueError as error:  # a name that fits into no path
            text = "offset not stored"
            return storage_failed(text, commit.partition, error, retriable=False)
        finally:
            place.lock.release()
        return None

    @inlineCallbacks
    def _write(self, place: _Place, commit: Commit) -> Any:
        for _ in range(MOST_TRIES):
            self._prove(commit)
            version = place.known_to(commit.claim)
            if version is None:
                version = yield self._version_as_owner(commit)
                self._prove(commit)
            try:
                if version == _ABSENT:
                    version = yield self._create(commit)
                else:
                    version = yield self._replace(commit, version)
            except TransactionFailed as error:
                place.forget()
                self._judge(commit, error)
                if commit.claim.session_id == 0 and isinstance(error.cause, NoNode):
                    place.learn(commit.claim, _ABSENT)
            else:
                self._learn_written(place, commit.claim, version)
                return
        text = f"others changed it {MOST_TRIES} times meanwhile"
        raise storage_failed(text, commit.partition)

    def _prove(self, commit: Commit) -> None:
        error = refusal(commit)
        if error is not None:
            raise error
        claim = commit.claim
        if claim.session_id not in (0, self._coordinator.session_id):
            raise not_owner(commit, "its session with the coordinator is over")

    @inlineCallbacks
    def _version_as_owner(self, commit: Commit) -> Any:
        found, is_owner = yield self._look(commit.partition, commit.claim)
        if not is_owner:
            raise not_owner(commit, "the owner node says so")
        return _version_of(found)

    def _judge(self, commit: Commit, error: TransactionFailed) -> None:
        """Raise unless it may be tried again, with another version."""
        no_owner = commit.claim.session_id != 0 and error.index == 0
        if no_owner and isinstance(error.cause, NoNode):
            raise not_owner(commit, "nobody does")
        if not isinstance(error.cause, (BadVersion, NoNode, NodeExists)):
            raise error.cause

    @staticmethod
    def _learn_written(place: _Place, claim: Claim, version: int) -> None:
        if claim.session_id == 0:
            place.forget()
        else:
            place.learn(claim, version)

    @inlineCallbacks
    def _replace(self, commit: Commit, version: int) -> Any:
        path = self._offset_path(commit.partition)
        change = SetData(path, commit.record.encode(), version)
        answers = yield self._coordinator.transaction(self._fenced(commit, change))
        return answers[-1].version

    @inlineCallbacks
    def _create(self, commit: Commit) -> Any:
        directory = self._layout.offsets_of(self._group, commit.partition.topic)
        with suppress(NodeExists):
            yield self._coordinator.create(directory, make_parents=True)
        self._prove(commit)
        node = Create(self._offset_path(commit.partition), commit.record.encode())
        yield self._coordinator.transaction(self._fenced(commit, node))
        return 0

    def _fenced(self, commit: Commit, change: Operation) -> list[Operation]:
        if commit.claim.session_id == 0:
            return [change]
        return [Check(self._owner_path(commit.partition)), change]

    # -- the rest ---------------------------------------------------------------

    def close(self) -> Deferred[None]:
        """See IOffsetStorage."""
        return self._work.close(lambda: None)

    def _place(self, partition: TopicPartition) -> _Place:
        return self._places.setdefault(partition, _Place())

    def _offset_path(self, partition: TopicPartition) -> str:
        return self._layout.offset(self._group, *partition)

    def _owner_path(self, partition: TopicPartition) -> str:
        return self._layout.owner(self._group, *partition)


def _version_of(found: Data | None) -> int:
    return _ABSENT if found is None else found[1].version


def _commit_error(commit: Commit, error: CoordinationError) -> ClientError:
    if isinstance(error, SessionExpired) and commit.claim.session_id != 0:
        return not_owner(commit, "its session with the coordinator is over")
    unknown = isinstance(error, (ConnectionLost, OperationTimeout))
    return storage_failed("offset not stored", commit.partition, error, unknown)
