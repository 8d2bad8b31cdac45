"""The control socket: admin verbs as JSON lines on a unix socket.

One line asks, one line answers (`metatwist.broker.admin_request`). The verbs of a
connection run one after the other, so answers come in request order. A wrong request
is answered and the connection lives on; only a line above 1 MiB ends it, since the
rest of that line could be anything.

This stands in for the JMX operations of spec configuration-and-operations 10, with
the file system as its guard: the socket has mode 0600 before it can be reached.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IListeningPort,
    IPushProducer,
    IReactorTime,
    IReactorUNIX,
    ITransport,
)
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.broker.admin_request import Parameter, Verb, answer_to, refusal
from metatwist.errors import StorageError
from metatwist.local_socket import MAX_LINE_BYTES, ShortAddress

__all__ = ["ControlConnection", "ControlService", "Parameter", "Verb"]

_log = Logger()


@implementer(IHalfCloseableProtocol, IPushProducer)
class ControlConnection(LineOnlyReceiver):
    """One client of the control socket.

    While a verb runs, or the client leaves its answers unread, nothing more is read
    from it; so at most one read's worth of requests waits. A verb that has begun
    goes on when the client leaves, and its answer is dropped.
    """

    delimiter = b"\n"
    MAX_LENGTH = MAX_LINE_BYTES

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._verbs = verbs
        self._waiting: deque[bytes] = deque()
        self._answering = False
        self._open = True
        self._last_words: bytes | None = None
        self._congestion: Deferred[None] | None = None
        self.closed: Deferred[None] = Deferred()

    @property
    def _wire(self) -> Any:
        return cast(ITransport, self.transport)

    def connectionMade(self) -> None:
        """Let the transport say when the client does not read its answers."""
        self._wire.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        """Take requests; stop reading while one of them is still running."""
        if self._last_words is None:
            super().dataReceived(data)
        if self._answering:
            self._wire.pauseProducing()

    def lineReceived(self, line: bytes) -> None:
        """Queue a request."""
        self._waiting.append(line)
        self._start_answering()

    def lineLengthExceeded(self, line: bytes) -> None:
        """Answer what came before, say why, close."""
        self._last_words = refusal(f"a request line is limited to {MAX_LINE_BYTES} B")
        self._start_answering()

    def readConnectionLost(self) -> None:
        """Answer what was asked before the client closed its side, then close."""
        self._last_words = self._last_words or b""
        self._start_answering()

    def writeConnectionLost(self) -> None:
        """Close: without a way to answer there is nothing left to do here."""
        self.finish()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Forget the requests that have not begun."""
        self._open = False
        self._waiting.clear()
        self.resumeProducing()
        self.closed.callback(None)

    def finish(self) -> None:
        """Close once what was answered has left."""
        if self._open:
            self._open = False
            self._waiting.clear()
            self._wire.unregisterProducer()
            self._wire.loseConnection()
            self.resumeProducing()

    def abort(self) -> None:
        """Close now, whatever the client has not read."""
        self._wire.abortConnection()

    def pauseProducing(self) -> None:
        """The client does not read: hold the next verb back."""
        self._congestion = self._congestion or Deferred()

    def resumeProducing(self) -> None:
        """The client reads again."""
        congestion, self._congestion = self._congestion, None
        if congestion is not None:
            congestion.callback(None)

    def stopProducing(self) -> None:
        """The transport is going down; `connectionLost` follows."""

    def _start_answering(self) -> None:
        if not self._answering:
            self._answering = True
            Deferred.fromCoroutine(self._answer_waiting()).addErrback(self._broken)

    async def _answer_waiting(self) -> None:
        while self._waiting:
            answer = await answer_to(self._waiting.popleft(), self._verbs)
            if self._open:
                self._wire.write(answer)
            if self._congestion is not None:
                await self._congestion
        self._answering = False
        if not self._open:
            return
        if self._last_words is not None:
            self._wire.write(self._last_words)
            self.finish()
        else:
            self._wire.resumeProducing()

    def _broken(self, failure: Failure) -> None:
        _log.failure("control connection failed", failure=failure)
        self.abort()


class _ControlFactory(Factory):
    """Builds connections and knows the live ones, for the stop."""

    noisy = False

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._verbs = verbs
        self.live: set[ControlConnection] = set()

    def buildProtocol(self, addr: object) -> ControlConnection:
        """Build one connection and forget it when it closes."""
        connection = ControlConnection(self._verbs)
        connection.factory = self
        self.live.add(connection)
        connection.closed.addCallback(lambda _: self.live.discard(connection))
        return connection


class ControlService(Service):
    """Listens on the unix socket `socket_path` and serves `verbs` there.

    Start it only under the lock of the data directory: a socket file found then is
    what a crash left, and is replaced. `startService` raises `StorageError` when the
    socket cannot be made. `stopService` removes it and waits, for `stop_grace_s` at
    most, until given answers have left; verbs still running go on unanswered.
    """

    stop_grace_s = 2.0

    def __init__(
        self, reactor: IReactorUNIX, socket_path: Path, verbs: Mapping[str, Verb]
    ) -> None:
        self._reactor = reactor
        self._socket_path = socket_path
        self._factory = _ControlFactory(verbs)
        self._address: ShortAddress | None = None
        self._port: IListeningPort | None = None

    def startService(self) -> None:
        """Replace a stale socket and listen."""
        try:
            _remove_stale(self._socket_path)
            self._address = ShortAddress(self._socket_path)
            self._port = self._listen(self._address.text)
        except (OSError, CannotListenError) as error:
            self._release_address()
            cause = getattr(error, "socketError", error)
            raise StorageError(
                f"cannot make the control socket {self._socket_path}: {cause}"
            ) from error
        super().startService()

    def stopService(self) -> Deferred[None]:
        """Stop listening, remove the socket, let given answers leave."""
        super().stopService()
        port, self._port = self._port, None
        if port is None:
            return succeed(None)
        closing = maybeDeferred(port.stopListening)
        # Twisted unlinks the file first; somebody may have done that by hand.
        closing.addErrback(_accept_missing_file)
        closing.addBoth(self._release_address)
        return self._all_closed(closing)

    def _listen(self, address: str) -> IListeningPort:
        # Not 0o177: directories that other threads make meanwhile stay usable. The
        # mode argument takes the rest, and nobody can connect before listen(2).
        before = os.umask(0o077)
        try:
            return self._reactor.listenUNIX(address, self._factory, mode=0o600)
        finally:
            os.umask(before)

    def _all_closed(self, port_closed: Deferred[Any]) -> Deferred[None]:
        connections = list(self._factory.live)
        for connection in connections:
            connection.finish()
        grace = IReactorTime(self._reactor).callLater(
            self.stop_grace_s, _abort_all, connections
        )
        waits = [port_closed, *(connection.closed for connection in connections)]
        done: Deferred[Any] = DeferredList(waits, fireOnOneErrback=False)

        def disarm(_: object) -> None:
            if grace.active():
                grace.cancel()

        return done.addCallback(disarm)

    def _release_address(self, result: object = None) -> object:
        address, self._address = self._address, None
        if address is not None:
            address.close()
        return result


def _accept_missing_file(failure: Failure) -> None:
    failure.trap(FileNotFoundError)


def _abort_all(connections: list[ControlConnection]) -> None:
    for connection in connections:
        connection.abort()


def _remove_stale(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise StorageError(
            f"{path} is no socket, but the control socket belongs there; move it away"
        )
    os.unlink(path)
