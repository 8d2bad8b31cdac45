"""Work that may block, on a few threads of its own, and how much of it there is.

Retention, verification, renumbering and look-ups share these threads, so that none of
them keeps an fsync waiting that a put waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool


class Background:
    """Runs calls on `pool` and tells of their end on the reactor's thread."""

    def __init__(self, reactor: Any, pool: ThreadPool) -> None:
        self._reactor = reactor
        self._pool = pool
        self._jobs = 0

    @property
    def jobs(self) -> int:
        """Calls that have not ended yet, those that wait for a thread included."""
        return self._jobs

    def run(self, call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Call on a thread; fires with what that returns, or fails with what it raises.

        Only for the reactor's thread.
        """
        self._jobs += 1
        job = deferToThreadPool(self._reactor, self._pool, call, *arguments)
        return job.addBoth(self._ended)

    def _ended(self, result: Any) -> Any:
        self._jobs -= 1
        return result
