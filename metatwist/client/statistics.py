"""What brokers say of themselves (spec client 19)."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen
from twisted.internet.defer import Deferred, gatherResults
from twisted.python.failure import Failure

from metatwist.client.discovery.stats_text import Line, read_stats
from metatwist.client.errors import ClientError, RequestRefused, Where
from metatwist.client.interfaces import IBrokerLink
from metatwist.wire.commands import Reply, ResultReply, StatsCommand


@frozen
class BrokerStats:
    """`lines` as (first word, rest), repeated ones too (W31); or why there are none."""

    lines: tuple[Line, ...] = ()
    error: ClientError | None = None


def stats_of(
    links: Iterable[IBrokerLink], item: str
) -> Deferred[dict[str, BrokerStats]]:
    """Ask all at once; see `MetaClient.stats`."""
    every = tuple(links)

    def gathered(answers: list[BrokerStats]) -> dict[str, BrokerStats]:
        addresses = (link.address for link in every)
        return dict(zip(addresses, answers, strict=True))

    return gatherResults([_asked(link, item) for link in every]).addCallback(gathered)


def _asked(link: IBrokerLink, item: str) -> Deferred[BrokerStats]:
    def answered(reply: Reply) -> BrokerStats:
        if isinstance(reply, ResultReply) and reply.code != 200:
            text = reply.body.decode("utf-8", "replace")
            error = RequestRefused.of(reply.code, text, Where(link.address))
            return BrokerStats(error=error)
        return BrokerStats(tuple(read_stats(reply.body)))

    def failed(failure: Failure) -> BrokerStats:
        failure.trap(ClientError)
        return BrokerStats(error=failure.value)

    asking: Deferred[Reply] = link.request(StatsCommand(item))
    return asking.addCallback(answered).addErrback(failed)
