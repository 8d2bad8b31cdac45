"""Asking brokers for their statistics over the wire (spec client 19)."""

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


@frozen
class BrokerStats:
    """The answer of one broker: `lines`, or why there is none."""

    address: str
    lines: tuple[Line, ...] = ()
    error: ClientError | None = None


def ask_each(
    brokers: IBrokers, addresses: Sequence[str], item: str, timeout_s: float
) -> Deferred[list[BrokerStats]]:
    """`stats <item>` of all brokers at once, in the order of `addresses`; one that does
    not answer spoils nothing (W31). It takes no longer than twice `timeout_s`: for
    connecting and for the answer. Cancelling ends all requests."""

    async def each(address: str) -> BrokerStats:
        link: Any = brokers.link(address)
        owner = object()
        link.hold(owner)
        try:
            lines = await ask_stats(link, item, timeout_s)
        except ClientError as error:
            return BrokerStats(address, error=error)
        finally:
            link.release(owner)
        return BrokerStats(address, tuple(lines))

    return Deferred.fromCoroutine(together(map(each, addresses)))


async def ask_stats(held: IBrokerLink, item: str, timeout_s: float) -> list[Line]:
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
    return read_stats(reply.body)
