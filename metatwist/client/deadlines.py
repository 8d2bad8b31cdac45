"""When requests time out, for a connection with very many of them.

A timer a request would cost more than the request. All requests of a turn that may wait
equally long share one entry of a heap, and one timer waits for the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heappop, heappush
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime


class Deadlines:
    """Calls `expired(key, timeout_s)` for each key that is still in `pending` when its
    time is up. `pending` is looked at, never changed."""

    def __init__(
        self,
        clock: IReactorTime,
        pending: Collection[int],
        expired: Callable[[int, float], object],
    ) -> None:
        self._clock: Any = clock
        self._pending = pending
        self._expired = expired
        self._turn: dict[float, list[int]] = {}
        self._heap: list[tuple[float, int, float, list[int]]] = []
        self._entries = 0
        self._timer: IDelayedCall | None = None

    def add(self, key: int, timeout_s: float) -> None:
        """Count from the end of this turn, or the last `end_turn`."""
        keys = self._turn.get(timeout_s)
        if keys is None:
            self._turn[timeout_s] = [key]
        else:
            keys.append(key)

    def end_turn(self) -> None:
        """What was added since the last call begins to count."""
        now_s = self._clock.seconds()
        for timeout_s, keys in self._turn.items():
            self._entries += 1
            entry = (now_s + timeout_s, self._entries, timeout_s, keys)
            heappush(self._heap, entry)
        self._turn.clear()
        self._wait()

    def prune(self) -> None:
        """Forget entries at the front whose keys are all answered."""
        heap, pending = self._heap, self._pending
        while heap and heap[0][3][-1] not in pending:
            waiting = [key for key in heap[0][3] if key in pending]
            if waiting:
                heap[0][3][:] = waiting
                return
            heappop(heap)

    def stop(self) -> None:
        """Forget all."""
        self._heap.clear()
        self._turn.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        if not self._heap:
            return
        due_s = self._heap[0][0]
        if self._timer is None:
            delay_s = max(0.0, due_s - self._clock.seconds())
            self._timer = self._clock.callLater(delay_s, self._look)
        elif self._timer.getTime() > due_s:
            self._timer.reset(max(0.0, due_s - self._clock.seconds()))

    def _look(self) -> None:
        self._timer = None
        now_s = self._clock.seconds()
        late: list[tuple[int, float]] = []
        while self._heap and self._heap[0][0] <= now_s:
            _, _, timeout_s, keys = heappop(self._heap)
            late += [(key, timeout_s) for key in keys if key in self._pending]
        self.prune()
        self._wait()
        for key, timeout_s in late:
            self._expired(key, timeout_s)
