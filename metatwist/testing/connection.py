"""A connection to a fake broker, and the faults that all of them share."""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.testing.answers import FakeAnswers
from metatwist.testing.polls import WaitingPolls
from metatwist.wire.commands import (
    GetCommand,
    Message,
    PollCommand,
    QuitCommand,
    Request,
    ResultReply,
    ValueReply,
)
from metatwist.wire.reader import MessageReader

MOST_REMEMBERED = 10_000


@define
class Service:
    """What the connections of a broker share.

    While `frozen` nothing is answered, and without `reads` nothing is read either;
    while `refuses` no connection is made. `requests` are the last ones, as they came.
    """

    answers: FakeAnswers
    polls: WaitingPolls
    frozen: bool = False
    reads: bool = True
    refuses: bool = False
    requests: deque[Request] = field(factory=lambda: deque(maxlen=MOST_REMEMBERED))
    connections: dict[FakeConnection, None] = field(factory=dict)


@implementer(IHalfCloseableProtocol, IPushProducer)
class FakeConnection(Protocol):
    """Answers requests in their order, polls when they are due.

    What has come is held back while the broker is frozen or the peer does not read.
    """

    transport: Any

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reader = MessageReader()
        self._held: deque[Message] = deque()
        self._peer_reads = True
        self._ending = False
        self._closed = False
        self._bytes_left: int | None = None

    def connectionMade(self) -> None:
        """Begin."""
        self._service.connections[self] = None
        self.transport.registerProducer(self, True)
        if not self._service.reads:
            self.transport.pauseProducing()

    def dataReceived(self, data: bytes) -> None:
        """Take the requests in `data`."""
        for command in self._reader.feed(data):
            if not isinstance(command, (ResultReply, ValueReply)):
                self._service.requests.append(command)
            self._held.append(command)
        self.go_on()

    def go_on(self) -> None:
        """Answer what is held back, as far as can be."""
        while self._held and self._may_answer():
            self._answer(self._held.popleft())
        over = self._ending or self._reader.violation is not None
        if over and not self._held and self._may_answer():
            self._finish()

    def _may_answer(self) -> bool:
        return self._peer_reads and not self._service.frozen and not self._closed

    def _answer(self, command: Message) -> None:
        if isinstance(command, QuitCommand):
            self._ending = True
        elif isinstance(command, PollCommand):
            self._service.polls.take(command, self)
        else:
            reply = self._service.answers.to(command)
            if reply is not None:
                self._write(reply.encode())

    def ask(self, command: GetCommand) -> None:
        """Answer a get now, or when the broker has thawed and the peer reads again."""
        if self._may_answer():
            self._answer(command)
        else:
            self._held.append(command)

    def _write(self, data: bytes) -> None:
        if self._closed:
            return
        left = self._bytes_left
        if left is None:
            self.transport.write(data)
            return
        self._bytes_left = max(left - len(data), 0)
        self.transport.write(data[:left])
        if not self._bytes_left:
            self._close()

    # -- pressure -----------------------------------------------------------------

    def pauseProducing(self) -> None:
        """The peer does not read its answers."""
        self._peer_reads = False

    def resumeProducing(self) -> None:
        """It reads again."""
        self._peer_reads = True
        self.go_on()

    def stopProducing(self) -> None:
        """The transport is closing."""

    # -- the end ------------------------------------------------------------------

    def _finish(self) -> None:
        self._service.polls.finish(self)
        self._close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self.transport.unregisterProducer()
            self.transport.loseConnection()

    def drop(self, after_bytes: int | None) -> None:
        """Reset the connection; or close it once so many bytes more have been sent."""
        if after_bytes:
            self._bytes_left = after_bytes
        else:
            self._closed = True
            self.transport.unregisterProducer()
            self.transport.abortConnection()

    def readConnectionLost(self) -> None:
        """The peer has finished sending; it may still read."""
        self._ending = True
        self.go_on()

    def writeConnectionLost(self) -> None:
        """The peer can't be answered any more."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Gone, with what it still wanted."""
        self._closed = True
        self._held.clear()
        self._reader.close()
        self._service.polls.forget(self)
        self._service.connections.pop(self, None)


class FakeBrokerFactory(Factory):
    """Builds connections; none while the broker refuses them."""

    noisy = False

    def __init__(self, service: Service) -> None:
        self._service = service

    def buildProtocol(self, addr: Any) -> FakeConnection | None:
        """A protocol for a new connection, None to close it at once."""
        return None if self._service.refuses else FakeConnection(self._service)
