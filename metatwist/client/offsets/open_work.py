"""What a storage has under way, so that it can be closed after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred, fail

from metatwist.client.offsets.refusals import stopped

_Result = TypeVar("_Result")


class OpenWork:
    """Calls of a storage that have not ended; takes no more once closed."""

    def __init__(self) -> None:
        self._running = 0
        self._is_closed = self._is_released = False
        self._idle: Deferred[None] = Deferred()
        self._waiting: list[Deferred[None]] = []

    def run(
        self, description: str, call: Callable[[], Deferred[_Result]]
    ) -> Deferred[_Result]:
        """Begin `call`, which must not raise. Cancelling the answer stops the wait, not
        the work; after `close` it fails with ClientStopped."""
        if self._is_closed:
            return fail(stopped(description))
        # Without a canceller Twisted drops the result that comes after a cancel.
        answer: Deferred[_Result] = Deferred()
        self._running += 1
        work = call().addCallbacks(answer.callback, answer.errback)
        work.addBoth(self._ended)
        return answer

    def _ended(self, _result: object) -> None:
        self._running -= 1
        self._look()

    def _look(self) -> None:
        if self._is_closed and self._running == 0 and not self._idle.called:
            self._idle.callback(None)

    def close(self, release: Callable[[], Deferred[None] | None]) -> Deferred[None]:
        """Take no more; once all has ended call `release`, of the first close, and fire
        after it."""
        is_first, self._is_closed = not self._is_closed, True
        answer: Deferred[None] = Deferred()
        self._waiting.append(answer)
        if is_first:
            self._idle.addCallback(lambda _: release()).addCallback(self._released)
            self._look()
        elif self._is_released:
            self._released(None)
        return answer

    def _released(self, _result: object) -> None:
        self._is_released = True
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(None)
