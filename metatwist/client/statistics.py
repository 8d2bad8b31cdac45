"""What brokers say of themselves (spec client 19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from metatwist.client.discovery.stats_text import Line, read_stats
from metatwist.client.discovery.waiting import together
from metatwist.client.errors import ClientError, RequestRefused, UnexpectedReply, Where
from metatwist.client.interfaces import IBrokerLink, IBrokers
from metatwist.wire.commands import ResultReply, StatsCommand

SUCCESS = 200
CONFIG = "config"


@frozen
class BrokerStats:
    """The answer of one broker.

    Attributes:
        address: of the broker.
        lines: as (first word, rest), repeated ones too (W31); none for `config`.
        raw: the bytes of the answer: for `config` those of the broker's file.
        error: why there is no answer, None if there is one.
    """

    address: str
    lines: tuple[Line, ...] = ()
    raw: bytes = b""
    error: ClientError | None = None


def ask_each(
    brokers: IBrokers, addresses: Sequence[str], item: str, timeout_s: float
) -> Deferred[dict[str, BrokerStats]]:
    """`stats <item>` of all brokers at once, by address, in the order of `addresses`;
    one that does not answer spoils nothing (W31).

    Never fails, and takes no longer than twice `timeout_s`: for connecting and for the
    answer. Cancelling ends all requests. Raises ValueError for an item that is neither
    empty nor one word.
    """
    check_item(item)

    async def each(address: str) -> BrokerStats:
        link: Any = brokers.link(address)
        owner = object()
        link.hold(owner)
        try:
            return await ask_stats(link, item, timeout_s)
        except ClientError as error:
            return BrokerStats(address, error=error)
        finally:
            link.release(owner)

    async def every() -> dict[str, BrokerStats]:
        answers = await together(map(each, addresses))
        return {one.address: one for one in answers}

    return Deferred.fromCoroutine(every())


def check_item(item: str) -> None:
    """Raises ValueError for what would be more than one word of a request."""
    if item and item.split() != [item]:
        raise ValueError(f"{item!r} is not one word")
    item.encode()


async def ask_stats(held: IBrokerLink, item: str, timeout_s: float) -> BrokerStats:
    """`stats <item>` over a link that the caller holds, "" for the general item. Raises
    NotConnected, ConnectionLost, RequestTimedOut, RequestRefused, UnexpectedReply."""
    link: Any = held
    await link.when_connected(timeout_s)
    reply = await link.request(StatsCommand(item), timeout_s)
    where = Where(broker=link.address)
    if not isinstance(reply, ResultReply):
        raise UnexpectedReply(f"a {type(reply).__name__} answers stats", where)
    if reply.code != SUCCESS:
        text = reply.body.decode("utf-8", "replace")
        raise RequestRefused.of(reply.code, text, where)
    lines = () if item == CONFIG else tuple(read_stats(reply.body))
    return BrokerStats(link.address, lines, reply.body)
