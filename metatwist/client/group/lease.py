"""Whether it can be proven that the session lives: a clock of our own.

A server ends a session when it has heard nothing for the session timeout. So what was
sent and then answered proves the session from the time of sending on; past a safe part
of the timeout the proof is over, whether or not anybody has told us of an outage, and
also if this process stood still.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.bounded import drop
from metatwist.coordination.errors import CoordinationError
from metatwist.coordination.interface import SessionState

SAFE_PART = 2 / 3
CONTACTS = 3
"""How often contact is made within a session timeout."""


def steady_seconds() -> float:
    """A clock that is never set, and goes on while the machine sleeps, where the system
    has such a one."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class Lease:
    """Proofs of a coordinator's session, of which there is one after the other.

    `seconds` is the clock that proofs are measured by; `contact` sends something that
    only a server in contact with the others answers, `doubt` is told True when the
    proof is over and False when there is one again.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        coordinator: Any,
        session_timeout_s: float,
        seconds: Callable[[], float],
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._coordinator = coordinator
        self._wanted_s = session_timeout_s
        self._contact: Callable[[], Deferred[Any]] | None = None
        self._doubt: Callable[[bool], object] = bool
        self._doubted = False
        self._session_id = 0
        self._sent_s = 0.0
        self._asked: Deferred[Any] | None = None
        self._tick: IDelayedCall | None = None
        self._due: IDelayedCall | None = None

    @property
    def _timeout_s(self) -> float:
        """The server may have granted less than was asked for."""
        granted_s: float | None = self._coordinator.session_timeout_s
        return self._wanted_s if granted_s is None else min(self._wanted_s, granted_s)

    @property
    def _span_s(self) -> float:
        return SAFE_PART * self._timeout_s

    def holds(self, session_id: int) -> bool:
        """Whether that session is proven to live now; exact, whatever timers do: when
        the proof is over, and nobody was told yet, they are told now."""
        holds = self._is_proven(session_id)
        if not holds and not self._doubted and session_id == self._session_id:
            self._judge()
        return holds

    def _is_proven(self, session_id: int) -> bool:
        if not session_id == self._session_id == self._coordinator.session_id:
            return False
        return 0 <= self.seconds() - self._sent_s < self._span_s

    def start(
        self, contact: Callable[[], Deferred[Any]], doubt: Callable[[bool], object]
    ) -> None:
        """Begin to make contact."""
        self._contact, self._doubt = contact, doubt
        self._look_again()

    def stop(self) -> None:
        """Nothing holds any more."""
        self._session_id = 0
        self._contact = None
        asked, self._asked = self._asked, None
        drop(asked)
        for call in (self._tick, self._due):
            if call is not None and call.active():
                call.cancel()
        self._tick = self._due = None

    def prove(self, session_id: int, sent_s: float) -> None:
        """Something sent then, by `seconds`, was answered in that session."""
        if session_id != self._coordinator.session_id or self._contact is None:
            return
        if session_id != self._session_id or sent_s > self._sent_s:
            self._session_id, self._sent_s = session_id, sent_s
        self._judge()

    def look(self) -> None:
        """Make contact now."""
        asked, self._asked = self._asked, None
        drop(asked)
        if self._contact is None:
            return
        if self._coordinator.state is not SessionState.CONNECTED:
            return
        session_id, sent_s = self._coordinator.session_id, self.seconds()
        self._asked = self._contact()
        self._asked.addCallback(lambda _: self.prove(session_id, sent_s))
        self._asked.addErrback(self._no_contact)

    def _look_again(self) -> None:
        self._tick = self._clock.callLater(self._timeout_s / CONTACTS, self._look_again)
        self.look()

    def _no_contact(self, failure: Failure) -> None:
        if not failure.check(CoordinationError, CancelledError):
            self._log.failure("making contact failed as it never should", failure)

    def _judge(self) -> None:
        """Tell what has changed, and come again when the proof is over."""
        due, self._due = self._due, None
        if due is not None and due.active():
            due.cancel()
        holds = self._is_proven(self._session_id)
        if holds:
            left_s = self._sent_s + self._span_s - self.seconds()
            # Two clocks, which need not agree.
            self._due = self._clock.callLater(max(left_s, 0.001), self._judge)
        if holds is self._doubted:
            self._doubted = not holds
            self._doubt(self._doubted)
