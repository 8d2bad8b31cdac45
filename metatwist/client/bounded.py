"""Waiting that ends: for what others promise to answer."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

_log = Logger()


def drop(waiting: Deferred[Any] | None) -> None:
    """Nobody wants to know any more."""
    if waiting is not None:
        waiting.addErrback(lambda _: None)
        waiting.cancel()


def at_most(
    clock: Any, limit_s: float, waiting: Deferred[Any], what: str
) -> Deferred[bool]:
    """Fires True when `waiting` has ended, False when the time was up before; `waiting`
    is then cancelled and its result ignored. Never fails: a failure of `waiting` is
    logged as one of `what`. Cancelling cancels `waiting`, and fires True if that ends
    it."""
    ended: Deferred[bool] = Deferred(lambda _: cancelled())

    def done(result: Any) -> None:
        if timer.active():
            timer.cancel()
        if ended.called:
            return
        if isinstance(result, Failure) and not result.check(CancelledError):
            _log.failure("{what} failed", result, what=what)
        ended.callback(True)

    def cancelled() -> None:
        timer.cancel()
        waiting.cancel()

    def up() -> None:
        _log.warn("{what} takes longer than {limit_s:g} s", what=what, limit_s=limit_s)
        ended.callback(False)
        waiting.cancel()

    timer = clock.callLater(limit_s, up)
    waiting.addBoth(done)
    return ended
