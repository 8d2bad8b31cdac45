"""Something in the coordinator's tree that is looked for until it could be read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.discovery.rounds import Rounds
from metatwist.client.discovery.waiting import Awaited
from metatwist.client.errors import ClientError, Where
from metatwist.client.settings import Backoff

PERIOD_S = 30.0
PATIENCE_S = 8.0
RETRIES = Backoff(0.5, 30)
_COALESCE_S = 0.02

T = TypeVar("T")


class Looking(Generic[T]):
    """Looks from `start` to `stop`: again after a failure, later and later, and every
    half a minute.

    Attributes:
        read: one look, which raises ClientErrors.
        changed: called with what was found whenever that is something else.
        found: what the last look that went well has found; whoever waits for the first
            one does so for 8 s at most, and not at all when it is hopeless.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        where: Where,
        read: Callable[[], Coroutine[Any, Any, T]],
        changed: Callable[[T], object],
    ) -> None:
        self.found: Awaited[T] = Awaited(reactor, where, PATIENCE_S)
        self._read = read
        self._changed = changed
        self._rounds = Rounds(reactor, self._look)
        self._failures = 0

    def start(self) -> None:
        """Begin to look."""
        self._rounds.start()

    def wake(self, within_s: float = _COALESCE_S) -> None:
        """Look soon: something has changed. Many such calls make one look."""
        self._rounds.wake(within_s)

    def stop(self) -> None:
        """Look no more; `found.give_up` is for whoever still waits."""
        self._rounds.stop()

    def _look(self) -> Deferred[float]:
        """One round; fires with the pause until the next look."""
        reading = Deferred.fromCoroutine(self._read())
        return reading.addCallbacks(self._learn, self._failed)

    def _learn(self, value: T) -> float:
        self._failures = 0
        if self.found.learn(value):
            self._changed(value)
        return PERIOD_S

    def _failed(self, failure: Failure) -> float:
        failure.trap(ClientError)
        error: Any = failure.value
        if self.found.failure is None:
            self._log.warn("cannot look into the tree: {error}", error=error)
        self.found.failure = error
        if not error.retriable:
            self.found.give_up(error)
        self._failures += 1
        return RETRIES.pause_s(self._failures)
