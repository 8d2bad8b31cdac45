"""How a sink is stopped in bounded time, and held for a while."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime


class Stopping:
    """Running, then `wanted`, then `ended`; never back.

    `give_up` is called when the time is over for what is still going on; that must
    bring about `end`.
    """

    def __init__(self, clock: IReactorTime, give_up: Callable[[], object]) -> None:
        self.wanted = False
        self.ended = False
        self._clock = clock
        self._give_up = give_up
        self._limit: IDelayedCall | None = None
        self._limit_s = float("inf")
        self._waiting: list[Deferred[None]] = []

    def ask(self, within_s: float) -> Deferred[None]:
        """Fires at the end; the earliest limit of all calls counts. Cancelling stops
        the wait alone."""
        self.wanted = True
        waiting: Deferred[None] = Deferred()
        if self.ended:
            waiting.callback(None)
            return waiting
        self._waiting.append(waiting)
        due_s = self._clock.seconds() + within_s
        if due_s < self._limit_s:
            self._forget_limit()
            self._limit_s = due_s
            self._limit = self._clock.callLater(within_s, self._late)
        return waiting

    def end(self) -> None:
        """All has ended: tell."""
        self.wanted = self.ended = True
        self._forget_limit()
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(None)

    def _late(self) -> None:
        self._limit = None
        self._give_up()

    def _forget_limit(self) -> None:
        limit, self._limit = self._limit, None
        if limit is not None:
            limit.cancel()


class Gate:
    """Open while no reason holds it shut."""

    def __init__(self) -> None:
        self.reasons: set[str] = set()
        self._waiting: Deferred[None] | None = None

    def shut(self, reason: str) -> None:
        """One more reason. Idempotent."""
        self.reasons.add(reason)

    def open(self, reason: str) -> None:
        """That reason is gone; the last one opens the gate."""
        self.reasons.discard(reason)
        waiting = self._waiting
        if not self.reasons and waiting is not None:
            self._waiting = None
            if not waiting.called:
                waiting.callback(None)

    def opened(self) -> Deferred[None]:
        """Fires when it opens; for one at a time. May be cancelled."""
        self._waiting = Deferred()
        return self._waiting
