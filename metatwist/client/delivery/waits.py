"""What a delivery waits for, and how that is cut short."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from metatwist.client.delivery.outcomes import Outcome, settled


class Waits:
    """Of one loop, which waits for one thing at a time: for the user's code
    (`outcome`), or for anything else (`until`, `pause`), which can be cut short.

    After each wait that took a turn of the reactor a new slice begins, of `slice_s`
    seconds: `slice_ends_s` is when the loop should let others go on.
    """

    def __init__(self, clock: Any, slice_s: float) -> None:
        self.slice_ends_s = 0.0
        self._clock = clock
        self._slice_s = slice_s
        self._cut: Deferred[Any] | None = None
        self._asked: Deferred[Outcome] | None = None
        self._is_given_up = False

    def begin_slice(self) -> None:
        """Now."""
        self.slice_ends_s = self._clock.seconds() + self._slice_s

    async def until(self, waiting: Deferred[Any]) -> Any:
        """What comes of a Deferred, None when the wait was cut short."""
        is_waiting = not waiting.called
        self._cut = waiting
        try:
            return await waiting
        except CancelledError:
            return None
        finally:
            self._cut = None
            if is_waiting:
                self.begin_slice()

    async def pause(self, pause_s: float) -> None:
        """That long; 0 for a turn of the reactor."""
        await self.until(deferLater(self._clock, pause_s))

    async def outcome(self, running: Deferred[Any], timeout_s: float | None) -> Outcome:
        """What comes of a call of the user's code, CancelledError if given up."""
        outcome = settled(self._clock, running, timeout_s)
        if self._is_given_up:
            outcome.cancel()
        if outcome.called:
            return await outcome
        self._asked = outcome
        try:
            return await outcome
        finally:
            self._asked = None
            self.begin_slice()

    def cut(self) -> None:
        """End a wait, other than for the user's code, at once."""
        cut, self._cut = self._cut, None
        if cut is not None:
            cut.cancel()

    def give_up(self) -> None:
        """Cancel what the user's code does, from now on, and do not wait for its end.

        It may be called by that code, before it answers a Deferred.
        """
        self._is_given_up = True
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.cancel()
