"""How the contract talks to a broker: bytes to it, whole replies from it.

`Conversation` is the seam: over a socket it is the `Peer` of `tests.conformance`, in
memory a `MemoryPeer`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from twisted.internet import protocol
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from metatwist.testing import FakeBroker

ANSWER_S = 20
_STEP_S = 0.1


class Conversation(Protocol):
    """One connection to a broker."""

    def send(self, data: bytes) -> None:
        """Send as it stands."""

    def reply(self) -> bytes:
        """The bytes of the next reply; EOFError if it never comes."""

    def until_closed(self) -> bytes:
        """All that comes until the broker closes."""

    def is_silent(self) -> bool:
        """True when the connection stays open and nothing is received."""


class Answer(NamedTuple):
    """A `result`, or a `value` (code 0)."""

    code: int
    opaque: int
    body: bytes

    @classmethod
    def of(cls, reply: bytes) -> Answer:
        """One whole reply; ValueError when its length is wrong."""
        header, _, body = reply.partition(b"\r\n")
        word, *numbers = header.split(b" ")
        *code, length, opaque = map(int, numbers)
        if (word, len(code)) not in {(b"result", 1), (b"value", 0)}:
            raise ValueError(f"no reply: {header!r}")
        if length != len(body):
            raise ValueError(f"{len(body)} bytes behind {header!r}")
        return cls(code[0] if code else 0, opaque, body)


class _Ear(protocol.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.lost: Failure | None = None

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        self.lost = reason


class MemoryPeer:
    """A connection to a FakeBroker; time passes on `clock` while it waits.

    It goes by the broker's own endpoint unless another is given.
    """

    def __init__(
        self,
        broker: FakeBroker,
        clock: Clock,
        endpoint: IStreamClientEndpoint | None = None,
    ) -> None:
        self._broker = broker
        self._clock = clock
        self.ear = _Ear()
        factory = protocol.Factory.forProtocol(lambda: self.ear)
        self.connecting = (endpoint or broker.endpoint()).connect(factory)
        broker.pump()

    def send(self, data: bytes) -> None:
        """Send as it stands."""
        assert self.ear.transport is not None, "not connected"
        self.ear.transport.write(data)
        self._broker.pump()

    def reply(self) -> bytes:
        """The bytes of the next reply; EOFError if it never comes."""
        end = self._end_of_reply()
        for _ in range(int(ANSWER_S / _STEP_S)):
            if end is not None or self.ear.lost is not None:
                break
            self._clock.advance(_STEP_S)
            end = self._end_of_reply()
        received = self.ear.received
        if end is None:
            raise EOFError(f"there is only {received!r}")
        self.ear.received = received[end:]
        return received[:end]

    def _end_of_reply(self) -> int | None:
        header, found, body = self.ear.received.partition(b"\r\n")
        length = int(header.split(b" ")[-2]) if found else 0
        return len(header) + 2 + length if found and len(body) >= length else None

    def until_closed(self) -> bytes:
        """All that comes until the broker closes; AssertionError if it does not."""
        self._clock.advance(0)
        assert self.ear.lost is not None, "the connection is open"
        return self.ear.received

    def is_silent(self) -> bool:
        """True when the connection stays open and nothing is received."""
        self._clock.advance(0)
        return self.ear.lost is None and not self.ear.received
