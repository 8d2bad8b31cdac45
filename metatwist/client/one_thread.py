"""One thread for calls that block, in order: the owner of a local file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from metatwist.client.errors import ClientStopped


class OneThread:
    """Starts with the first call; one call at a time, first come, first served.

    `run` and `stop` are for the reactor's thread.
    """

    def __init__(self, reactor: Any, name: str) -> None:
        self._reactor = reactor
        self._name = name
        self._pool: ThreadPool | None = None
        self._jobs = 0
        self._is_stopping = False
        self._stops: list[Deferred[None]] = []

    def run(self, call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Call on the thread; fires with what that answers or raises, on the reactor's.
        Cancelling stops the wait, not the call. Fails with ClientStopped once
        stopped."""
        if self._is_stopping:
            return fail(ClientStopped(f"{self._name} was stopped"))
        return self._run(call, *arguments)

    def stop(self, last: Callable[[], object] | None = None) -> Deferred[None]:
        """Take no more calls, run those that wait, then `last`, and end the thread;
        fires after that. What `last` raises is dropped. Idempotent."""
        stopped: Deferred[None] = Deferred()
        self._stops.append(stopped)
        if not self._is_stopping:
            self._is_stopping = True
            if last is not None and self._pool is not None:
                self._run(last).addErrback(lambda _: None)
        self._end_if_idle()
        return stopped

    def _run(self, call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        if self._pool is None:
            self._pool = ThreadPool(0, 1, self._name)
            self._pool.start()
        self._jobs += 1
        job = deferToThreadPool(self._reactor, self._pool, call, *arguments)
        answer: Deferred[Any] = Deferred()

        def ended(result: Any) -> None:
            self._jobs -= 1
            answer.callback(result)
            self._end_if_idle()

        job.addBoth(ended)
        return answer

    def _end_if_idle(self) -> None:
        if self._jobs or not self._is_stopping:
            return
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()  # joins at once: nothing runs there
        stops, self._stops = self._stops, []
        for stopped in stops:
            stopped.callback(None)
