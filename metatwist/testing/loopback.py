"""Connections to a server in memory: an endpoint as any other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionAborted, ConnectionRefusedError
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Protocol
from zope.interface import implementer

from metatwist.testing.transport import LoopbackTransport
from metatwist.testing.turns import Turns

_FIRST_CLIENT_PORT = 49152


@implementer(IStreamClientEndpoint)
class LoopbackEndpoint:
    """Connects clients to a server's factory in memory.

    While `refuses()` is true they get ConnectionRefusedError, as they do when the
    factory builds no protocol.
    """

    _ports = count(_FIRST_CLIENT_PORT)

    def __init__(
        self,
        turns: Turns,
        server: IProtocolFactory,
        address: IPv4Address,
        refuses: Callable[[], bool],
    ) -> None:
        self._turns = turns
        self._server = server
        self._address = address
        self._refuses = refuses

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint; cancelling means that no connection is made."""
        begun: Deferred[None] = Deferred()
        self._turns.later(lambda: begun.callback(None))
        return begun.addCallback(lambda _: self._join(protocolFactory))

    def _join(self, factory: Any) -> Any:
        here = IPv4Address("TCP", "127.0.0.1", next(self._ports))
        server = None if self._refuses() else self._server.buildProtocol(here)
        if server is None:
            raise ConnectionRefusedError()
        factory.doStart()
        client: Protocol | None = factory.buildProtocol(self._address)
        if client is None:
            factory.doStop()
            raise ConnectionAborted("the factory built no protocol")
        near = LoopbackTransport(self._turns, here, self._address)
        far = LoopbackTransport(self._turns, self._address, here)
        near.gone = factory.doStop
        near.join(client, far)
        far.join(server, near)
        server.makeConnection(far)
        client.makeConnection(near)
        return client


@implementer(IStreamClientEndpoint)
class NobodyThere:
    """Leads nowhere."""

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint; fails with ConnectionRefusedError at once."""
        return fail(ConnectionRefusedError())
