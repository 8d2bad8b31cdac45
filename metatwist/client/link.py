"""The link to one broker: a connection while somebody needs it, made anew when lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.application.internet import ClientService
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IProtocolFactory,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.connection import Answered, BrokerConnection, ConnectionContext
from metatwist.client.errors import Attempt, NotConnected, Where
from metatwist.client.firing import after, taken
from metatwist.client.interfaces import IBrokerLink
from metatwist.client.settings import ConnectionSettings
from metatwist.wire.commands import NumberedRequest, StatsCommand
from metatwist.wire.reply_reader import BrokerReply

_CLOSE_WITHIN_S = 2.0


@frozen
class LinkContext:
    """What all links of a client share; the clock is the reactor."""

    clock: Any
    settings: ConnectionSettings
    jitter: Callable[[], float] = random.random


@implementer(IStreamClientEndpoint)
@frozen
class _Watched:
    """An endpoint that reports why it failed, and builds no factory's protocol but
    ours."""

    endpoint: Any
    failed: Callable[[Failure], object]

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        """See IStreamClientEndpoint."""
        connecting: Deferred[Any] = self.endpoint.connect(factory)
        return connecting.addErrback(self._note)

    def _note(self, failure: Failure) -> Failure:
        self.failed(failure)
        return failure


class _Connections(Factory):
    """Builds the connections of one link."""

    noisy = False

    def __init__(self, build: Callable[[], BrokerConnection]) -> None:
        self._build = build

    def buildProtocol(self, addr: IAddress | None) -> BrokerConnection:
        return self._build()


@implementer(IBrokerLink)
class BrokerLink:
    """See `IBrokerLink`. Attempts to connect go on for ever, further and further apart,
    while somebody holds it (spec client W29)."""

    _log = Logger()

    def __init__(self, address: str, endpoint: Any, context: LinkContext) -> None:
        self.address = address
        self.last_failure: Attempt | None = None
        self._attempts: tuple[Attempt, ...] = ()
        self._endpoint = _Watched(endpoint, self._failed)
        self._context = context
        self._where = Where(broker=address)
        self._holders: set[object] = set()
        self._service: ClientService | None = None
        self._closing: Deferred[None] | None = None
        self._connection: BrokerConnection | None = None
        self._built: BrokerConnection | None = None
        self._extensions: frozenset[str] | None = None
        self._waiting: dict[Deferred[None], IDelayedCall] = {}
        self._listeners: dict[object, Callable[[bool], object]] = {}

    @property
    def connected(self) -> bool:
        """See `IBrokerLink`."""
        return self._connection is not None

    # -- life --------------------------------------------------------------------------

    def hold(self, owner: object) -> None:
        """See `IBrokerLink`."""
        self._holders.add(owner)
        if self._service is None and self._closing is None:
            self._open()

    def release(self, owner: object) -> None:
        """See `IBrokerLink`."""
        self._holders.discard(owner)
        if not self._holders:
            self.close()

    def close(self) -> Deferred[None]:
        """Let go of the connection, whoever holds it; fires when it is gone, within
        2 s."""
        self._holders.clear()
        if self._closing is not None:
            return after(self._closing)
        if self._service is None:
            return succeed(None)
        service, self._service = self._service, None
        connection, self._connection = self._connection, None
        cut = self._context.clock.callLater(_CLOSE_WITHIN_S, _cut, connection)
        if connection is not None:
            connection.finish()
        self._closing = service.stopService()

        def closed(result: Any) -> None:
            if cut.active():
                cut.cancel()
            self._closing = None
            if self._holders:
                self._open()

        for waiting, timer in taken(self._waiting):
            timer.cancel()
            waiting.errback(self._absent("the link is closed"))
        if connection is not None:
            self._tell(False)
        return after(self._closing.addBoth(closed))

    def _open(self) -> None:
        settings = self._context.settings

        def pause_s(failures: int) -> float:
            longest = settings.reconnect_pause_s * 2.0 ** min(failures - 1, 30)
            capped = min(longest, settings.most_reconnect_pause_s)
            return float(capped * (0.5 + self._context.jitter() / 2))

        self._service = ClientService(
            self._endpoint,
            _Connections(self._build),
            retryPolicy=pause_s,
            clock=self._context.clock,
            prepareConnection=self._opened,
        )
        self._service.startService()

    def _build(self) -> BrokerConnection:
        context = self._context
        self._built = BrokerConnection(
            ConnectionContext(
                context.clock, self.address, context.settings, self._ended
            )
        )
        return self._built

    def _opened(self, _proxy: object) -> None:
        """ClientService has put a proxy before the connection, which costs time."""
        connection = self._built
        if connection is None or not connection.is_open:
            return
        try:
            self._use(connection)
        except BaseException:
            # ClientService would make another one and forget this.
            connection.give_up("a defect when it was opened")
            self._ended(connection, "a defect when it was opened")
            raise
        if self._connection is not connection and connection.is_open:
            # ClientService was stopped before it knew of this one.
            connection.give_up("closed as soon as it was opened")

    def _use(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._extensions = None
        self.last_failure, self._attempts = None, ()
        for waiting, timer in taken(self._waiting):
            timer.cancel()
            waiting.callback(None)
        self._tell(True)

    def _ended(self, connection: BrokerConnection, why: str) -> None:
        if self._connection is not connection:
            return
        self._connection = None
        self._note(Attempt(self.address, why))
        self._tell(False)

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, NotConnected) and error.attempts:
            why = "; ".join(str(attempt) for attempt in error.attempts)
            self._note(Attempt(self.address, why), error.attempts)
        else:
            self._note(Attempt(self.address, failure.getErrorMessage()))

    def _note(self, attempt: Attempt, every: tuple[Attempt, ...] = ()) -> None:
        if self.last_failure != attempt:
            self._log.warn("no connection to {attempt}", attempt=attempt)
        self.last_failure = attempt
        self._attempts = every or (attempt,)

    def _tell(self, connected: bool) -> None:
        for key in tuple(self._listeners):
            call = self._listeners.get(key)
            if self.connected is not connected:
                return  # one of them has changed that, and all were told
            if call is not None:
                self._tell_one(call, connected)

    def _tell_one(self, call: Callable[[bool], object], connected: bool) -> None:
        try:
            call(connected)
        except Exception:
            self._log.failure("a listener of {address} failed", address=self.address)

    def on_connection(self, call: Callable[[bool], object]) -> Callable[[], None]:
        """See `IBrokerLink`."""
        key = object()
        self._listeners[key] = call

        def stop() -> None:
            self._listeners.pop(key, None)

        return stop

    # -- requests ----------------------------------------------------------------------

    def when_connected(self, timeout_s: float) -> Deferred[None]:
        """See `IBrokerLink`."""
        if self._connection is not None:
            return succeed(None)
        waiting: Deferred[None] = Deferred(self._forget_wait)
        text = f"not connected within {timeout_s:g} s"
        self._waiting[waiting] = self._context.clock.callLater(
            timeout_s, self._end_wait, waiting, text
        )
        return waiting

    def _forget_wait(self, waiting: Deferred[None]) -> None:
        timer = self._waiting.pop(waiting, None)
        if timer is not None:
            timer.cancel()

    def _end_wait(self, waiting: Deferred[None], text: str) -> None:
        del self._waiting[waiting]
        waiting.errback(self._absent(text))

    def _absent(self, text: str = "no connection") -> NotConnected:
        return NotConnected(text, self._attempts, self._where)

    def request(
        self, command: NumberedRequest, timeout_s: float | None = None
    ) -> Deferred[BrokerReply]:
        """See `IBrokerLink`."""
        if self._connection is None:
            return fail(self._absent())
        within_s = self._context.settings.request_timeout_s
        return self._connection.request(
            command, within_s if timeout_s is None else timeout_s
        )

    def put(
        self,
        prefix: bytes,
        flag: int,
        payload: bytes,
        answered: Answered,
        timeout_s: float,
    ) -> None:
        """See `IBrokerLink`."""
        connection = self._connection
        if connection is None:
            answered(self._absent())
        else:
            connection.put(prefix, flag, payload, answered, timeout_s)

    def extensions(self) -> Deferred[frozenset[str]]:
        """See `IBrokerLink`."""
        if self._extensions is not None:
            return succeed(self._extensions)
        connection = self._connection

        def asked(reply: BrokerReply) -> frozenset[str]:
            found = read_extensions(reply.body)
            if connection is self._connection:
                self._extensions = found
            return found

        return self.request(StatsCommand("extensions")).addCallback(asked)


def read_extensions(body: bytes) -> frozenset[str]:
    """What a broker's answer to `stats extensions` names; a broker of the original
    takes it for a topic, and names none."""
    for line in body.decode("utf-8", "replace").splitlines():
        word, _, rest = line.partition(" ")
        if word == "extensions":
            return frozenset(rest.split())
    return frozenset()


def _cut(connection: BrokerConnection | None) -> None:
    if connection is not None:
        connection.give_up("closing took too long")
