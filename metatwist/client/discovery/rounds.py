"""Something that is done again and again, and sooner when there is reason to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

_log = Logger()


class Rounds:
    """Rounds of work with pauses between them, one at a time, until `stop`.

    `work` fires with the pause until the next round, in seconds. A `wake` during a
    round shortens the pause after it: no event is lost, and many are one round.
    """

    def __init__(self, reactor: Any, work: Callable[[], Deferred[float]]) -> None:
        self._reactor = reactor
        self._work = work
        self._timer: Any = None
        self._round: Deferred[None] | None = None
        self._wanted_s: float | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin the first round."""
        self._begin()

    def wake(self, within_s: float) -> None:
        """Let the next round begin in so many seconds at the latest."""
        at_s = self._reactor.seconds() + within_s
        if self._timer is None:
            if self._wanted_s is None or at_s < self._wanted_s:
                self._wanted_s = at_s
        elif at_s < self._timer.getTime():
            self._timer.reset(within_s)

    def stop(self) -> None:
        """Cancel the round that is under way, and begin no other; may be called by the
        work's own callbacks."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._round is not None:
            self._round.cancel()

    def _begin(self) -> None:
        self._timer, self._wanted_s = None, None
        self._round = self._work().addCallback(self._pause).addErrback(self._failed)

    def _pause(self, pause_s: float) -> None:
        if self._stopped:
            return
        if self._wanted_s is not None:
            sooner_s = self._wanted_s - self._reactor.seconds()
            pause_s = max(0.0, min(pause_s, sooner_s))
        self._timer = self._reactor.callLater(pause_s, self._begin)

    def _failed(self, failure: Failure) -> None:
        if not (self._stopped and failure.check(CancelledError)):
            _log.failure("this goes on no more", failure)
