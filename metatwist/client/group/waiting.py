"""Waiting for Deferreds and conditions, as the group's parts need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import Deferred, DeferredList, inlineCallbacks
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from metatwist.client.settings import Backoff
from metatwist.coordination.errors import CoordinationError

RETRY = Backoff(0.2, 5)


def all_of(waiting: Iterable[Deferred[Any]]) -> Deferred[list[Any]]:
    """Fires with all answers once the last one is there; fails then with the first
    failure among them."""

    def answers(outcomes: list[tuple[bool, Any]]) -> Any:
        for succeeded, answer in outcomes:
            if not succeeded:
                return answer
        return [answer for _, answer in outcomes]

    return DeferredList(list(waiting), consumeErrors=True).addCallback(answers)


class Conditions:
    """Those who wait until something is so; `check` when it may have become so."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], Deferred[None]]] = []

    def when(self, condition: Callable[[], bool]) -> Deferred[None]:
        """Fires when `condition` is true, at once if it is. Cancelling stops this wait
        alone."""
        waiter: Deferred[None] = Deferred(self._forget)
        self._waiting.append((condition, waiter))
        self.check()
        return waiter

    def _forget(self, waiter: Deferred[None]) -> None:
        self._waiting = [one for one in self._waiting if one[1] is not waiter]

    def check(self) -> None:
        """Fire those whose condition is true now."""
        ready = [waiter for condition, waiter in self._waiting if condition()]
        for waiter in ready:
            self._forget(waiter)
        for waiter in ready:
            waiter.callback(None)


def within(clock: Any, limit_s: float, waiting: Deferred[Any]) -> Deferred[bool]:
    """Fires with True when `waiting` does, however it ends, with False when that takes
    too long: then it goes on, and nobody waits for it. Cancelling stops the wait."""
    over: Deferred[bool] = Deferred(lambda _: timer.cancel())
    timer = clock.callLater(limit_s, over.callback, False)

    def done(_: object) -> None:
        if not over.called:
            timer.cancel()
            over.callback(True)

    waiting.addBoth(done)
    return over


@inlineCallbacks
def persist(
    clock: Any, attempt: Callable[[], Deferred[Any]], is_moot: Callable[[], bool]
) -> Any:
    """Try until it succeeds or is moot, with growing pauses; fires then. Cancelling
    ends the tries."""
    failures = 0
    while not is_moot():
        try:
            yield attempt()
            return
        except CoordinationError:
            failures += 1
        yield deferLater(clock, RETRY.pause_s(failures))


def reason_of(failure: Failure) -> str:
    """A failure in one line."""
    return failure.getErrorMessage() or repr(failure.value)
