"""Requests that wait for an answer: each ends exactly once, and in time.

A request ends with the server's answer, with `ConnectionLost` when its connection
breaks, or with `OperationTimeout`; kazoo by itself would keep what it gets while
disconnected for a later connection, however long that takes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from metatwist.coordination.errors import (
    BadArguments,
    ConnectionLost,
    CoordinationError,
    OperationTimeout,
)
from metatwist.coordination.kazoo_values import error_from, is_interruption

MOST_IN_FLIGHT = 100
"""kazoo wakes its thread by one byte a request, through a blocking socket pair that
holds 278 of them on Linux: more requests than that could block the reactor."""


@define(eq=False)
class _Request:
    start: Callable[[], Any]
    subject: str
    answer: Deferred[Any]
    timer: IDelayedCall


class Requests:
    """All requests that have not ended, in order; `limit_s` is what each may take."""

    def __init__(self, clock: IReactorTime, limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._open: dict[_Request, None] = {}
        self._waiting: dict[_Request, None] = {}
        self._in_flight: set[_Request] = set()
        self._is_sending = False

    def __len__(self) -> int:
        return len(self._open)

    def submit(self, start: Callable[[], Any], subject: str) -> Deferred[Any]:
        """Call `start`, now or soon; it answers a result of kazoo's. Fires with the
        value of that, or fails with a CoordinationError about `subject`."""

        def forget(_answer: Deferred[Any]) -> None:
            self._drop(request)

        # A request is not undone once sent, only not waited for.
        answer: Deferred[Any] = Deferred(forget)
        timer = self._clock.callLater(self._limit_s, lambda: self._too_late(request))
        request = _Request(start, subject, answer, timer)
        self._open[request] = None
        self._waiting[request] = None
        self._send()
        return answer

    def fail_all(self) -> None:
        """The connection broke: fail them all."""
        requests = list(self._open)
        self._waiting.clear()
        self._in_flight.clear()
        for request in requests:
            self._end(request, ConnectionLost(request.subject))

    def _send(self) -> None:
        if self._is_sending:
            return
        self._is_sending = True
        try:
            while self._waiting and len(self._in_flight) < MOST_IN_FLIGHT:
                request = next(iter(self._waiting))
                del self._waiting[request]
                self._send_one(request)
        finally:
            self._is_sending = False

    def _send_one(self, request: _Request) -> None:
        self._in_flight.add(request)
        try:
            result = request.start()
        except (TypeError, ValueError) as error:
            self._in_flight.discard(request)
            self._end(request, BadArguments(f"{request.subject}: {error}"))
        except CoordinationError as error:
            self._in_flight.discard(request)
            self._end(request, error)
        else:
            result.rawlink(partial(self._answered, request))

    def _answered(self, request: _Request, result: Any) -> None:
        error = result.exception
        if error is not None and is_interruption(error):
            return  # fail_all follows, once listeners know
        self._in_flight.discard(request)
        if error is not None:
            self._end(request, error_from(error, request.subject))
        else:
            self._end(request, result.value)
        self._send()

    def _too_late(self, request: _Request) -> None:
        self._end(request, OperationTimeout(request.subject))

    def _end(self, request: _Request, outcome: Any) -> None:
        if not self._drop(request):
            return
        if isinstance(outcome, CoordinationError):
            request.answer.errback(outcome)
        else:
            request.answer.callback(outcome)

    def _drop(self, request: _Request) -> bool:
        """Wait for it no longer; False if it has ended before."""
        if request not in self._open:
            return False
        del self._open[request]
        self._waiting.pop(request, None)
        if request.timer.active():
            request.timer.cancel()
        return True
