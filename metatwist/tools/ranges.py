"""What there is of topics before anything is read: partitions, and what they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, DeferredList, TimeoutError

from metatwist.client.client import MetaClient
from metatwist.client.errors import Attempt, ClientError, NotConnected
from metatwist.client.message import TopicPartition
from metatwist.client.reading.starting import KeptRange
from metatwist.coordination.names import PartitionName
from metatwist.tools.ending import ToolError
from metatwist.tools.running import Scene


@frozen
class Found:
    """`kept` of the partitions that could be asked; why not, of the others."""

    kept: Mapping[TopicPartition, KeptRange]
    failed: Mapping[TopicPartition, ClientError]

    @property
    def size_bytes(self) -> int:
        """All that is kept."""
        return sum(one.latest - one.earliest for one in self.kept.values())


async def partitions_of(
    scene: Scene, topics: Sequence[str], only: Sequence[str] = ()
) -> list[TopicPartition]:
    """All partitions of some topics, or `only` those: `0-3`, or `3` for that one of
    each broker.

    Raises ToolError for one that is not there, and for a topic that has none;
    NotConnected when nobody can be asked in time.
    """
    found = []
    for topic in topics:
        names = await _partitions(scene, topic)
        if not names:
            raise ToolError(
                f"topic {topic} has no partition to be read: there is no such topic, "
                "or nothing was ever stored in it"
            )
        chosen = [name for one in only for name in _matching(topic, names, one)]
        found += [TopicPartition(topic, name) for name in chosen or names]
    return list(dict.fromkeys(found))


async def _partitions(scene: Scene, topic: str) -> Sequence[PartitionName]:
    limit_s = scene.target.timeout_s
    asking = scene.client.partitions(topic).addTimeout(limit_s, scene.reactor)
    try:
        return await asking
    except TimeoutError:
        raise NotConnected(f"no answer within {limit_s:g} s") from None


def _matching(
    topic: str, names: Sequence[PartitionName], wanted: str
) -> list[PartitionName]:
    found = [one for one in names if wanted in (str(one), str(one.partition))]
    if not found:
        listed = ", ".join(map(str, names))
        raise ToolError(f"topic {topic} has no partition {wanted}; it has {listed}")
    return found


async def kept_by(client: MetaClient, partitions: Sequence[TopicPartition]) -> Found:
    """Ask what they keep, all at once. Raises NotConnected, with every address that was
    tried, when no broker of them can be reached."""
    asking = [Deferred.fromCoroutine(_kept(client, one)) for one in partitions]
    answers: Any = await DeferredList(asking, consumeErrors=True)
    for succeeded, answer in answers:
        if not succeeded:  # cancelled
            answer.raiseException()
    every = {one: answer for one, (_, answer) in zip(partitions, answers, strict=True)}
    found = Found(
        {one: kept for one, kept in every.items() if isinstance(kept, KeptRange)},
        {one: bad for one, bad in every.items() if isinstance(bad, ClientError)},
    )
    if partitions and not found.kept:
        raise _all_failed(list(found.failed.values()))
    return found


async def _kept(client: MetaClient, one: TopicPartition) -> KeptRange | ClientError:
    try:
        return await client.kept(one)
    except ClientError as error:
        return error


def _all_failed(errors: list[ClientError]) -> ClientError:
    absent = [one for one in errors if isinstance(one, NotConnected)]
    if len(absent) < len(errors):
        return next(one for one in errors if not isinstance(one, NotConnected))
    attempts: dict[Attempt, None] = {}
    for error in absent:
        attempts.update(dict.fromkeys(error.attempts))
    if not attempts:
        return absent[0]
    return NotConnected("no broker of the topic can be reached", tuple(attempts))
