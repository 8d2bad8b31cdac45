"""One client connection: bytes in, answers out in request order, pressure both ways.

`version` and `stats` are answered at once, ahead of what waits for the disk: heartbeats
must not fail because it is slow (spec wire-protocol 4, 7.1).
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.broker.dispatch import Dispatch
from metatwist.broker.pressure import DiskPressure
from metatwist.broker.replies import ReplyQueue
from metatwist.broker.settings import BrokerSettings
from metatwist.broker.storage.files import FileOps
from metatwist.broker.transport import BrokerTransport
from metatwist.wire.commands import PutCommand, QuitCommand
from metatwist.wire.reader import MessageReader

MOST_UNANSWERED = 1000


@implementer(IHalfCloseableProtocol, IPushProducer)
class BrokerProtocol(TwistedProtocol):
    """Reads requests and writes answers; see the module."""

    _log = Logger()
    factory: BrokerFactory
    transport: Any

    def __init__(self, factory: BrokerFactory) -> None:
        settings = factory.dispatch.settings
        self._dispatch = factory.dispatch
        self._take = factory.dispatch.puts.take
        self._pressure = factory.pressure
        self._reader = MessageReader(
            settings.max_header_bytes, settings.max_message_bytes
        )
        self.replies = ReplyQueue(self.write, factory.dispatch.puts.failed)
        self.active = True
        self.idle_ticks = 0
        self._paused_for: set[str] = set()
        self._finishing = False
        self.ended: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        """Begin; the transport pauses this when the peer does not read its answers."""
        self.transport.setTcpNoDelay(True)
        self.transport.setTcpKeepAlive(True)
        self.transport.registerProducer(self, True)
        self.factory.opened(self)

    # -- in -----------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        """Take the requests in `data`."""
        self.active = True
        if self._finishing:
            return
        pressure = self._pressure
        pressure.turn_bytes += len(data)
        commands = self._reader.feed(data)
        at, count = 0, len(commands)
        while at < count:
            command = commands[at]
            if type(command) is PutCommand:
                at += self._take(commands, at, self.replies)
                continue
            if type(command) is QuitCommand:
                self.finish()
            else:
                self._dispatch.answer(command, self)
            at += 1
        if self._reader.violation is not None:
            self._dispatch.numbers.protocol_errors += 1
            self._log.debug(
                "closing {peer}: {violation}",
                peer=self.transport.getPeer(),
                violation=self._reader.violation,
            )
            self.finish()
        elif self.replies.entries:
            if len(self.replies.entries) > MOST_UNANSWERED:
                self._pause("answers")
                self.replies.do(lambda: self._resume("answers"))
            over = pressure.turn_bytes > pressure.room_bytes
            if over and pressure.too_much_waits(self):
                self._pause("disk")

    def disk_caught_up(self) -> None:
        """Read again, as far as the disk is concerned."""
        self._resume("disk")

    def pauseProducing(self) -> None:
        """The peer does not read: stop reading from it."""
        self._pause("peer")

    def resumeProducing(self) -> None:
        """The peer has read its answers."""
        self._resume("peer")

    def stopProducing(self) -> None:
        """The transport is closing."""

    def _pause(self, reason: str) -> None:
        if not self._paused_for and not self._finishing:
            self.transport.pauseProducing()
        self._paused_for.add(reason)

    def _resume(self, reason: str) -> None:
        self._paused_for.discard(reason)
        if not self._paused_for and not self._finishing:
            self.transport.resumeProducing()

    # -- out ----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self.active = True
        self.transport.write(data)

    def send_range(self, header: bytes, file: Any, position: int, size: int) -> None:
        """Send a header and a range of an open file, which is then released.

        By sendfile over plain TCP; over TLS and others it is read and written.
        """
        self.active = True
        transport = self.transport
        if isinstance(transport, BrokerTransport):
            transport.send_file(header, file, position, size)
            return
        try:
            transport.write(header + self.factory.files.read(file.fd, position, size))
        finally:
            file.release()

    # -- the end ------------------------------------------------------------------

    def finish(self) -> Deferred[None]:
        """Read no more; close when all that was accepted is answered (spec 7.2).

        Fires when the connection has ended.
        """
        if not self._finishing:
            self._finishing = True
            self.transport.pauseProducing()
            self.replies.do(self._close)
        return self.ended

    def _close(self) -> None:
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def readConnectionLost(self) -> None:
        """The peer has finished sending; it may still read."""
        self.finish()

    def writeConnectionLost(self) -> None:
        """The peer can't be answered any more."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Gone; puts that were accepted are stored all the same."""
        self._finishing = True
        self._reader.close()
        self.factory.closed(self)
        self.ended.callback(None)


class BrokerFactory(Factory):
    """Builds connections and knows the open ones."""

    noisy = False

    def __init__(
        self, dispatch: Dispatch, pressure: DiskPressure, files: FileOps
    ) -> None:
        self.dispatch = dispatch
        self.pressure = pressure
        self.files = files
        self.connections: set[BrokerProtocol] = set()

    @property
    def settings(self) -> BrokerSettings:
        """Those in force."""
        return self.dispatch.settings

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol for a new connection."""
        protocol = BrokerProtocol(self)
        protocol.factory = self
        return protocol

    def opened(self, connection: BrokerProtocol) -> None:
        """A connection has begun."""
        self.connections.add(connection)
        numbers = self.dispatch.numbers
        numbers.connections += 1
        numbers.connections_total += 1

    def closed(self, connection: BrokerProtocol) -> None:
        """A connection has ended."""
        if connection in self.connections:
            self.connections.discard(connection)
            self.pressure.forget(connection)
            self.dispatch.numbers.connections -= 1
