"""When to compare and repair: on demand, and again and again; never twice at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

RETRY_S = 1.0


class Passes:
    """Calls `run(full)`, which fires with whether to try again soon.

    What is asked for within a turn, or while a pass is under way, is one pass. A full
    one comes each `interval_s()`, and stays due until one has succeeded.
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
        return succeed(None) if self._current is None else self._current

    def request(self, full: bool = False) -> None:
        """Ask for a pass; a full one trusts nothing that it believes."""
        if not self._going:
            return
        self._full |= full
        if self._current is not None:
            self._more = True
        elif self._turn is None:
            self._turn = self._clock.callLater(0, self._begin)

    def _sleep(self) -> None:
        self._timer = self._clock.callLater(self._interval_s(), self._wake)

    def _wake(self) -> None:
        self._sleep()
        self.request(full=True)

    def _begin(self) -> None:
        self._turn = None
        full, self._full, self._more = self._full, False, False
        current = self._current = Deferred()
        running = self._run(full).addErrback(self._broke)
        running.addCallback(self._ended, current)

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
