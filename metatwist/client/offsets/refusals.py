"""Loads and commits that are not carried out, and why: the same words everywhere."""

from __future__ import annotations

from metatwist.client.errors import (
    ClientError,
    ClientStopped,
    NotOwner,
    OffsetStorageFailed,
    Where,
)
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import Commit


def storage_failed(
    text: str,
    partition: TopicPartition,
    cause: BaseException | None = None,
    outcome_unknown: bool = False,
    retriable: bool = True,
) -> OffsetStorageFailed:
    """An OffsetStorageFailed about a partition; `cause` is added to the text."""
    text = text if cause is None else f"{text}: {str(cause) or type(cause).__name__}"
    where = Where(topic=partition.topic, partition=partition.partition)
    error = OffsetStorageFailed(text, where)
    error.__cause__ = cause
    error.outcome_unknown = outcome_unknown
    error.retriable = retriable
    return error


def not_owner(commit: Commit, reason: str) -> NotOwner:
    """The commit comes from somebody whose claim is over."""
    partition, record = commit.partition, commit.record
    where = Where(None, partition.topic, partition.partition, record.offset)
    consumer = commit.claim.consumer
    return NotOwner(f"{consumer} owns the partition no more: {reason}", where)


def refusal(commit: Commit) -> ClientError | None:
    """Why a commit must not be written now, None if it may; asks its claim."""
    if commit.record.offset < 0:
        return storage_failed(
            f"{commit.record.offset} is no offset", commit.partition, retriable=False
        )
    if not commit.claim.holds():
        return not_owner(commit, "the claim cannot be proven any more")
    return None


def stopped(description: str) -> ClientStopped:
    """The storage was closed before the call."""
    return ClientStopped(f"the offset storage was closed: {description}")
