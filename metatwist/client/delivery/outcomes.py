"""What became of a call of the user's code: now, later, in time or not."""

from __future__ import annotations

from types import CoroutineType
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.errors import ListenerFailed, ListenerTimedOut, Where
from metatwist.client.message import ReceivedMessage

Outcome = tuple[Any, BaseException | None]
"""What was answered, or what was raised."""

_AWAITED_OUTSIDE = "await wasn't used with future"
"""What asyncio raises into a coroutine that awaits a future and is no task of its."""

_log = Logger()


def unfinished(result: object) -> Deferred[Any] | None:
    """What to wait for after a call that answered `result`, None when it has ended
    well already."""
    running = deferred_from(result)
    if running is None or not running.called or running.paused:
        return running
    return running if isinstance(running.result, (Failure, Deferred)) else None


def deferred_from(result: Any) -> Deferred[Any] | None:
    """What to wait for after a call that answered `result`: a Deferred, a coroutine,
    any other awaitable (a future of asyncio under its reactor). None for all else."""
    if isinstance(result, Deferred):
        return result
    if isinstance(result, Failure):
        return fail(result)
    if isinstance(result, CoroutineType):
        return Deferred.fromCoroutine(result)
    if not hasattr(result, "__await__"):
        return None
    if hasattr(result, "add_done_callback"):
        return Deferred.fromFuture(result)
    return Deferred.fromCoroutine(_awaited(result))


async def _awaited(result: Any) -> Any:
    return await result


class _Watch:
    """Fires `outcome` once: with the end of `running`, or when that is given up."""

    def __init__(self, running: Deferred[Any]) -> None:
        self.outcome: Deferred[Outcome] = Deferred(self._cancelled)
        self.timer: IDelayedCall | None = None
        self._running = running
        self._is_over = False

    def ended(self, result: Any) -> None:
        """The call has ended; nobody wants to know if it was given up."""
        if self._is_over:
            return
        failed = isinstance(result, Failure)
        self._fire((None, result.value) if failed else (result, None))

    def timed_out(self, timeout_s: float) -> None:
        """It took too long."""
        self._give_up(ListenerTimedOut(f"no end after {timeout_s} s"))

    def _cancelled(self, _: object) -> None:
        self._give_up(CancelledError())

    def _give_up(self, why: Exception) -> None:
        self._is_over = True
        try:
            self._running.cancel()
        except Exception:
            _log.failure("the canceller of a listener's Deferred raised")
        self._fire((None, why))

    def _fire(self, outcome: Outcome) -> None:
        self._is_over = True
        timer, self.timer = self.timer, None
        if timer is not None and timer.active():
            timer.cancel()
        self.outcome.callback(outcome)


def settled(
    clock: IReactorTime, running: Deferred[Any], timeout_s: float | None
) -> Deferred[Outcome]:
    """Fires with the outcome of `running`, after `timeout_s` with ListenerTimedOut;
    never fails.

    After the time, or when this is cancelled (outcome: CancelledError), `running` is
    cancelled and whatever comes of it is dropped, also if it never reacts.
    """
    watch = _Watch(running)
    running.addBoth(watch.ended)
    if timeout_s is not None and not watch.outcome.called:
        watch.timer = clock.callLater(timeout_s, watch.timed_out, timeout_s)
    return watch.outcome


def listener_failed(message: ReceivedMessage, cause: BaseException) -> ListenerFailed:
    """The error of a message whose listener failed for `cause`."""
    where = Where(None, message.topic, message.partition, message.offset)
    if isinstance(cause, ListenerTimedOut):
        return ListenerTimedOut(f"the listener took too long: {cause.text}", where)
    kind = type(cause).__name__
    text = f"the listener failed: {kind}: {cause}"
    if isinstance(cause, RuntimeError) and str(cause) == _AWAITED_OUTSIDE:
        text += (
            "; a coroutine that awaits what is asyncio's needs asyncio_listener() of"
            " metatwist.client.on_asyncio"
        )
    error = ListenerFailed(text, where)
    error.__cause__ = cause
    return error
