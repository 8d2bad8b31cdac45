"""One message on its way to a broker.

    start -> waits for room -> chooses a lane -> put -> answered -> ended
                                 ^  |                |
                 topic changed   |  v                |
                               waits <-- a pause ----+  refused, may be put again

The way without trouble allocates one object a message, whose bound method is what the
connection calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from twisted.internet.interfaces import IDelayedCall

from metatwist.client.errors import BufferFull, ClientError, ClientStopped, Where
from metatwist.client.interfaces import Answer
from metatwist.client.message import Message, SendResult
from metatwist.client.producing.lanes import Lane, TopicLanes
from metatwist.client.producing.outcomes import Trouble, error_of, may_put_again
from metatwist.client.producing.room import ENVELOPE_BYTES
from metatwist.coordination.names import PartitionName
from metatwist.wire.reply_reader import PutStored

if TYPE_CHECKING:
    from metatwist.client.producing.outbox import Outbox
    from metatwist.client.producing.waves import Wave

Outcome = SendResult | ClientError


class Parcel(NamedTuple):
    """A checked message: its lanes, the bytes that travel, the clock's `seconds` by
    which it must have ended, and how long from now that is."""

    message: Message
    lanes: TopicLanes
    flag: int
    payload: bytes
    timeout_s: float
    deadline_s: float


class Send:
    """A message until it has ended; `tell` is called once then, unless nobody has
    `wanted` to know any more.

    `lane` is set while a put is under way. Two states are told by it and by `wave`,
    which is None once all is over.
    """

    __slots__ = ("_timer", "_trouble", "lane", "outbox", "parcel", "wave")

    def __init__(self, outbox: Outbox, parcel: Parcel) -> None:
        self.outbox = outbox
        self.parcel = parcel
        self.lane: Lane | None = None
        self.wave: Wave[Send] | None = None
        self._trouble: Trouble | None = None
        self._timer: IDelayedCall | None = None

    @property
    def size_bytes(self) -> int:
        """What it takes of the producer's room."""
        return len(self.parcel.payload) + ENVELOPE_BYTES

    def tell(self, outcome: Outcome) -> None:
        """Say how it ended."""
        raise NotImplementedError

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for the outcome."""
        return True

    def pick(self) -> Lane | None:
        """Where to put it; None to wait. Raises SelectorFailed, NoPartition."""
        lanes, outbox = self.parcel.lanes, self.outbox
        message = self.parcel.message
        if outbox.stable and message.key is not None:
            return lanes.choose(outbox.selector, message, lanes.partitions)
        offered = lanes.offered
        if self._trouble is not None:
            offered = self._trouble.better(offered) or offered
        return lanes.choose(outbox.selector, message, offered)

    # -- going -------------------------------------------------------------------------

    def start(self) -> None:
        """Send, or wait for room."""
        room = self.outbox.room
        size_bytes = len(self.parcel.payload) + ENVELOPE_BYTES
        if room.fits(size_bytes):
            room.used += size_bytes
            self.go(self.parcel.timeout_s)
        else:
            room.waiting[self] = None
            self._time_out_later(self._no_room)

    def enter(self) -> None:
        """See `Guest`."""
        self.go_on()

    def go_on(self) -> None:
        """Choose again, unless it is over: something has changed."""
        if self.wave is None:
            return
        remaining_s = self._remaining_s()
        if remaining_s <= 0:
            self._out_of_time()
            return
        self._stop_timer()
        self.go(remaining_s)

    def go(self, timeout_s: float) -> None:
        """Choose a lane and put, or wait until the topic changes."""
        try:
            lane = self.pick()
        except ClientError as error:
            self.end(error)
            return
        if lane is None:
            self.parcel.lanes.wait(self)
            self._time_out_later(self._out_of_time)
            return
        self.lane = lane
        outbox, parcel = self.outbox, self.parcel
        outbox.counters.sent += 1
        if outbox.may_duplicate:
            timeout_s = self._patience_s(timeout_s)
        lane.put(lane.prefix, parcel.flag, parcel.payload, self.answered, timeout_s)

    def _patience_s(self, timeout_s: float) -> float:
        """Where an unanswered put may be repeated, no put but the last one has all the
        time that is left."""
        puts = 0 if self._trouble is None else self._trouble.puts
        return timeout_s / 2 if puts < self.outbox.settings.retries else timeout_s

    # -- answers -----------------------------------------------------------------------

    def answered(self, answer: Answer) -> None:
        """What the connection calls, once a put."""
        lane = self.lane
        if lane is None:  # stopped meanwhile
            return
        self.lane = None
        if type(answer) is not PutStored:
            self._failed(answer, lane.partition)
            return
        _, message_id, number, offset = answer
        partition = lane.partition
        if number != partition.partition:
            partition = PartitionName(partition.broker_id, number)
        self.end(SendResult(message_id, partition, offset))

    def _failed(self, answer: Answer, partition: PartitionName) -> None:
        lanes, outbox = self.parcel.lanes, self.outbox
        error = error_of(answer, Where(topic=lanes.topic, partition=partition))
        if self._trouble is None:
            self._trouble = Trouble()
        trouble = self._trouble
        trouble.add(error, partition)
        outbox.look_again(lanes)
        again = may_put_again(error, outbox.may_duplicate) and self.wanted
        if not again or trouble.puts > outbox.settings.retries:
            self.end(error)
            return
        if trouble.better(lanes.offered) and not self._is_bound:
            self._put_again()
            return
        pause_s = outbox.settings.backoff.pause_s(trouble.puts)
        if pause_s >= self._remaining_s():
            self.end(error)
        else:
            self._timer = outbox.clock.callLater(pause_s, self._put_again)

    @property
    def _is_bound(self) -> bool:
        """Whether the partition is given by the message, whatever is on offer."""
        return self.outbox.stable and self.parcel.message.key is not None

    def _put_again(self) -> None:
        self._timer = None
        remaining_s = self._remaining_s()
        if remaining_s <= 0:
            self._out_of_time()
            return
        self.outbox.counters.retried += 1
        self.go(remaining_s)

    # -- time --------------------------------------------------------------------------

    def _remaining_s(self) -> float:
        return self.parcel.deadline_s - self.outbox.clock.seconds()

    def _time_out_later(self, call: Callable[[], object]) -> None:
        remaining_s = max(0.0, self._remaining_s())
        self._timer = self.outbox.clock.callLater(remaining_s, call)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _out_of_time(self) -> None:
        error = None if self._trouble is None else self._trouble.error
        self.end(error or self.parcel.lanes.absent())

    def _no_room(self) -> None:
        text = f"no room within {self.parcel.timeout_s:g} s"
        self.end(BufferFull(text, Where(topic=self.parcel.message.topic)))

    # -- the end -----------------------------------------------------------------------

    def end(self, outcome: Outcome) -> None:
        """It is over."""
        if self._trouble is not None and isinstance(outcome, ClientError):
            outcome = self._trouble.last_word(outcome)
        self.outbox.ended(self, self._leave(), outcome)

    def _leave(self) -> bool:
        """Stop waiting for anything; whether it has taken room."""
        if self._timer is None:  # whoever waits has one
            return True
        self._stop_timer()
        lanes, room = self.parcel.lanes, self.outbox.room
        lanes.forget(self)
        if self in room.waiting:
            del room.waiting[self]
            return False
        return True

    def withdraw(self) -> None:
        """Nobody wants it any more. What is not under way is not sent; a put that is
        under way is not repeated."""
        if self.lane is None and self.wave is not None:
            self.outbox.ended(self, self._leave(), None)

    def abandon(self) -> None:
        """The producer stops now."""
        if self.wave is None:
            return
        under_way, self.lane = self.lane is not None, None
        error = ClientStopped(
            "the producer was stopped", Where(topic=self.parcel.message.topic)
        )
        error.outcome_unknown = under_way
        self.end(error)
