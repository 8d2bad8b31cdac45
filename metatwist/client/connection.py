"""One connection to a broker: requests pipelined by opaque, each answered exactly once.

What is sent in a turn of the reactor leaves in one write. `version` is asked when the
broker has been silent for long; a connection whose broker does not answer is given up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.deadlines import Deadlines
from metatwist.client.errors import (
    ClientError,
    ConnectionLost,
    NotConnected,
    RequestTimedOut,
    UnexpectedReply,
    Where,
)
from metatwist.client.firing import taken
from metatwist.client.interfaces import Answer
from metatwist.client.settings import ConnectionSettings
from metatwist.errors import ProtocolViolation
from metatwist.wire.commands import NumberedRequest, VersionCommand
from metatwist.wire.records import CHECKSUM_MASK, crc32
from metatwist.wire.reply_reader import BrokerReply, PutStored, ReplyReader

# Puts carry no checksum of -1, the broker's word for "none": CRC-32 with the top bit
# cleared is never negative.
_MOST_OPAQUE = 2**31 - 1
_READ_BYTES = 256 * 1024

Answered = Callable[[Answer], object]


@frozen
class ConnectionContext:
    """What a connection needs to know: the clock is the reactor; `ended` is called with
    the connection and the reason when it is over."""

    clock: Any
    address: str
    settings: ConnectionSettings
    ended: Callable[[BrokerConnection, str], object]


def _drop(_answer: Answer) -> None:
    """The answer of a request that nobody waits for."""


@implementer(IPushProducer)
class BrokerConnection(Protocol):
    """Sends requests and matches answers; see the module."""

    _log = Logger()
    transport: Any

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context
        self._where = Where(broker=context.address)
        self._pending: dict[int, Answered] = {}
        self._deadlines = Deadlines(context.clock, self._pending, self._expire)
        self._reader = ReplyReader(context.settings.most_reply_bytes)
        self._next_opaque = 0
        self._out: list[bytes] = []
        self._unsent: list[int] = []
        self._flushing: IDelayedCall | None = None
        self._paused = False
        self._heard = True
        self._missed_heartbeats = 0
        self._heartbeat: IDelayedCall | None = None
        self._why: str | None = None
        self.is_open = False

    @property
    def unanswered(self) -> int:
        """Requests in flight."""
        return len(self._pending)

    # -- begin and end -----------------------------------------------------------------

    def connectionMade(self) -> None:
        """Open for requests."""
        self.is_open = True
        for option in ("setTcpNoDelay", "setTcpKeepAlive"):
            if hasattr(self.transport, option):
                getattr(self.transport, option)(True)
        self.transport.bufferSize = _READ_BYTES
        self.transport.registerProducer(self, True)
        self._await_silence()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Fail what is outstanding; what never left is known not to have arrived."""
        self.is_open = False
        why = self._why or reason.getErrorMessage()
        for timer in (self._heartbeat, self._flushing):
            if timer is not None:
                timer.cancel()
        self._heartbeat = self._flushing = None
        self._deadlines.stop()
        unsent, self._unsent = set(self._unsent), []
        self._out.clear()
        self._context.ended(self, why)
        for opaque, answered in taken(self._pending):
            answered(self._lost(opaque in unsent, why))

    def _lost(self, unsent: bool, why: str) -> ClientError:
        if unsent:
            return NotConnected(
                f"connection lost before sending: {why}", (), self._where
            )
        return ConnectionLost(f"connection lost: {why}", self._where)

    def finish(self) -> None:
        """Send what is still to be sent; the transport is to be closed behind it, which
        it does not do under TLS while it has a producer."""
        self._paused = False
        self._send_out()
        self.transport.unregisterProducer()

    def give_up(self, why: str) -> None:
        """Cut the connection; outstanding requests fail with the reason."""
        if self._why is None:
            self._why = why
            self.transport.abortConnection()

    # -- requests ----------------------------------------------------------------------

    def request(
        self, command: NumberedRequest, timeout_s: float
    ) -> Deferred[BrokerReply]:
        """See `IBrokerLink.request`."""
        problem = self._too_many()
        if problem is not None:
            return fail(problem)
        return self._ask(command, timeout_s)

    def _ask(self, command: NumberedRequest, timeout_s: float) -> Deferred[BrokerReply]:
        opaque = self._new_opaque()
        waiting: Deferred[BrokerReply] = Deferred(lambda _: self._forget(opaque))

        def answered(answer: Answer) -> None:
            if isinstance(answer, ClientError):
                waiting.errback(answer)
            elif not isinstance(answer, PutStored):
                waiting.callback(answer)
            else:
                said = f"{type(command).__name__} answered by {answer!r}"
                waiting.errback(UnexpectedReply(said, self._where))

        self._send(command._replace(opaque=opaque).encode(), opaque)
        self._pending[opaque] = answered
        self._deadlines.add(opaque, timeout_s)
        return waiting

    def put(
        self,
        prefix: bytes,
        flag: int,
        payload: bytes,
        answered: Answered,
        timeout_s: float,
    ) -> None:
        """See `IBrokerLink.put`."""
        opaque = self._next_opaque
        pending = self._pending
        if opaque in pending or len(pending) >= self._context.settings.most_unanswered:
            problem = self._too_many()
            if problem is not None:
                answered(problem)
                return
            opaque = self._new_opaque()
        else:
            self._next_opaque = opaque + 1 if opaque < _MOST_OPAQUE else 0
        check = crc32(payload) & CHECKSUM_MASK
        pending[opaque] = answered
        out = self._out
        out.append(prefix + b"%d %d %d %d\r\n" % (len(payload), flag, check, opaque))
        out.append(payload)
        self._unsent.append(opaque)
        self._deadlines.add(opaque, timeout_s)
        if self._flushing is None:
            self._flushing = self._context.clock.callLater(0, self._flush)

    def _too_many(self) -> NotConnected | None:
        most = self._context.settings.most_unanswered
        if len(self._pending) < most:
            return None
        return NotConnected(f"{most} requests are unanswered", (), self._where)

    def _new_opaque(self) -> int:
        opaque = self._next_opaque
        while opaque in self._pending:
            opaque = opaque + 1 if opaque < _MOST_OPAQUE else 0
        self._next_opaque = opaque + 1 if opaque < _MOST_OPAQUE else 0
        return opaque

    def _send(self, data: bytes, opaque: int) -> None:
        self._out.append(data)
        self._unsent.append(opaque)
        if self._flushing is None:
            self._flushing = self._context.clock.callLater(0, self._flush)

    def _flush(self) -> None:
        self._flushing = None
        self._send_out()

    def _send_out(self) -> None:
        self._deadlines.end_turn()
        if self._out and not self._paused:
            data = b"".join(self._out)
            self._out.clear()
            self._unsent.clear()
            self.transport.write(data)

    def _forget(self, opaque: int) -> None:
        if opaque in self._pending:
            self._pending[opaque] = _drop

    def _expire(self, opaque: int, timeout_s: float) -> None:
        answered = self._pending.pop(opaque, None)
        if answered is not None:
            text = f"no answer within {timeout_s:g} s"
            answered(RequestTimedOut(text, self._where))

    # -- answers -----------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        """Give the answers to those who wait; late and unknown ones are dropped."""
        self._heard = True
        try:
            answers = self._reader.feed(data)
        except ProtocolViolation as violation:
            self.give_up(f"the broker broke the protocol: {violation}")
            return
        pop = self._pending.pop
        for answer in answers:
            answered = pop(answer.opaque, None)
            if answered is not None:
                answered(answer)
        if answers:
            self._deadlines.prune()

    # -- heartbeats --------------------------------------------------------------------

    def _await_silence(self) -> None:
        idle_s = self._context.settings.heartbeat_idle_s
        self._heard = False
        self._heartbeat = self._context.clock.callLater(idle_s, self._silent)

    def _silent(self) -> None:
        self._heartbeat = None
        if self._heard:
            self._missed_heartbeats = 0
            self._await_silence()
            return
        # Whatever waits for answers: this is how it is found out that none comes.
        timeout_s = self._context.settings.heartbeat_timeout_s
        asked = self._ask(VersionCommand(), timeout_s)
        asked.addCallbacks(self._alive, self._missed)

    def _alive(self, _answer: BrokerReply) -> None:
        self._missed_heartbeats = 0
        self._await_silence()

    def _missed(self, failure: Failure) -> None:
        failure.trap(ClientError)
        if not self.is_open:
            return
        self._missed_heartbeats += 1
        missed = self._missed_heartbeats
        if missed >= self._context.settings.most_missed_heartbeats:
            self.give_up(f"{missed} heartbeats were not answered")
        else:
            self._silent()

    # -- the peer reads slowly ---------------------------------------------------------

    def pauseProducing(self) -> None:
        """The transport is full: keep what is to be sent."""
        self._paused = True

    def resumeProducing(self) -> None:
        """The transport has room."""
        self._paused = False
        self._send_out()

    def stopProducing(self) -> None:
        """The transport is closing."""
