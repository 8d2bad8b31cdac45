"""What a client stands on: connections to brokers, and who knows where these are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from twisted.application.service import IService
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IStreamClientEndpoint

from metatwist.client.bounded import at_most
from metatwist.client.brokers import Brokers
from metatwist.client.discovery.address_endpoint import AddressEndpoint
from metatwist.client.discovery.coordinated import CoordinatedDiscovery
from metatwist.client.discovery.direct import DirectDiscovery
from metatwist.client.interfaces import IDiscovery
from metatwist.client.link import LinkContext
from metatwist.client.settings import ClientSettings
from metatwist.coordination.ensemble import EnsembleCoordinator, EnsembleSettings
from metatwist.coordination.interface import ICoordinator
from metatwist.coordination.layout import Layout

_END_WITHIN_S = 10.0


@frozen
class Ground:
    """The parts below producers and consumers.

    Attributes:
        reactor: its clock too.
        coordinator: None for a client that knows addresses alone.
        services: what is started with the client, in order, and stopped in reverse.
    """

    reactor: Any
    brokers: Brokers
    discovery: IDiscovery
    coordinator: ICoordinator | None
    layout: Layout
    services: tuple[IService, ...]

    def start(self) -> None:
        """Begin to connect, in the background."""
        for service in self.services:
            service.startService()

    async def stop(self) -> None:
        """End all connections; each part gets 10 s for it."""
        for service in reversed(self.services):
            stopping: Deferred[Any] = maybeDeferred(service.stopService)
            await at_most(self.reactor, _END_WITHIN_S, stopping, f"stopping {service}")


def on_zookeeper(reactor: Any, connect: str, settings: ClientSettings) -> Ground:
    """With a session of its own; raises ValueError for a bad connect string."""
    ensemble = EnsembleSettings(
        connect, settings.session_timeout_s, credentials=settings.credentials
    )
    coordinator = EnsembleCoordinator(reactor, ensemble)
    return _coordinated(reactor, coordinator, settings, (coordinator,))


def on_coordinator(
    reactor: Any, coordinator: ICoordinator, settings: ClientSettings
) -> Ground:
    """With a coordinator of the user's, who starts and stops it."""
    return _coordinated(reactor, coordinator, settings, ())


def on_addresses(
    reactor: Any, addresses: Sequence[str], settings: ClientSettings
) -> Ground:
    """Without a coordinator; raises ValueError for what is no address."""
    brokers = _brokers(reactor, settings)
    discovery = DirectDiscovery(reactor, brokers, addresses)
    services = (brokers, discovery)
    layout = Layout(settings.root)
    return Ground(reactor, brokers, discovery, None, layout, services)


def _coordinated(
    reactor: Any,
    coordinator: ICoordinator,
    settings: ClientSettings,
    before: tuple[IService, ...],
) -> Ground:
    brokers, layout = _brokers(reactor, settings), Layout(settings.root)
    discovery = CoordinatedDiscovery(reactor, coordinator, layout)
    services = (*before, brokers, discovery)
    return Ground(reactor, brokers, discovery, coordinator, layout, services)


def _brokers(reactor: Any, settings: ClientSettings) -> Brokers:
    timeout_s = settings.connection.connect_timeout_s

    def usual(address: str) -> IStreamClientEndpoint:
        return AddressEndpoint(reactor, address, timeout_s, settings.tls)

    endpoint_for: Callable[[str], Any] = settings.endpoint_for or usual
    return Brokers(endpoint_for, LinkContext(reactor, settings.connection))
