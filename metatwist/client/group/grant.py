"""A claim's life: from the first request for the owner node to the end of it."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.bounded import drop
from metatwist.client.group.lease import Lease
from metatwist.client.group.owner_nodes import Ownership
from metatwist.client.message import TopicPartition
from metatwist.coordination.errors import CoordinationError
from metatwist.coordination.interface import EventKind, NodeEvent

OwnerRequest = Callable[[TopicPartition, int], Deferred[Ownership]]
"""One of OwnerNodes' `claim` and `look`."""


class Grant:
    """One attempt at a partition in one session, and what comes of it.

    `fired` is called with what happens to the owner node while it is watched. After
    `end` nothing is called any more and the claim holds never again.
    """

    _log = Logger()

    def __init__(
        self,
        lease: Lease,
        partition: TopicPartition,
        session_id: int,
        fired: Callable[[EventKind], None],
    ) -> None:
        self.session_id = session_id
        self._lease = lease
        self._partition = partition
        self._fired = fired
        self._is_over = False
        self._watch: Deferred[NodeEvent] | None = None

    @property
    def is_watched(self) -> bool:
        """A watch on the owner node is set."""
        return self._watch is not None

    def holds(self) -> bool:
        """Whether it can be proven now."""
        return not self._is_over and self._lease.holds(self.session_id)

    def end(self) -> None:
        """For good."""
        self._is_over = True
        self._forget_watch()

    def ask(
        self,
        call: OwnerRequest,
        then: Callable[[Ownership], None],
        otherwise: Callable[[Failure], None],
    ) -> None:
        """Ask for the owner node, and watch it."""

        def answered(found: Ownership) -> None:
            if self._is_over:
                drop(found.watch)
                return
            if found.watch is not None:
                self._watch_over(found.watch)
            then(found)

        def failed(failure: Failure) -> None:
            failure.trap(CoordinationError)
            if not self._is_over:
                otherwise(failure)

        asked = call(self._partition, self.session_id)
        asked.addCallbacks(answered, failed).addErrback(self._broke)

    def _broke(self, failure: Failure) -> None:
        self._log.failure("sharing failed as it never should", failure=failure)

    def _watch_over(self, watch: Deferred[NodeEvent]) -> None:
        self._forget_watch()
        self._watch = watch
        watch.addBoth(self._event, watch)

    def _forget_watch(self) -> None:
        watch, self._watch = self._watch, None
        drop(watch)

    def _event(self, event: NodeEvent | Failure, watch: Deferred[NodeEvent]) -> None:
        if self._watch is not watch:
            return
        self._watch = None
        # A failure means that the session is over, which others tell.
        if not isinstance(event, Failure):
            self._fired(event.kind)
