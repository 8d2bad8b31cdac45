"""What the user has acknowledged: consumer-side transactions (spec client 12.2).

With manual acks a message that the listener was handed is provisionally consumed: the
delivery goes on, and the progress stays where the last `ack` has put it. After a
restart or a rebalance, everything behind that comes again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import maybeDeferred

from metatwist.client.delivery.duplicates import Window
from metatwist.client.delivery.outcomes import deferred_from
from metatwist.client.errors import AckRefused, NotOwner, Where
from metatwist.client.message import ReceivedMessage
from metatwist.client.progress import Progress

_MOST_UNACKED_KNOWN = 65_536
"""Unacknowledged messages whose offsets are kept, to be counted and remembered."""


class AckLedger:
    """Of one partition while it is held.

    Attributes:
        first: the first message that is not acknowledged, None when there is none, or
            while it is not known (after an ack among messages that were handed over).
        asked_by: the message whose delivery asked for a rollback that is still to be
            made, None for none.
        rollbacks: made since the last ack that meant anything.
        at_edge: all that was handed over is acknowledged.
    """

    def __init__(
        self,
        progress: Progress,
        window: Window,
        rollback_wanted: Callable[[], object],
    ) -> None:
        self.first: ReceivedMessage | None = None
        self.asked_by: ReceivedMessage | None = None
        self.rollbacks = 0
        self.at_edge = True
        self._progress = progress
        self._window = window
        self._rollback_wanted = rollback_wanted
        self._unacked: deque[ReceivedMessage] = deque(maxlen=_MOST_UNACKED_KNOWN)
        self._start: int | None = None
        self._round = 0
        self._is_closed = False

    @property
    def offset(self) -> int | None:
        """Where everything before is acknowledged, in bytes; None before the first
        message if no offset was known."""
        record = self._progress.record
        return self._start if record is None else record.offset

    # -- from the delivery ----------------------------------------------------------

    def handed_over(self, message: ReceivedMessage) -> Acks:
        """A message is about to be given to the listener: the acks for this delivery
        of it. It may be the same one again."""
        if self._start is None:
            self._start = message.offset
        if self.at_edge:
            self.first, self.at_edge = message, False
        if not self._unacked or self._unacked[-1].offset < message.offset:
            self._unacked.append(message._replace(payload=b""))
        return Acks(self, message, self._round)

    def passed(self, message: ReceivedMessage) -> None:
        """A message needs no ack of its own: filtered, known, or rejected."""
        first = self.first
        if self.at_edge or (first is not None and first.offset == message.offset):
            self._acknowledge(message)
        elif self._unacked[-1].offset < message.offset:
            self._unacked.append(message._replace(payload=b""))

    def reach(self, offset: int) -> None:
        """There are no messages up to an offset."""
        record = self._progress.record
        if self.at_edge and record is not None and record.offset < offset:
            self._progress.advance(offset, record.message_id, 0)

    def covers(self, message: ReceivedMessage) -> bool:
        """Whether a message is acknowledged."""
        record = self._progress.record
        return record is not None and message.next_offset <= record.offset

    def start_over(self) -> None:
        """What was handed over and is not acknowledged comes again, or is not wanted:
        its acks mean nothing any more."""
        self._round += 1
        self._unacked.clear()
        self.first = self.asked_by = None
        self.at_edge = True

    def close(self) -> None:
        """The partition is given up: its acks raise NotOwner."""
        self._is_closed = True

    # -- from Acks ------------------------------------------------------------------

    def ack(self, message: ReceivedMessage, its_round: int) -> bool:
        """See Acks.ack."""
        self._check_held(message)
        if its_round != self._round:
            return False
        if not self.covers(message):
            self._acknowledge(message)
        return True

    def rollback(self, message: ReceivedMessage, its_round: int) -> bool:
        """See Acks.rollback."""
        self._check_held(message)
        if its_round != self._round or self.covers(message):
            return False
        if self.asked_by is None:
            self.asked_by = message
            self._rollback_wanted()
        return True

    def _check_held(self, message: ReceivedMessage) -> None:
        if self._is_closed:
            where = Where(None, message.topic, message.partition, message.offset)
            raise NotOwner("the partition was given up", where)

    def _acknowledge(self, message: ReceivedMessage) -> None:
        """Everything up to and including the message is done."""
        unacked, done = self._unacked, []
        while unacked and unacked[0].offset <= message.offset:
            done.append(unacked.popleft())
        self._progress.advance(
            message.next_offset, message.message_id, max(1, len(done))
        )
        self._window.record(done or [message])
        self.rollbacks = 0
        self.first, self.at_edge = None, not unacked


class Acks:
    """For one delivery of one message; used during the call of the listener or at any
    time after it, on the reactor's thread, until the partition is given up.

    Only one of `ack` and `rollback` may be asked of it: the other one raises
    AckRefused then. Both raise NotOwner when the partition was given up, and mean
    nothing, answering False, when the delivery was undone by a rollback or a seek.
    """

    __slots__ = ("_asked", "_ledger", "_message", "_round")

    def __init__(
        self, ledger: AckLedger, message: ReceivedMessage, its_round: int
    ) -> None:
        self._ledger = ledger
        self._message = message
        self._round = its_round
        self._asked: str | None = None

    def ack(self) -> bool:
        """This message is done and all before it; whether that counts. It is also true
        for a message that a later ack has covered already."""
        self._ask("ack")
        return self._ledger.ack(self._message, self._round)

    def rollback(self) -> bool:
        """Go back to the last ack, once the listener that runs now has ended; whether
        there is anything to go back for.

        It counts as a failure: there is a pause before the messages come again, and
        after `most_deliveries` rollbacks without an ack in between the first message
        that is not acknowledged is rejected.
        """
        self._ask("rollback")
        return self._ledger.rollback(self._message, self._round)

    def _ask(self, what: str) -> None:
        if self._asked not in (None, what):
            message = self._message
            where = Where(None, message.topic, message.partition, message.offset)
            raise AckRefused(f"{what} after {self._asked}", where)
        self._asked = what


class _RolledBack(Exception):
    """The listener rolled its only message back, or did not acknowledge it."""


class _LoneAcks:
    """Acks of a message that is delivered by itself."""

    def __init__(self) -> None:
        self.asked: str | None = None

    def ack(self) -> bool:
        """It is done."""
        return self._ask("ack")

    def rollback(self) -> bool:
        """It is not done."""
        return self._ask("rollback")

    def _ask(self, what: str) -> bool:
        if self.asked not in (None, what):
            raise AckRefused(f"{what} after {self.asked}")
        self.asked = what
        return True


def without_acks(
    listener: Callable[..., object],
) -> Callable[[ReceivedMessage], object]:
    """A listener with acks as one without, for messages that are delivered by
    themselves (recovery): done is what it has acknowledged when it ends (W21)."""

    def call(message: ReceivedMessage) -> object:
        acks = _LoneAcks()

        def called() -> object:
            answer = listener(message, acks)
            return deferred_from(answer) or answer

        def ended(_: object) -> None:
            if acks.asked != "ack":
                raise _RolledBack("not acknowledged")

        return maybeDeferred(called).addCallback(ended)

    return call
