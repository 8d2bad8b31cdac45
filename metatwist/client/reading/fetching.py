"""One fetch, and what its answer means (spec client 11.2)."""

from __future__ import annotations

from typing import NamedTuple

from attrs import frozen
from twisted.internet.defer import Deferred

from metatwist.client.errors import (
    Forbidden,
    NothingThere,
    RequestRefused,
    UnexpectedReply,
    Where,
)
from metatwist.client.interfaces import IBrokerLink
from metatwist.client.message import TopicPartition
from metatwist.client.reading.records import RecordRun, read_records
from metatwist.wire.commands import (
    GetCommand,
    PollCommand,
    ResultReply,
)
from metatwist.wire.reply_reader import BrokerReply, ValueChunks

MOVED = 301
POLL = "poll"
"""The extension of brokers that can wait for data."""


@frozen
class Fetch:
    """What to ask for.

    Attributes:
        offset: where to read, in bytes.
        size_bytes: the most that is sent.
        most_message_bytes: a larger message is not waited for.
        wait_s: how long a broker holds a fetch that finds nothing; 0 for a plain `get`,
            the only one that the original's brokers know.
    """

    partition: TopicPartition
    group: str
    offset: int
    size_bytes: int
    most_message_bytes: int
    timeout_s: float
    wait_s: float = 0


class Found(NamedTuple):
    """Data: its records, and the bytes themselves."""

    run: RecordRun
    value: ValueChunks


class Moved(NamedTuple):
    """Read on at `offset`, says the broker."""

    offset: int


class Nothing(NamedTuple):
    """No data now: NothingThere, or Forbidden while an operator has closed it."""

    refusal: NothingThere | Forbidden


Fetched = Found | Moved | Nothing


def fetch_once(link: IBrokerLink, fetch: Fetch) -> Deferred[Fetched]:
    """Ask once.

    Fails with RequestRefused for other answers (400, 500, 503), UnexpectedReply, and as
    `IBrokerLink.request`. Cancelling forgets the request.
    """
    asked = link.request(_command(fetch), fetch.timeout_s + fetch.wait_s)
    return asked.addCallback(_fetched, fetch, link)


def _command(fetch: Fetch) -> GetCommand | PollCommand:
    topic, name = fetch.partition
    at = (topic, fetch.group, name.partition, fetch.offset, fetch.size_bytes)
    if fetch.wait_s > 0:
        return PollCommand(*at, round(fetch.wait_s * 1000), 0)
    return GetCommand(*at, 0)


def _fetched(reply: BrokerReply, fetch: Fetch, link: IBrokerLink) -> Fetched:
    if isinstance(reply, ValueChunks):
        most = fetch.most_message_bytes
        run = read_records(reply, fetch.partition, fetch.offset, most)
        return Found(run, reply)
    topic, name = fetch.partition
    where = Where(link.address, topic, name, fetch.offset)
    if reply.code == MOVED:
        return Moved(number_in(reply, where))
    refusal = RequestRefused.of(
        reply.code, reply.body.decode("utf-8", "replace"), where
    )
    if isinstance(refusal, NothingThere | Forbidden):
        return Nothing(refusal)
    raise refusal


def number_in(reply: ResultReply, where: Where) -> int:
    """The offset that a result holds; raises UnexpectedReply when it holds none."""
    if reply.body.isdigit() and len(reply.body) <= 19:
        return int(reply.body)
    text = f"an offset was expected, not {reply.code} {reply.body[:100]!r}"
    raise UnexpectedReply(text, where)
