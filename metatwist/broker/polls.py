"""Polls that wait for data: an extension for our own consumers (docs/protocol.md).

A poll is a get that may wait at the end of a partition. While it waits nobody looks at
it: the partition's commit queue tells once when there is more to read, `Topics` tells
when a partition opens, closes, moves or goes, and one coarse timer ends the waits. A
poll that waits no longer is due, and answered as a get is; while its peer does not read
its answers, it remains due.

    waits -> due -> answered
    waits or due -> forgotten, when its connection is lost

What a waiting poll is to do when something happens to its partition is decided in one
place, `Polls._must_wait`: whoever need not wait is due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from math import ceil
from time import perf_counter
from typing import Any, Protocol

from twisted.internet.interfaces import IDelayedCall

from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.replies import ReplyQueue
from metatwist.broker.storage.catalog import Key
from metatwist.broker.topics import Topics
from metatwist.broker.turn import Turn
from metatwist.wire.commands import PollCommand

TICK_S = 0.1
SHARE_S = 0.01


class IPeer(Protocol):
    """Whose poll it is."""

    replies: ReplyQueue


class Poll:
    """One that waits or is due; `answer` sends its reply and never raises.

    `ends` is the tick of the timer that ends its wait.
    """

    __slots__ = ("answer", "command", "ends", "of")

    def __init__(
        self, command: PollCommand, of: PeerPolls, answer: Callable[[], None]
    ) -> None:
        self.command = command
        self.of = of
        self.answer = answer
        self.ends = 0

    @property
    def key(self) -> Key:
        """Its partition."""
        return self.command.topic, self.command.partition


class PeerPolls:
    """The unanswered polls of one connection."""

    __slots__ = ("due", "replies", "waiting")

    def __init__(self, replies: ReplyQueue) -> None:
        self.replies = replies
        self.waiting: dict[Poll, None] = {}
        self.due: deque[Poll] = deque()


class Polls:
    """All polls of a broker; `clock` has the `callLater` and `seconds` of a reactor.

    Woken polls are answered at the end of the turn, after the answers of puts, and no
    longer than a share of the next turns.
    """

    def __init__(
        self, clock: Any, topics: Topics, turn: Turn, numbers: BrokerNumbers
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._turn = turn
        self._numbers = numbers
        self._peers: dict[IPeer, PeerPolls] = {}
        self._at: dict[Key, dict[Poll, None]] = {}
        self._ending: dict[int, dict[Poll, None]] = {}
        self._to_look_at: set[Key] = set()
        self._look_everywhere = False
        self._looks = False
        self._ready: dict[PeerPolls, None] = {}
        self._goes_on = False
        self._timer: IDelayedCall | None = None
        topics.on_change(self._topics_changed)

    def take(
        self, command: PollCommand, connection: IPeer, answer: Callable[[], None]
    ) -> None:
        """Call `answer` once, now unless there is something to wait for.

        At the latest when the wait is over or the connection is to end; never once the
        connection is lost.
        """
        settings = self._topics.settings
        wait_ms = min(command.wait_ms, settings.max_poll_wait_ms)
        if wait_ms <= 0 or not self._must_wait(command):
            answer()
            return
        of = self._peers.get(connection)
        if of is None:
            of = self._peers[connection] = PeerPolls(connection.replies)
        if len(of.waiting) + len(of.due) >= settings.max_waiting_polls:
            answer()
            return
        self._begin(Poll(command, of, answer), wait_ms / 1000)

    def _must_wait(self, command: PollCommand) -> bool:
        """Whether a get would find nothing yet, and more may come.

        So a closed partition (403), one that is moved or deleted or that could not be
        loaded, and an offset that is not the end are answered at once. A partition that
        is stopped after a failed fsync makes no difference: nothing comes, and the wait
        goes on to its end, lest its consumers ask without pause. Retention never moves
        the start of a partition past its end.
        """
        topics, key = self._topics, (command.topic, command.partition)
        if command.max_size <= 0 or key in topics.closed or key in topics.busy:
            return False
        log = topics.catalog.logs.get(key)
        if log is None:
            return topics.may_begin(*key)
        return command.offset == log.readable_end

    # -- waiting ------------------------------------------------------------------

    def _begin(self, poll: Poll, wait_s: float) -> None:
        poll.ends = ceil((self._clock.seconds() + wait_s) / TICK_S)
        poll.of.waiting[poll] = None
        self._ending.setdefault(poll.ends, {})[poll] = None
        self._at.setdefault(poll.key, {})[poll] = None
        self._numbers.waiting_polls += 1
        self._listen(poll.key)
        if self._timer is None:
            self._timer = self._clock.callLater(TICK_S, self._tick)

    def _listen(self, key: Key) -> None:
        queue = self._topics.queues.get(key)
        if queue is not None and queue.when_readable is None:
            queue.when_readable = partial(self._readable, key)

    def _leave(self, poll: Poll) -> None:
        """It waits no longer."""
        del poll.of.waiting[poll]
        _take_from(self._ending, poll.ends, poll)
        _take_from(self._at, poll.key, poll)
        self._numbers.waiting_polls -= 1

    def _is_due(self, poll: Poll) -> None:
        self._leave(poll)
        poll.of.due.append(poll)
        self._ready[poll.of] = None

    # -- waking -------------------------------------------------------------------

    def _readable(self, key: Key) -> None:
        """Called within a commit: only note it."""
        self._to_look_at.add(key)
        self._look_soon()

    def _topics_changed(self) -> None:
        if self._at:
            self._look_everywhere = True
            self._look_soon()

    def _look_soon(self) -> None:
        if not self._looks:
            self._looks = True
            self._turn.afterwards(self._look)

    def _look(self) -> None:
        """Find who need not wait any more where something has happened."""
        keys = list(self._at) if self._look_everywhere else self._to_look_at
        self._to_look_at, self._looks, self._look_everywhere = set(), False, False
        for key in keys:
            polls = self._at.get(key, {})
            for poll in [one for one in polls if not self._must_wait(one.command)]:
                self._is_due(poll)
            if key in self._at:
                self._listen(key)
        self._answer_ready()

    def _tick(self) -> None:
        self._timer = None
        now = int(self._clock.seconds() / TICK_S)
        for tick in [tick for tick in self._ending if tick <= now]:
            for poll in list(self._ending[tick]):
                self._is_due(poll)
        if self._ending:
            self._timer = self._clock.callLater(TICK_S, self._tick)
        self._answer_ready()

    # -- answering ----------------------------------------------------------------

    def _answer_ready(self) -> None:
        """Answer who is due and reads; go on in the next turn when that takes long."""
        if not self._goes_on:
            self._answer_some()

    def _go_on(self) -> None:
        self._goes_on = False
        self._answer_some()

    def _answer_some(self) -> None:
        until_s = perf_counter() + SHARE_S
        while self._ready:
            of = next(iter(self._ready))
            while of.due and not of.replies.paused:
                if perf_counter() > until_s:
                    # Others come first then.
                    self._ready[of] = self._ready.pop(of)
                    self._goes_on = True
                    self._clock.callLater(0, self._go_on)
                    return
                of.due.popleft().answer()
            self._ready.pop(of, None)

    # -- connections --------------------------------------------------------------

    def has_waiting(self, connection: IPeer) -> bool:
        """Whether the silence of a connection is ours."""
        of = self._peers.get(connection)
        return of is not None and bool(of.waiting)

    def resumed(self, connection: IPeer) -> None:
        """The peer reads its answers again."""
        of = self._peers.get(connection)
        if of is not None and of.due:
            self._ready[of] = None
            self._answer_ready()

    def finish(self, connection: IPeer) -> None:
        """The connection is to end: its polls are answered at once, as gets.

        Those of a peer that does not read are dropped.
        """
        of = self._peers.get(connection)
        if of is None:
            return
        for poll in list(of.waiting):
            self._is_due(poll)
        while of.due and not of.replies.paused:
            of.due.popleft().answer()
        self.forget(connection)

    def forget(self, connection: IPeer) -> None:
        """The connection is lost, and its polls with it."""
        of = self._peers.pop(connection, None)
        if of is not None:
            for poll in list(of.waiting):
                self._leave(poll)
            of.due.clear()
            self._ready.pop(of, None)

    def stop(self) -> None:
        """End no waits any more; there are no connections left."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def _take_from(groups: dict[Any, dict[Poll, None]], name: Any, poll: Poll) -> None:
    """Take a poll out of its group, and an empty group away."""
    group = groups[name]
    del group[poll]
    if not group:
        del groups[name]
