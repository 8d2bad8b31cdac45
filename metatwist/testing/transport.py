"""One end of a TCP connection without sockets.

What one end sends, the other reads later, in one of the `Turns`. Ends of a
connection are told as TCP tells them:

    loseConnection   ConnectionDone here; there too, once what was sent has been read
    abortConnection  ConnectionAborted here, ConnectionLost there; what was sent is gone
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IConsumer,
    IHalfCloseableProtocol,
    IPushProducer,
    ITCPTransport,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.testing.turns import Turns

MOST_UNREAD_BYTES = 1 << 16


@implementer(ITCPTransport, IConsumer, IPushProducer)
class LoopbackTransport:
    """One end of a connection; as a transport of TCP, to its protocol.

    A registered producer is paused while the other end has more than
    MOST_UNREAD_BYTES unread. `bufferSize` is the most that is read at once.
    """

    bufferSize = 1 << 16

    def __init__(self, turns: Turns, host: Any, peer: Any) -> None:
        self.connected = True
        self.disconnecting = False
        self.protocol: Any = None
        self.other: LoopbackTransport = self
        self.gone: Callable[[], object] = lambda: None
        self._turns = turns
        self._host = host
        self._peer = peer
        self._unread = bytearray()
        self._other_finished = False
        self._finished = False
        self._reading = True
        self._look_is_due = False
        self._producer: Any = None
        self._producer_paused = False
        self._no_delay = False
        self._keep_alive = False

    def join(self, protocol: Any, other: LoopbackTransport) -> None:
        """Serve `protocol`, connected to `other`."""
        self.protocol = protocol
        self.other = other

    # -- out ----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """See ITransport."""
        if not self.connected or self._finished or self.disconnecting:
            return
        self.other._arrived(data)
        full = len(self.other._unread) > MOST_UNREAD_BYTES
        if full and self._producer is not None and not self._producer_paused:
            self._producer_paused = True
            self._producer.pauseProducing()

    def writeSequence(self, data: Any) -> None:
        """See ITransport."""
        self.write(b"".join(data))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """See IConsumer; only streaming producers."""
        if not streaming:
            raise ValueError("only streaming producers are served here")
        if self._producer is not None:
            raise RuntimeError("there is a producer already")
        self._producer = producer
        self._producer_paused = False

    def unregisterProducer(self) -> None:
        """See IConsumer."""
        self._producer = None
        if self.disconnecting:
            self._close()

    def _was_read(self) -> None:
        if self._producer_paused and not self.other._unread:
            self._producer_paused = False
            self._producer.resumeProducing()

    # -- in -----------------------------------------------------------------------

    def _arrived(self, data: bytes) -> None:
        if self.connected and data:
            self._unread += data
            self._look_later()

    def _look_later(self) -> None:
        if not self._look_is_due:
            self._look_is_due = True
            self._turns.later(self._look)

    def _look(self) -> None:
        self._look_is_due = False
        if not self.connected or not self._reading or self.disconnecting:
            return
        if self._unread:
            data = bytes(self._unread[: self.bufferSize])
            del self._unread[: self.bufferSize]
            self._look_later()
            self.other._was_read()
            self.protocol.dataReceived(data)
        elif self._other_finished:
            self._other_finished = False
            self._end_of_input()

    def _end_of_input(self) -> None:
        if IHalfCloseableProtocol.providedBy(self.protocol) and not self._finished:
            self.protocol.readConnectionLost()
        else:
            self._lose(ConnectionDone())

    def pauseProducing(self) -> None:
        """See IPushProducer: read nothing for now, not the end either."""
        self._reading = False

    def resumeProducing(self) -> None:
        """See IPushProducer."""
        self._reading = True
        self._look_later()

    def stopProducing(self) -> None:
        """See IProducer."""
        self.loseConnection()

    # -- the end ------------------------------------------------------------------

    def loseConnection(self) -> None:
        """See ITransport; waits for a producer to be unregistered."""
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            if self._producer is None:
                self._close()

    def _close(self) -> None:
        self._turns.later(partial(self._lose, ConnectionDone()))

    def loseWriteConnection(self) -> None:
        """See IHalfCloseableDescriptor: the other end reads to the end of it."""
        if self.connected and not self._finished:
            self._finished = True
            self.other._finish()
            if IHalfCloseableProtocol.providedBy(self.protocol):
                self._turns.later(self.protocol.writeConnectionLost)

    def abortConnection(self) -> None:
        """See ITCPTransport."""
        if self.connected:
            self.disconnecting = True
            self.other._unread.clear()
            self._turns.later(partial(self._lose, ConnectionAborted()))
            self._turns.later(partial(self.other._lose, ConnectionLost()))

    def _finish(self) -> None:
        self._other_finished = True
        self._look_later()

    def _lose(self, reason: Exception) -> None:
        if not self.connected:
            return
        self.connected = False
        self._unread.clear()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
        self.other._finish()
        self.protocol.connectionLost(Failure(reason))
        self.gone()

    # -- what else one asks a transport ---------------------------------------------

    def getHost(self) -> Any:
        """See ITransport."""
        return self._host

    def getPeer(self) -> Any:
        """See ITransport."""
        return self._peer

    def getTcpNoDelay(self) -> bool:
        """See ITCPTransport."""
        return self._no_delay

    def setTcpNoDelay(self, enabled: bool) -> None:
        """See ITCPTransport."""
        self._no_delay = bool(enabled)

    def getTcpKeepAlive(self) -> bool:
        """See ITCPTransport."""
        return self._keep_alive

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """See ITCPTransport."""
        self._keep_alive = bool(enabled)
