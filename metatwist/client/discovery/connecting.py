"""One connection to one of a host's addresses: all are tried, and each is reported.

Twisted's HostnameEndpoint does the trying as well, but tells of one failure only, and
waits out its delay after an address that refused at once.
"""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import Any

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.error import TimeoutError as ConnectTimedOut
from twisted.internet.interfaces import (
    IHostResolution,
    IProtocol,
    IProtocolFactory,
    IResolutionReceiver,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.errors import Attempt, NotConnected, Where
from metatwist.coordination.broker_url import BrokerUrl

STAGGER_S = 0.25
Resolved = IPv4Address | IPv6Address


class _State(Enum):
    """LOOKING_UP until the host's addresses are known, TRYING until one connects or all
    have failed, OVER ever after."""

    LOOKING_UP = "looking up"
    TRYING = "trying"
    OVER = "over"


@implementer(IResolutionReceiver)
class ConnectingHost:
    """Tries a host's addresses, the next one when the last has failed or after a
    quarter of a second; the first to connect wins."""

    def __init__(
        self,
        reactor: Any,
        url: BrokerUrl,
        factory: IProtocolFactory,
        timeout_s: float,
    ) -> None:
        self._reactor = reactor
        self._url = url
        self._factory = factory
        self._timeout_s = timeout_s
        self._state = _State.LOOKING_UP
        self._waiting: list[Resolved] = []
        self._trying: dict[Resolved, Deferred[IProtocol]] = {}
        self._attempts: list[Attempt] = []
        self._resolution: Any = None
        self._timer: Any = None
        self._done: Deferred[IProtocol] = Deferred(lambda _: self._end())

    def start(self) -> Deferred[IProtocol]:
        """Begin; once only. Fires and fails as `AddressEndpoint.connect`."""
        host, port = self._url.host, self._url.port
        if isIPAddress(host) or isIPv6Address(host):
            kind = IPv6Address if ":" in host else IPv4Address
            self.addressResolved(kind("TCP", host, port))
            self.resolutionComplete()
            return self._done
        self._timer = self._reactor.callLater(self._timeout_s, self._look_up_expired)
        self._reactor.nameResolver.resolveHostName(self, host, portNumber=port)
        return self._done

    # -- looking up (IResolutionReceiver) ------------------------------------------

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:
        """See IResolutionReceiver."""
        self._resolution = resolutionInProgress

    def addressResolved(self, address: Any) -> None:
        """See IResolutionReceiver."""
        fits = isinstance(address, (IPv4Address, IPv6Address))
        if fits and address not in self._waiting:
            self._waiting.append(address)

    def resolutionComplete(self) -> None:
        """See IResolutionReceiver; one that comes too late is nobody's."""
        if self._state is not _State.LOOKING_UP:
            return
        self._resolution = None
        self._stop_timer()
        self._state = _State.TRYING
        if not self._waiting:
            self._report(self._url.host, "the name has no address")
        self._try_next()

    def _look_up_expired(self) -> None:
        reason = f"its addresses were not found in {self._timeout_s:g} s"
        self._report(self._url.host, reason)
        self._fail()

    # -- trying ---------------------------------------------------------------------

    def _try_next(self) -> None:
        self._stop_timer()
        if self._state is not _State.TRYING:
            return
        if not self._waiting:
            if not self._trying:
                self._fail()
            return
        address = self._waiting.pop(0)
        if self._waiting:
            self._timer = self._reactor.callLater(STAGGER_S, self._try_next)
        is_ipv6 = isinstance(address, IPv6Address)
        endpoint = (TCP6ClientEndpoint if is_ipv6 else TCP4ClientEndpoint)(
            self._reactor, address.host, address.port, self._timeout_s
        )
        trying = self._trying[address] = endpoint.connect(self._factory)
        trying.addCallbacks(
            self._connected,
            self._failed,
            callbackArgs=(address,),
            errbackArgs=(address,),
        )

    def _connected(self, protocol: IProtocol, address: Resolved) -> None:
        self._trying.pop(address, None)
        if self._state is _State.TRYING:
            self._end()
            self._done.callback(protocol)

    def _failed(self, failure: Failure, address: Resolved) -> None:
        self._trying.pop(address, None)
        if self._state is not _State.TRYING:
            return
        self._report(_text_of(address), self._reason(failure))
        self._try_next()

    def _reason(self, failure: Failure) -> str:
        if failure.check(ConnectTimedOut):
            return f"no answer in {self._timeout_s:g} s"
        return failure.getErrorMessage().rstrip(".")

    def _report(self, address: str, reason: str) -> None:
        self._attempts.append(Attempt(address, reason))

    # -- the end --------------------------------------------------------------------

    def _fail(self) -> None:
        where = Where(broker=str(self._url))
        self._end()
        self._done.errback(NotConnected("cannot connect", tuple(self._attempts), where))

    def _end(self) -> None:
        self._state = _State.OVER
        self._stop_timer()
        if self._resolution is not None:
            # Twisted's own resolver cannot: its thread goes on, and is not listened to.
            with contextlib.suppress(NotImplementedError):
                self._resolution.cancel()
        for trying in list(self._trying.values()):
            trying.cancel()
        self._trying.clear()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()


def _text_of(address: Resolved) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
