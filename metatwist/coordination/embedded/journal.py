"""Group commit of changed znodes: the reactor's side.

While one commit runs on a thread, further changes gather for the next; of each path
only the last state is kept. Changes recorded in one turn of the reactor are committed
together, so a transaction is on disk whole or not at all.

On a full disk the commit is tried again, with what has come meanwhile, until there is
room: until then nothing is acknowledged. Any other failure is final.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.coordination.embedded.store import INodeStore, StoredNode, StoreFull
from metatwist.errors import StorageError

PAUSE_S = 0.003
_RETRY_S = 1.0

Run = Callable[..., Deferred[Any]]
Changes = dict[str, StoredNode | None]


class Journal:
    """Hands changes to `store.commit` by way of `run`, one commit at a time.

    `run(call, *arguments)` calls on a thread and fires on the reactor's with the
    outcome. From the start of one commit to the start of the next passes `pause_s` at
    least, so that many changes share one; a change after a quiet time does not wait.

    `recorded` is the last ticket given, `durable` the last one on disk with all before
    it. `stalled` says why a commit is being tried again, `failed` why none will ever
    be made again: `durable` then stays as it is. Both are None while all is well.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        store: INodeStore,
        run: Run,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.recorded = 0
        self.durable = 0
        self.stalled: str | None = None
        self.failed: str | None = None
        self._clock = clock
        self._store = store
        self._run = run
        self._pause_s = pause_s
        self._changes: Changes = {}
        self._planned: IDelayedCall | None = None
        self._committing = False
        self._began_s = float("-inf")
        self._stopping = False
        self._over = False
        self._stops: list[Deferred[None]] = []
        self._durable_calls: list[Callable[[int], object]] = []
        self._failure_calls: list[Callable[[str], object]] = []

    def on_durable(self, call: Callable[[int], object]) -> None:
        """Call with each new value of `durable`."""
        self._durable_calls.append(call)

    def on_failure(self, call: Callable[[str], object]) -> None:
        """Call once with `failed`, should it come to that."""
        self._failure_calls.append(call)

    def record(self, path: str, node: StoredNode | None) -> int:
        """Take the new state of a path, None for a node that is gone; its ticket.

        After a failure, and once stopped, changes are not kept.
        """
        self.recorded += 1
        if not self._over:
            self._changes[path] = node
            if self._planned is None and not self._committing:
                self._plan(self._rest_s())
        return self.recorded

    def stop(self) -> Deferred[None]:
        """Commit what is recorded, without pauses.

        Fires when all of it is durable and all have been told, or `failed` says why it
        is not. What is recorded until then is committed too.
        """
        self._stopping = True
        stopped: Deferred[None] = Deferred()
        self._stops.append(stopped)
        if self._planned is not None:
            self._planned.reset(0)
        self._go_on()
        return stopped

    # -- committing ---------------------------------------------------------------

    def _rest_s(self) -> float:
        """What is left of the pause; the clock may have been set back."""
        if self._stopping:
            return 0
        rest_s = self._began_s + self._pause_s - self._clock.seconds()
        return min(max(rest_s, 0), self._pause_s)

    def _plan(self, delay_s: float) -> None:
        self._planned = self._clock.callLater(delay_s, self._commit)

    def _commit(self) -> None:
        self._planned = None
        self._committing = True
        self._began_s = self._clock.seconds()
        changes, self._changes = self._changes, {}
        job = self._run(self._store.commit, changes)
        job.addCallbacks(
            partial(self._stored, self.recorded), partial(self._refused, changes)
        )
        job.addErrback(partial(self._log.failure, "defect after a commit"))

    def _stored(self, ticket: int, _: object) -> None:
        self._committing = False
        if self.stalled is not None:
            self._log.info("the coordinator stores changes again")
            self.stalled = None
        self.durable = ticket
        try:
            for call in self._durable_calls:
                call(ticket)
        finally:
            self._go_on()

    def _refused(self, changes: Changes, failure: Failure) -> None:
        self._committing = False
        if failure.check(StoreFull) and not self._stopping:
            self._stall(changes, str(failure.value))
        else:
            self._fail(failure)

    def _stall(self, changes: Changes, reason: str) -> None:
        if self.stalled is None:
            self._log.critical(
                "the coordinator cannot store changes and answers no writes: {reason}",
                reason=reason,
            )
        self.stalled = reason
        self._changes = {**changes, **self._changes}
        self._plan(_RETRY_S)

    def _fail(self, failure: Failure) -> None:
        if not failure.check(StorageError):
            self._log.failure("defect in a commit", failure)
        reason = failure.getErrorMessage()
        self.failed = reason
        self._over, self._changes = True, {}
        try:
            for call in self._failure_calls:
                call(reason)
        finally:
            self._go_on()

    def _go_on(self) -> None:
        """Commit what has gathered, or tell those who wait for the end."""
        if self._committing or self._planned is not None:
            return
        if self._changes:
            self._plan(self._rest_s())
            return
        self._over = self._over or self._stopping
        stops, self._stops = self._stops, []
        for stopped in stops:
            stopped.callback(None)
