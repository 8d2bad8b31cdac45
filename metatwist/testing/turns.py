"""What happens one behind the other in memory, as in the turns of a reactor.

So no call into a protocol happens within another call of it. What a call raises reaches
whoever runs the clock or calls `pump`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IDelayedCall

MOST_STEPS = 1_000_000


class Turns:
    """What is due in memory, in order; `clock` has the `callLater` of a reactor."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._due: deque[Callable[[], object]] = deque()
        self._turn_call: IDelayedCall | None = None

    def later(self, call: Callable[[], object]) -> None:
        """Call in a later turn, after all that is due already."""
        self._due.append(call)
        self._schedule()

    def _schedule(self) -> None:
        if self._due and self._turn_call is None:
            self._turn_call = self._clock.callLater(0, self._turn)

    def _turn(self) -> None:
        self._turn_call = None
        try:
            for _ in range(len(self._due)):
                if self._due:
                    self._due.popleft()()
        finally:
            self._schedule()

    def pump(self) -> None:
        """Do what is due until nothing is, without moving the clock.

        Raises RuntimeError when there is no end of it.
        """
        steps = 0
        while self._due:
            self._due.popleft()()
            steps += 1
            if steps > MOST_STEPS:
                raise RuntimeError("client and broker go on for ever without a pause")
        scheduled, self._turn_call = self._turn_call, None
        if scheduled is not None:
            scheduled.cancel()
