"""Which brokers a tool talks to, and how patient it is."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from metatwist.client.client import MetaClient
from metatwist.client.discovery.address_endpoint import AddressEndpoint
from metatwist.client.settings import ClientSettings, ConnectionSettings
from metatwist.coordination.ensemble import EnsembleCoordinator, EnsembleSettings
from metatwist.coordination.layout import Layout


@frozen
class Target:
    """A ZooKeeper ensemble, or else addresses of brokers.

    Attributes:
        zookeeper: a connect string, None for none.
        root: of the znodes.
        brokers: addresses; read where there is no `zookeeper`.
        timeout_s: for connecting, and for each answer.
        quiet: no notes on stderr, no progress bar.
        progress: whether progress may be shown.
    """

    zookeeper: str | None = None
    root: str = "/meta"
    brokers: tuple[str, ...] = ()
    timeout_s: float = 10.0
    quiet: bool = False
    verbose: bool = False
    progress: bool = True

    @property
    def shows_progress(self) -> bool:
        """Whether a bar is welcome, on a terminal."""
        return self.progress and not self.quiet

    def check(self, reactor: Any) -> None:
        """Raise ValueError for what is no address, connect string or root."""
        Layout(self.root)
        if self.zookeeper is not None:
            EnsembleSettings(self.zookeeper)
        for address in self.brokers:
            AddressEndpoint(reactor, address, self.timeout_s)

    def coordinator(self, reactor: Any) -> EnsembleCoordinator | None:
        """A session with the ensemble that was not started; None for addresses alone.
        Raises as `check`."""
        if self.zookeeper is None:
            return None
        return EnsembleCoordinator(reactor, EnsembleSettings(self.zookeeper))

    def client(
        self, reactor: Any, coordinator: EnsembleCoordinator | None
    ) -> MetaClient:
        """A client that was not started; raises as `check`."""
        if coordinator is not None:
            return MetaClient(reactor, coordinator=coordinator, settings=self.settings)
        return MetaClient(reactor, brokers=self.brokers, settings=self.settings)

    @property
    def settings(self) -> ClientSettings:
        """With this patience."""
        connection = evolve(
            ConnectionSettings(),
            connect_timeout_s=self.timeout_s,
            request_timeout_s=self.timeout_s,
        )
        return ClientSettings(root=self.root, connection=connection)
