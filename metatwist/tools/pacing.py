"""At most so many messages a second."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import deferLater

from metatwist.tools.running import Stop

# Shorter pauses are not worth a timer: a few messages go at once instead.
_LEAST_PAUSE_S = 0.002


class Pace:
    """`per_s` None is as fast as it goes. The clock begins with the first message; what
    was lost in waiting for something else is not made up for beyond a second."""

    def __init__(self, clock: Any, per_s: float | None) -> None:
        self._clock = clock
        self._per_s = per_s
        self._due_s: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is anything to wait for, ever."""
        return self._per_s is not None

    def pause_s(self, messages: int = 1) -> float:
        """Account for messages; how long to wait before more, in seconds."""
        if self._per_s is None:
            return 0.0
        now_s = self._clock.seconds()
        if self._due_s is None or self._due_s < now_s - 1:
            self._due_s = now_s
        self._due_s += messages / self._per_s
        pause_s: float = self._due_s - now_s
        return pause_s if pause_s >= _LEAST_PAUSE_S else 0.0

    async def wait(self, stop: Stop, messages: int = 1) -> None:
        """Pause as `pause_s` says; CancelledError at the stop."""
        pause_s = self.pause_s(messages)
        if pause_s:
            await stop.ends(deferLater(self._clock, pause_s))
