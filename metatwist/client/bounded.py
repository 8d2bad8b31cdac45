"""Waiting that ends: for what others promise to answer."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

_log = Logger()


def at_most(
    clock: Any, limit_s: float, waiting: Deferred[Any], what: str
) -> Deferred[bool]:
    """Fires True when `waiting` has ended, False when the time was up before; `waiting`
    is then cancelled and its result ignored. Never fails: a failure of `waiting` is
    logged as one of `what`. Cancelling cancels `waiting`."""
    ended: Deferred[bool] = Deferred(lambda _: waiting.cancel())

    def done(result: Any) -> None:
        if timer.active():
            timer.cancel()
        if isinstance(result, Failure) and not ended.called:
            _log.failure("{what} failed", result, what=what)
        if not ended.called:
            ended.callback(True)

    def up() -> None:
        _log.warn("{what} takes longer than {limit_s:g} s", what=what, limit_s=limit_s)
        ended.callback(False)
        waiting.cancel()

    timer = clock.callLater(limit_s, up)
    waiting.addBoth(done)
    return ended
