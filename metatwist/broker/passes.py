"""When to compare and repair: on demand, and again and again; never twice at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

RETRY_S = 1.0
REST = 4
"""After a pass comes a rest of so many times as long as it took: each looks at every
topic, so a burst of new ones would cost the square of their number."""
LONGEST_REST_S = 1.0
FULL_REST = 9
"""Periods that begin within so many times as long after a full one have none: with very
many topics it asks the coordinator for seconds."""
LONGEST_COUNTED_S = 10.0
"""Not more of it: the process may have stood still, or the clock been set."""


class Passes:
    """Calls `run(full)`, which fires with whether to try again soon.

    What is asked for within a turn, while a pass is under way or in the rest after it,
    is one pass. A full one comes each `interval_s()`, and soon after `run` asks for it.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        run: Callable[[bool], Deferred[bool]],
        interval_s: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._run = run
        self._interval_s = interval_s
        self._going = False
        self._full = self._more = False
        self._ended_s = float("-inf")
        self._took_s = 0.0
        self._left_out = 0
        self._turn: IDelayedCall | None = None
        self._timer: IDelayedCall | None = None
        self._retry: IDelayedCall | None = None
        self._current: Deferred[None] | None = None

    def start(self) -> None:
        """A full pass now, and one each interval."""
        self._going = True
        self._sleep()
        self.request(full=True)

    def stop(self) -> None:
        """Begin no more; `idle` tells when the last one is over."""
        self._going = False
        for call in (self._turn, self._timer, self._retry):
            if call is not None and call.active():
                call.cancel()
        self._turn = self._timer = self._retry = None

    def idle(self) -> Deferred[None]:
        """Fires once no pass is under way."""
        waiting: Deferred[None] = Deferred()
        if self._current is None:
            waiting.callback(None)
        else:
            self._current.addCallback(lambda _: waiting.callback(None))
        return waiting

    def request(self, full: bool = False) -> None:
        """Ask for a pass; a full one trusts nothing that it believes."""
        if not self._going:
            return
        self._full |= full
        if self._current is not None:
            self._more = True
        elif self._turn is None:
            self._turn = self._clock.callLater(self._rest_s(), self._begin)

    def _rest_s(self) -> float:
        """What is left of the rest; the clock may have been set back."""
        whole_s = min(REST * self._took_s, LONGEST_REST_S)
        left_s: float = self._ended_s + whole_s - self._clock.seconds()
        return min(max(left_s, 0), whole_s)

    def _sleep(self) -> None:
        self._timer = self._clock.callLater(self._interval_s(), self._wake)

    def _wake(self) -> None:
        self._sleep()
        if self._left_out > 0:
            self._left_out -= 1
        else:
            self.request(full=True)

    def _begin(self) -> None:
        self._turn = None
        full, self._full, self._more = self._full, False, False
        current = self._current = Deferred()
        began_s = self._clock.seconds()
        running = self._run(full).addErrback(self._broke)
        running.addCallback(self._note_time, full, began_s)
        running.addCallback(self._ended, current)

    def _note_time(self, again: bool, full: bool, began_s: float) -> bool:
        self._ended_s = self._clock.seconds()
        self._took_s = max(self._ended_s - began_s, 0)
        if full:
            counted_s = 0 if again else min(self._took_s, LONGEST_COUNTED_S)
            self._left_out = int(FULL_REST * counted_s / self._interval_s())
        return again

    def _broke(self, failure: Failure) -> bool:
        self._log.failure("a pass failed that never should", failure=failure)
        return False

    def _ended(self, again: bool, current: Deferred[None]) -> None:
        self._current = None
        current.callback(None)
        if again and self._going and self._retry is None:
            self._full = True
            self._retry = self._clock.callLater(RETRY_S, self._try_again)
        if self._more:
            self.request()

    def _try_again(self) -> None:
        self._retry = None
        self.request(full=True)
