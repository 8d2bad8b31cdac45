"""Connecting to a broker's address, and telling of each try that failed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.endpoints import clientFromString, wrapClientTLS
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.error import TimeoutError as ConnectTimedOut
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
)
from twisted.internet.ssl import optionsForClientTLS
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.discovery.addresses import EndpointText, read_address
from metatwist.client.discovery.connecting import ConnectingHost
from metatwist.client.errors import Attempt, NotConnected, Where
from metatwist.coordination.broker_url import BrokerUrl

TlsFor = Callable[[str], Any]
"""From a host's name to the options of a TLS connection to it."""

_MISSING = re.compile(
    r"missing \d+ required (?:positional|keyword-only) arguments?: (.+)"
)


def tls_options(trust: Any = None, certificate: Any = None) -> TlsFor:
    """TLS that checks the broker's certificate against its host name.

    `trust` are the CAs (what `optionsForClientTLS` takes as trustRoot), the system's if
    None; `certificate` is a PrivateCertificate to show to the broker.
    """

    def options(host: str) -> Any:
        more = {} if trust is None else {"trustRoot": trust}
        return optionsForClientTLS(host, clientCertificate=certificate, **more)

    return options


@implementer(IStreamClientEndpoint)
class AddressEndpoint:
    """An address of a broker as an endpoint; `str` of it is the key of the connection.

    `timeout_s` bounds the look-up of a name and each try of one of its addresses. `tls`
    makes TLS of connections to `host:port` and `meta://` addresses; an endpoint string
    says itself what it is. Raises ValueError for what is no address.
    """

    def __init__(
        self, reactor: Any, address: str, timeout_s: float, tls: TlsFor | None = None
    ) -> None:
        self._reactor = reactor
        self._address = read_address(address)
        self._timeout_s = timeout_s
        self._endpoint = self._endpoint_of(tls)

    def __str__(self) -> str:
        return str(self._address)

    def _endpoint_of(self, tls: TlsFor | None) -> Any:
        if isinstance(self._address, BrokerUrl):
            plain = _Host(self._reactor, self._address, self._timeout_s)
            if tls is None:
                return plain
            return wrapClientTLS(tls(self._address.host), plain)
        return _Written(self._reactor, self._address, self._timeout_s)

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect to one of the addresses, whichever is first.

        Fails with NotConnected, whose `attempts` name each address that was tried with
        its reason. Cancelling ends all tries. With TLS it fires before the handshake,
        whose failure is a lost connection.
        """
        connected: Deferred[IProtocol] = self._endpoint.connect(protocolFactory)
        return connected


@implementer(IStreamClientEndpoint)
class _Host:
    """Host and port."""

    def __init__(self, reactor: Any, url: BrokerUrl, timeout_s: float) -> None:
        self._reactor = reactor
        self._url = url
        self._timeout_s = timeout_s

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See AddressEndpoint."""
        connecting = ConnectingHost(
            self._reactor, self._url, protocolFactory, self._timeout_s
        )
        return connecting.start()


@implementer(IStreamClientEndpoint)
class _Written:
    """A client endpoint string; raises ValueError if it cannot be read."""

    def __init__(self, reactor: Any, address: EndpointText, timeout_s: float) -> None:
        self._reactor = reactor
        self._text = address.text
        self._timeout_s = timeout_s
        try:
            self._endpoint = clientFromString(reactor, self._text)
        except Exception as error:  # parsers are plugins, and read certificates
            raise ValueError(
                f"{self._text!r} is no client endpoint: {_unfit(error)}"
            ) from error

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See AddressEndpoint."""
        try:
            connecting: Deferred[IProtocol] = self._endpoint.connect(protocolFactory)
        except OSError as error:
            return fail(self._error(str(error)))
        expired = False

        def expire() -> None:
            nonlocal expired
            expired = True
            connecting.cancel()

        limit = self._reactor.callLater(self._timeout_s, expire)

        def ended(result: Any) -> Any:
            if limit.active():
                limit.cancel()
            return result

        def failed(failure: Failure) -> Failure:
            if expired or failure.check(ConnectTimedOut):
                return Failure(self._error(f"no answer in {self._timeout_s:g} s"))
            if failure.check(CancelledError, ConnectingCancelledError):
                return failure
            return Failure(self._error(failure.getErrorMessage().rstrip(".")))

        return connecting.addBoth(ended).addErrback(failed)

    def _error(self, reason: str) -> NotConnected:
        attempt = Attempt(self._text, reason)
        return NotConnected("cannot connect", (attempt,), Where(broker=self._text))


def _unfit(error: Exception) -> str:
    """Why a text is no endpoint, without the names of Twisted's own functions."""
    missing = _MISSING.search(str(error))
    if missing is not None:
        return f"{missing[1]} is missing"
    if isinstance(error, ValueError):
        return str(error)
    return f"{type(error).__name__} {error}".rstrip()
