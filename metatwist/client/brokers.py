"""All links of a client, one an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IStreamClientEndpoint
from zope.interface import implementer

from metatwist.client.interfaces import IBrokers
from metatwist.client.link import BrokerLink, LinkContext

EndpointFor = Callable[[str], IStreamClientEndpoint]


@implementer(IBrokers)
class Brokers(Service):
    """Makes links, and closes all of them when stopped.

    `endpoint_for` gives the endpoint of an address, and raises ValueError for what is
    none.
    """

    def __init__(self, endpoint_for: EndpointFor, context: LinkContext) -> None:
        self._endpoint_for = endpoint_for
        self._context = context
        self._links: dict[str, BrokerLink] = {}

    @property
    def links(self) -> tuple[BrokerLink, ...]:
        """Those that were ever asked for."""
        return tuple(self._links.values())

    def link(self, address: str) -> BrokerLink:
        """See `IBrokers`; raises ValueError for what is no address."""
        found = self._links.get(address)
        if found is None:
            found = BrokerLink(address, self._endpoint_for(address), self._context)
            self._links[address] = found
        return found

    def stopService(self) -> Deferred[Any]:
        """Close all connections; fires within a few seconds."""
        super().stopService()
        return DeferredList([link.close() for link in self._links.values()])
