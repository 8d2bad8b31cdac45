"""Waiting for another broker with our id to go: its session may be about to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from metatwist.coordination.interface import ICoordinator, NodeEvent


class ContestedId:
    """Watches the node of the master, and knows when it was long enough.

    `look` is called when there is something to look at: the node has changed, or
    `limit_s` is over.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        coordinator: ICoordinator,
        path: str,
        limit_s: Callable[[], float],
        look: Callable[[], object],
    ) -> None:
        self.is_over = False
        self._clock = clock
        self._coordinator: Any = coordinator
        self._path = path
        self._limit_s = limit_s
        self._look = look
        self._deadline: IDelayedCall | None = None
        self._watch: Deferred[NodeEvent] | None = None

    @inlineCallbacks
    def wait(self) -> Any:
        """Begin to wait, or go on; fires once the node is watched."""
        if self._deadline is None and not self.is_over:
            limit_s = self._limit_s()
            self._deadline = self._clock.callLater(limit_s, self._long_enough)
            self._log.warn(
                "waiting up to {limit:g} s for the other broker's session to end",
                limit=limit_s,
            )
        if self._watch is None:
            stat, watch = yield self._coordinator.exists_and_watch(self._path)
            self._watch = watch
            watch.addBoth(self._fired)
            if stat is None:
                self._look()

    def _fired(self, _: object) -> None:
        self._watch = None
        if self._deadline is not None:
            self._look()

    def _long_enough(self) -> None:
        self._deadline = None
        self.is_over = True
        self._look()

    def stop(self) -> None:
        """Wait no more; the next time begins anew."""
        self.is_over = False
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()
        if self._watch is not None:
            self._watch.cancel()
