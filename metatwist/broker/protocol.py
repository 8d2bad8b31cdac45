"""One client connection: bytes in, answers out in request order, pressure both ways.

`version` and `stats` are answered at once, ahead of what waits for the disk: heartbeats
must not fail because it is slow (spec wire-protocol 4, 7.1). So are polls, an extension
for clients that go by the opaque.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
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
from metatwist.wire.commands import Message, PutCommand, QuitCommand
from metatwist.wire.reader import MessageReader

MOST_UNANSWERED = 1000
SHARE_S = 0.01
SMALL_MESSAGE_BYTES = 256 * 1024


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
        self.replies = ReplyQueue(self.write, factory.dispatch.puts.failed, self._abort)
        self.active = True
        self.idle_ticks = 0
        self._paused_for: set[str] = set()
        self._held: list[Message] = []
        self._unfinished = False
        self._ending = False
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
        reader = self._reader
        commands = reader.feed(data)
        if self._held:
            self._held += commands
        else:
            self._run(commands)
        if reader.buffered_bytes > SMALL_MESSAGE_BYTES or self._unfinished:
            self._note_unfinished(reader.buffered_bytes)

    def _run(self, commands: list[Message]) -> None:
        """Carry out commands, as far as the peer reads its answers, and no longer than
        a connection's share of a turn."""
        at, count, until_s = 0, len(commands), 0.0
        while at < count:
            if self.replies.paused:
                self._held = commands[at:]
                return
            command = commands[at]
            if type(command) is PutCommand:
                at += self._take(commands, at, self.replies)
            else:
                self._answer(command)
                at += 1
            if at < count:
                until_s = until_s or perf_counter() + SHARE_S
                if perf_counter() > until_s:
                    self._held = commands[at:]
                    self._pause("turn")
                    self.factory.call_later(0, self._next_turn)
                    return
        if self._reader.violation is not None and not self._ending:
            self._ending = True
            self._dispatch.numbers.protocol_errors += 1
            self._log.debug(
                "closing {peer}: {violation}",
                peer=self.transport.getPeer(),
                violation=self._reader.violation,
            )
        if self._ending:
            self.finish()
        elif self.replies.entries:
            self._check_pressure()

    def _answer(self, command: Message) -> None:
        if type(command) is QuitCommand:
            self._ending = True
        else:
            self._dispatch.answer(command, self)

    def _next_turn(self) -> None:
        """Others have had theirs."""
        self._run_held()
        if not self._held or self.replies.paused:
            self._resume("turn")

    def _run_held(self) -> None:
        if self._held and not self.replies.paused:
            held, self._held = self._held, []
            self._run(held)

    def _check_pressure(self) -> None:
        pressure = self._pressure
        if len(self.replies.entries) > MOST_UNANSWERED:
            self._pause("answers")
            self.replies.do(lambda: self._resume("answers"))
        over = pressure.turn_bytes > pressure.room_bytes
        if over and pressure.too_much_waits(self):
            self._pause("disk")

    def _note_unfinished(self, size: int) -> None:
        """Tell how much of a large message is here; too many of them take turns."""
        self._unfinished = size > SMALL_MESSAGE_BYTES
        self._pressure.unfinished(self, size if self._unfinished else 0)

    def memory_is_short(self) -> None:
        """Others go first; `memory_is_there` follows."""
        self._pause("memory")

    def memory_is_there(self) -> None:
        """Go on with the message that has begun."""
        self._resume("memory")

    def disk_caught_up(self) -> None:
        """Read again, as far as the disk is concerned."""
        self._resume("disk")

    def pauseProducing(self) -> None:
        """The peer does not read: stop reading from it, and answering."""
        self.replies.paused = True
        self._pause("peer")

    def resumeProducing(self) -> None:
        """The peer has read its answers: go on with what was held back."""
        self.replies.paused = False
        self.replies.send_ready()
        self._dispatch.polls.resumed(self)
        self._run_held()
        if not self.replies.paused:
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

    @property
    def awaits_data(self) -> bool:
        """Whether the peer is silent because a poll of its waits."""
        return self._dispatch.polls.has_waiting(self)

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

        What is held back is not accepted yet. Fires when the connection has ended.
        """
        if not self._finishing:
            self._finishing = True
            self._held.clear()
            self.transport.pauseProducing()
            self._dispatch.polls.finish(self)
            self.replies.do(self._close)
        return self.ended

    def _close(self) -> None:
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def _abort(self) -> None:
        self.transport.abortConnection()

    def readConnectionLost(self) -> None:
        """The peer has finished sending; it may still read."""
        self._ending = True
        if not self._held:
            self.finish()

    def writeConnectionLost(self) -> None:
        """The peer can't be answered any more."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Gone; puts that were accepted are stored all the same."""
        self._finishing = True
        self._held.clear()
        self._reader.close()
        self.factory.closed(self)
        self.ended.callback(None)


class BrokerFactory(Factory):
    """Builds connections and knows the open ones.

    `descriptors`: how many of them the system lets us have beside our files.
    """

    _log = Logger()
    noisy = False

    def __init__(
        self,
        dispatch: Dispatch,
        pressure: DiskPressure,
        files: FileOps,
        call_later: Callable[[float, Callable[[], object]], object],
    ) -> None:
        self.dispatch = dispatch
        self.pressure = pressure
        self.files = files
        self.call_later = call_later
        self.descriptors = sys.maxsize
        self.connections: set[BrokerProtocol] = set()

    @property
    def settings(self) -> BrokerSettings:
        """Those in force."""
        return self.dispatch.settings

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol for a new connection, None to close it at once."""
        limit = min(self.settings.max_connections, self.descriptors)
        if len(self.connections) >= limit:
            self.dispatch.numbers.connections_refused += 1
            self._log.warn(
                "refused {peer}: there are {limit} connections (maxConnections, or"
                " the system's limit of open files)",
                peer=addr,
                limit=limit,
            )
            return None
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
            self.dispatch.polls.forget(connection)
            self.dispatch.numbers.connections -= 1
