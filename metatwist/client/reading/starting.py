"""Where reading begins, and where it goes on when a position is not kept
(spec client 15.3, 15.4; W17, W34)."""

from __future__ import annotations

from attrs import frozen
from twisted.internet.defer import Deferred

from metatwist.client.errors import (
    NothingThere,
    OffsetOutOfRange,
    RequestRefused,
    UnexpectedReply,
    Where,
)
from metatwist.client.interfaces import IBrokerLink
from metatwist.client.message import TopicPartition
from metatwist.client.reading.fetching import number_in
from metatwist.client.settings import Start
from metatwist.wire.commands import OffsetCommand, ResultReply

LAST_OFFSET = 2**63 - 1
_GROUP = "metatwist"  # no broker looks at it here, but the command has a place for it


@frozen
class KeptRange:
    """What a broker keeps of a partition: from `earliest` to before `latest`, in bytes.

    Both are 0 where nothing was ever stored.
    """

    earliest: int
    latest: int


def range_of(
    link: IBrokerLink, partition: TopicPartition, timeout_s: float | None = None
) -> Deferred[KeptRange]:
    """Ask what is kept, in two requests.

    `offset` commands, because they are answered for closed partitions too, and say the
    end where a `get` says 404. Fails with RequestRefused, UnexpectedReply and as
    `IBrokerLink.request`; cancelling forgets the request.
    """
    return Deferred.fromCoroutine(_range_of(link, partition, timeout_s))


async def _range_of(
    link: IBrokerLink, partition: TopicPartition, timeout_s: float | None
) -> KeptRange:
    earliest = await _nearest(link, partition, 0, timeout_s)
    latest = await _nearest(link, partition, LAST_OFFSET, timeout_s)
    return KeptRange(earliest, max(earliest, latest))


async def _nearest(
    link: IBrokerLink, partition: TopicPartition, offset: int, timeout_s: float | None
) -> int:
    """The broker's answer to an `offset`; 0 where there is no log yet."""
    topic, name = partition
    command = OffsetCommand(topic, _GROUP, name.partition, offset, 0)
    reply = await link.request(command, timeout_s)
    where = Where(link.address, topic, name, offset)
    if not isinstance(reply, ResultReply):
        raise UnexpectedReply("data came where an offset was expected", where)
    if reply.code == NothingThere.code:
        return 0
    if reply.code != 200:
        text = reply.body.decode("utf-8", "replace")
        raise RequestRefused.of(reply.code, text, where)
    return number_in(reply, where)


def resolve_start(
    link: IBrokerLink,
    partition: TopicPartition,
    start: Start | int,
    timeout_s: float | None = None,
) -> Deferred[int]:
    """Where a partition without a stored offset begins: an exact offset as it is,
    EARLIEST and LATEST as the broker says now.

    To be asked once, when a partition is first taken, and the answer kept: LATEST asked
    again later would skip messages (W17). Fails with OffsetOutOfRange for ERROR (and
    NEAREST, there being nothing to be near to), else as `range_of`.
    """
    return Deferred.fromCoroutine(_start(link, partition, start, timeout_s))


async def _start(
    link: IBrokerLink,
    partition: TopicPartition,
    start: Start | int,
    timeout_s: float | None,
) -> int:
    if isinstance(start, int):
        return start
    kept = await _range_of(link, partition, timeout_s)
    if start is Start.EARLIEST:
        return kept.earliest
    if start is Start.LATEST:
        return kept.latest
    where = Where(link.address, *partition)
    text = "no offset is stored, and the start policy is to stop"
    raise OffsetOutOfRange(text, where, kept.earliest, kept.latest)


def back_in_range(
    policy: Start, partition: TopicPartition, position: int, kept: KeptRange
) -> int:
    """Where to go on from a position outside of what is kept.

    Raises OffsetOutOfRange when the policy is ERROR.
    """
    if policy is Start.ERROR:
        text = f"offset {position} is outside of what is kept"
        text += f", {kept.earliest} to {kept.latest}"
        where = Where(None, *partition, position)
        raise OffsetOutOfRange(text, where, kept.earliest, kept.latest)
    if policy is Start.NEAREST:
        return min(max(position, kept.earliest), kept.latest)
    return kept.earliest if policy is Start.EARLIEST else kept.latest
