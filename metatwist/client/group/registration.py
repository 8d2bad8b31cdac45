"""A consumer's own node below `ids`, which tells the others that it is there (spec
layout 3.5, 5.2)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.bounded import drop
from metatwist.client.group.waiting import Conditions, all_of, persist
from metatwist.coordination.errors import CoordinationError, NodeExists, NoNode
from metatwist.coordination.interface import NodeEvent

CONTEST_SESSIONS = 1.5
"""How long another session's node may stay, in session timeouts: a dead session ends
by the server's clock, whose ticks are up to half of one."""


@frozen
class MemberNode:
    """Where a consumer registers, and the topics that it writes there."""

    path: str
    data: bytes


class Registration:
    """Makes the node, and knows whether it is ours: by the session that owns it, never
    by its text (W5). What another session has made is waited out; `look` is called when
    `register` should be tried again. Failures are CoordinationErrors.

    Attributes:
        is_contested_for_good: another session's node has stayed too long.
        was_registered: it has been ours once.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        coordinator: Any,
        node: MemberNode,
        session_timeout_s: float,
        look: Callable[[], object],
    ) -> None:
        self.is_contested_for_good = False
        self.was_registered = False
        self._clock = clock
        self._coordinator = coordinator
        self._node = node
        self._timeout_s = session_timeout_s
        self._look = look
        self._session_id = 0
        self._tried_in = 0
        self._watch: Deferred[NodeEvent] | None = None
        self._deadline: IDelayedCall | None = None
        self._leaving: Deferred[None] | None = None
        self._registering = False
        self._conditions = Conditions()

    @property
    def _limit_s(self) -> float:
        """How long another's node may be a dead one's: the server may keep sessions for
        longer than was asked."""
        granted_s: float = self._coordinator.session_timeout_s or 0
        return CONTEST_SESSIONS * max(self._timeout_s, granted_s)

    @property
    def is_registered(self) -> bool:
        """In the present session, as far as is known."""
        return self._session_id != 0 and self._session_id == self._now_in

    @property
    def _now_in(self) -> int:
        session_id: int = self._coordinator.session_id
        return session_id

    @inlineCallbacks
    def register(self) -> Any:
        """Make the node if there is none; fires with whether it is ours now. One at a
        time."""
        self._registering = True
        try:
            session_id = self._now_in
            yield self._make(session_id)
            return (yield self._judge(session_id))
        finally:
            self._registering = False
            self._conditions.check()

    @inlineCallbacks
    def _make(self, session_id: int) -> Any:
        try:
            yield self._coordinator.create(
                self._node.path, self._node.data, ephemeral=True, make_parents=True
            )
            self._tried_in = session_id
        except NodeExists:
            pass
        except CoordinationError as error:
            if error.retriable:  # it may have been made all the same
                self._tried_in = session_id
            raise

    @inlineCallbacks
    def _judge(self, session_id: int) -> Any:
        """Look whose the node is, and watch it."""
        if self._leaves():
            return False
        try:
            found = yield self._coordinator.get_and_watch(self._node.path)
        except NoNode:
            self._look()
            return False
        data, stat, watch = found
        if self._leaves():
            drop(watch)
            return False
        self._watch_over(watch)
        # Another consumer of this process may share our session.
        if not stat.ephemeral_owner == session_id == self._tried_in:
            self._wait()
            return False
        if data != self._node.data:
            yield self._coordinator.set(self._node.path, self._node.data)
        if not self._leaves():
            self._registered(session_id)
        return self.is_registered

    @inlineCallbacks
    def check(self) -> Any:
        """Ask a server that is up to date; fires with whether the node is ours."""
        session_id = self._now_in
        path = self._node.path
        _, stat = yield all_of(
            [self._coordinator.sync(path), self._coordinator.exists(path)]
        )
        ours = stat is not None and stat.ephemeral_owner == session_id
        if not ours and session_id == self._session_id:
            self.doubt()
        return ours

    def doubt(self) -> None:
        """It may be ours no more."""
        self._session_id = 0
        self._look()

    def wait_anew(self) -> None:
        """Whoever has our node gets the whole time again: there was no connection, and
        after that the server may have given it more as well."""
        self.is_contested_for_good = False
        if self._deadline is not None:
            self._deadline.reset(self._limit_s)

    def session_over(self) -> None:
        """The node is gone with its session."""
        self._session_id = self._tried_in = 0
        drop(self._leaving)

    def withdraw(self) -> Deferred[None]:
        """Delete the node if it is ours; fires when it is not, or no more, however long
        that takes. Nothing is looked for any more."""
        self._session_id = 0
        self._settle()
        watch, self._watch = self._watch, None
        drop(watch)
        # A node that is being made at this moment must not stay behind.
        made = self._conditions.when(lambda: not self._registering)
        self._leaving = made.addCallback(lambda _: self._delete_in(self._tried_in))
        return self._leaving

    def _delete_in(self, session_id: int) -> Deferred[None]:
        return persist(
            self._clock,
            lambda: self._delete(session_id),
            lambda: not session_id or session_id != self._now_in,
        )

    @inlineCallbacks
    def _delete(self, session_id: int) -> Any:
        with suppress(NoNode):
            stat = yield self._coordinator.exists(self._node.path)
            if stat is not None and stat.ephemeral_owner == session_id:
                yield self._coordinator.delete(self._node.path, stat.version)

    def _leaves(self) -> bool:
        return self._leaving is not None

    # -- steps -----------------------------------------------------------------------

    def _registered(self, session_id: int) -> None:
        self._session_id = session_id
        self.was_registered = True
        self._settle()

    def _settle(self) -> None:
        self.is_contested_for_good = False
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()

    def _wait(self) -> None:
        self._session_id = 0
        if self._deadline is None and not self.is_contested_for_good:
            self._log.warn(
                "{path} belongs to another session; waiting up to {limit:g} s for its"
                " end",
                path=self._node.path,
                limit=self._limit_s,
            )
            self._deadline = self._clock.callLater(self._limit_s, self._long_enough)

    def _long_enough(self) -> None:
        self._deadline = None
        self.is_contested_for_good = True
        self._look()

    def _watch_over(self, watch: Deferred[NodeEvent]) -> None:
        before, self._watch = self._watch, watch
        drop(before)
        watch.addBoth(self._fired, watch)

    def _fired(self, fired: NodeEvent | Failure, watch: Deferred[NodeEvent]) -> None:
        if self._watch is watch:
            self._watch = None
            if not isinstance(fired, Failure):
                self.doubt()
