"""When to look and put right: on demand, after a failure, and again and again.

A request only sets a flag (W11); one round at a time works off all that was asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.group.waiting import RETRY, reason_of
from metatwist.coordination.errors import CoordinationError

GATHER_S = 0.05
"""Events come in bursts: a stopping consumer deletes many nodes."""
PERIOD_S = 60.0


class Rounds:
    """Calls `run(full)` when asked, and with full each PERIOD_S; it is tried again,
    for ever, when it fails."""

    _log = Logger()

    def __init__(self, clock: Any, run: Callable[[bool], Deferred[Any]]) -> None:
        self._clock = clock
        self._run = run
        self._going = False
        self._full = False
        self._under_way = False
        self._asked = False
        self._failures = 0
        self._next: IDelayedCall | None = None
        self._period: IDelayedCall | None = None

    @property
    def asked(self) -> bool:
        """Another round was asked for since the present one began, or `take_up`."""
        return self._asked

    def take_up(self) -> None:
        """The present round does what was asked meanwhile as well, but for a full one,
        which comes after it."""
        self._asked = False

    def start(self) -> None:
        """Begin with a full round."""
        self._going = True
        self._sleep()
        self.request(full=True)

    def stop(self) -> None:
        """Begin no more."""
        self._going = False
        for call in (self._next, self._period):
            if call is not None and call.active():
                call.cancel()
        self._next = self._period = None

    def request(self, full: bool = False) -> None:
        """Ask for a round soon; a full one trusts nothing that was read before."""
        if not self._going:
            return
        self._full |= full
        self._asked = True
        if not self._under_way:
            self._begin_within(GATHER_S)

    def _begin_within(self, delay_s: float) -> None:
        due_s = self._clock.seconds() + delay_s
        if self._next is not None:
            if self._next.getTime() <= due_s:
                return
            self._next.cancel()
        self._next = self._clock.callLater(delay_s, self._begin)

    def _sleep(self) -> None:
        # Members that were started at once shall not all look at once for ever.
        period_s = PERIOD_S * random.uniform(0.8, 1.2)
        self._period = self._clock.callLater(period_s, self._wake)

    def _wake(self) -> None:
        self._sleep()
        self.request(full=True)

    def _begin(self) -> None:
        self._next = None
        full, self._full, self._asked = self._full, False, False
        self._under_way = True
        running = self._run(full).addCallbacks(self._done, self._failed)
        running.addBoth(self._ended)

    def _done(self, _: object) -> None:
        self._failures = 0

    def _failed(self, failure: Failure) -> None:
        self._failures += 1
        if failure.check(CoordinationError):
            self._log.debug("a round failed: {reason}", reason=reason_of(failure))
        else:
            self._log.failure("a round failed that never should", failure=failure)

    def _ended(self, _: object) -> None:
        self._under_way = False
        if not self._going:
            return
        if self._failures:
            self._full = True
            self._begin_within(RETRY.pause_s(self._failures))
        elif self._asked or self._full:
            self._begin_within(GATHER_S)
