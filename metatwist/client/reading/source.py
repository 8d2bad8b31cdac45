"""Where a partition is read from: its broker's master, else a slave
(spec client 16)."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed

from metatwist.client.errors import ClientError, ClientStopped, NotConnected
from metatwist.client.interfaces import IBrokerLink, IBrokers, IDiscovery


class PartitionSource:
    """The link to read one broker's partitions from, held until `close`.

    It is chosen anew when it is not connected and after a failure; with several slaves
    each failure takes the next one. While discovery does not work, or knows nobody, the
    last one is used on.
    """

    def __init__(
        self, broker_id: int, brokers: IBrokers, discovery: IDiscovery
    ) -> None:
        self._broker_id = broker_id
        self._brokers = brokers
        self._discovery = discovery
        self._link: IBrokerLink | None = None
        self._failures = 0
        self._doubted = False
        self._closed = False

    def link(self, timeout_s: float) -> Deferred[IBrokerLink]:
        """The link, connected.

        Fails with NotConnected, also when nobody serves the broker's partitions, and as
        `IDiscovery.readers`. Cancelling stops the wait.
        """
        link = self._link
        if link is not None and link.connected and not self._doubted:
            return succeed(link)
        return Deferred.fromCoroutine(self._connected(timeout_s))

    def worked(self) -> None:
        """The link answered."""
        self._failures = 0

    def failed(self) -> None:
        """Choose anew next time."""
        self._failures += 1
        self._doubted = True

    def close(self) -> None:
        """Let go of the link. Idempotent."""
        self._closed = True
        link, self._link = self._link, None
        if link is not None:
            link.release(self)

    async def _connected(self, timeout_s: float) -> IBrokerLink:
        address = await self._address()
        if self._closed:
            raise ClientStopped("the partition is not read any more")
        if address is not None:
            self._use(self._brokers.link(address))
        self._doubted = False
        link = self._link
        if link is None:
            text = f"no broker serves the partitions of broker {self._broker_id}"
            raise NotConnected(text)
        if not link.connected:
            await link.when_connected(timeout_s)
        return link

    async def _address(self) -> str | None:
        """None to go on with the last one."""
        try:
            addresses = await self._discovery.readers(self._broker_id)
        except ClientError:
            if self._link is None:
                raise
            return None
        return addresses[self._failures % len(addresses)] if addresses else None

    def _use(self, link: IBrokerLink) -> None:
        """Hold the new one before the old one is let go: they may be the same."""
        before = self._link
        if link is before:
            return
        link.hold(self)
        self._link = link
        if before is not None:
            before.release(self)
