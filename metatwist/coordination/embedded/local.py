"""The embedded coordinator as its own process uses it: no connection, no codec."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from metatwist.coordination.embedded.paths import check_path, parent_of
from metatwist.coordination.embedded.realm import NoJournal, Realm
from metatwist.coordination.embedded.sessions import Session
from metatwist.coordination.embedded.tree import Tree
from metatwist.coordination.errors import (
    ConnectionLost,
    CoordinationError,
    NoNode,
    SessionExpired,
)
from metatwist.coordination.interface import (
    Check,
    Create,
    Data,
    EventKind,
    ICoordinator,
    NodeEvent,
    NodeStat,
    Operation,
    SessionState,
    SetData,
    StateListener,
    WatchedChildren,
    WatchedData,
    WatchedStat,
)
from metatwist.coordination.state_listeners import StateListeners


class _Watch:
    """A watch as a Deferred, fired in a turn of its own: the tree is being changed."""

    def __init__(self, owner: LocalCoordinator, drop: Callable[[Any], None]) -> None:
        self._owner = owner
        self._drop = drop
        self.fired: Deferred[NodeEvent] = Deferred(lambda _: self.forget())
        owner.watching[self] = None

    def forget(self) -> None:
        self._drop(self)
        self._owner.watching.pop(self, None)

    def notify(self, kind: EventKind, path: str) -> None:
        self._owner.watching.pop(self, None)
        self._owner.soon(self._fire, NodeEvent(kind, path))

    def _fire(self, event: NodeEvent) -> None:
        if not self.fired.called:
            self.fired.callback(event)

    def expire(self) -> None:
        self._drop(self)
        if not self.fired.called:
            self.fired.errback(SessionExpired())


@implementer(ICoordinator)
class LocalCoordinator:
    """ICoordinator over a realm in this process.

    Reads answer at once; a write answers once it is on disk. `open` begins a session
    that lasts until `close`, or until another `open`.
    """

    description = "in this process"
    session_timeout_s: float | None = None

    def __init__(self, reactor: Any) -> None:
        self.watching: dict[_Watch, None] = {}
        self.state = SessionState.CONNECTING
        self.realm: Realm | None = None
        self._reactor = reactor
        self._session: Session | None = None
        self._listeners = StateListeners()
        self._writes: list[tuple[int, Deferred[Any], Any]] = []

    @classmethod
    def in_memory(cls, reactor: Any) -> LocalCoordinator:
        """One with a tree of its own that nothing remembers."""
        found = cls(reactor)
        found.open(
            Realm.over(NoJournal(), reactor.seconds, lambda: int(time.time() * 1000))
        )
        return found

    @property
    def session_id(self) -> int:
        """0 while there is none."""
        return self._session.id if self._session is not None else 0

    def on_state(self, call: StateListener) -> Callable[[], None]:
        """See ICoordinator."""
        return self._listeners.add(call)

    def soon(self, call: Callable[..., object], *arguments: object) -> None:
        """Call in a turn of its own."""
        self._reactor.callLater(0, call, *arguments)

    def open(self, realm: Realm) -> None:
        """Begin a session; one that was open ends first, with all it had."""
        self._end_session()
        if realm is not self.realm:
            realm.journal.on_durable(self._release)
        self.realm = realm
        self._session = realm.sessions.begin_lasting()
        self._change_state(SessionState.CONNECTED)

    def suspend(self) -> None:
        """Answer no more; what waits for the disk fails."""
        self._fail_writes()
        if self._session is not None:
            self._change_state(SessionState.SUSPENDED)

    def close(self) -> None:
        """End the session."""
        self._end_session()
        self._change_state(SessionState.CLOSED)

    def _end_session(self) -> None:
        session, self._session = self._session, None
        # Before the ephemerals go: what that fires is no longer for this session.
        watching, self.watching = self.watching, {}
        for watch in watching:
            watch.expire()
        if session is not None and self.realm is not None:
            self.realm.sessions.end(session)
        self._fail_writes()

    def _fail_writes(self) -> None:
        writes, self._writes = self._writes, []
        for _, waiting, _ in writes:
            if not waiting.called:
                waiting.errback(ConnectionLost())

    def _change_state(self, state: SessionState) -> None:
        self.state = state
        for call in self._listeners:
            call(state)

    # -- verbs --------------------------------------------------------------------

    def _opened(self) -> tuple[Realm, Session]:
        realm, session = self.realm, self._session
        if self.state is not SessionState.CONNECTED or realm is None or session is None:
            raise ConnectionLost
        return realm, session

    def _answer(self, call: Callable[[Tree, Session], Any]) -> Deferred[Any]:
        try:
            realm, session = self._opened()
            return succeed(call(realm.tree, session))
        except CoordinationError:
            return fail()

    def _write(self, call: Callable[[Tree, Session], Any]) -> Deferred[Any]:
        try:
            realm, session = self._opened()
            value = call(realm.tree, session)
        except CoordinationError:
            return fail()
        journal = realm.journal
        if journal.durable >= journal.recorded:
            return succeed(value)
        waiting: Deferred[Any] = Deferred()
        self._writes.append((journal.recorded, waiting, value))
        return waiting

    def _release(self, durable: int) -> None:
        ready = [one for one in self._writes if one[0] <= durable]
        self._writes = [one for one in self._writes if one[0] > durable]
        for _, waiting, value in ready:
            if not waiting.called:
                waiting.callback(value)

    def create(
        self,
        path: str,
        data: bytes | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> Deferred[str]:
        """See ICoordinator."""

        def make(tree: Tree, session: Session) -> str:
            if make_parents:
                check_path(f"{path}1" if sequence else path)
                _make_parents(tree, session, path)
            flags = ephemeral + 2 * sequence
            return tree.create(session, path, data, flags=flags)

        return self._write(make)

    def delete(self, path: str, version: int = -1) -> Deferred[None]:
        """See ICoordinator."""
        return self._write(lambda tree, session: tree.delete(session, path, version))

    def exists(self, path: str) -> Deferred[NodeStat | None]:
        """See ICoordinator."""
        return self._answer(lambda tree, _: _stat_of(tree, path))

    def get(self, path: str) -> Deferred[Data]:
        """See ICoordinator."""
        return self._answer(partial(_data_of, path))

    def set(
        self, path: str, data: bytes | None, version: int = -1
    ) -> Deferred[NodeStat]:
        """See ICoordinator."""
        return self._write(
            lambda tree, session: tree.set_data(session, path, data, version).stat
        )

    def get_children(self, path: str) -> Deferred[list[str]]:
        """See ICoordinator."""
        return self._answer(partial(_children_of, path))

    def exists_and_watch(self, path: str) -> Deferred[WatchedStat]:
        """See ICoordinator."""

        def look(tree: Tree, _: Session) -> WatchedStat:
            return _stat_of(tree, path), self._watch_data(tree, path)

        return self._answer(look)

    def get_and_watch(self, path: str) -> Deferred[WatchedData]:
        """See ICoordinator."""

        def look(tree: Tree, session: Session) -> WatchedData:
            data, stat = _data_of(path, tree, session)
            return data, stat, self._watch_data(tree, path)

        return self._answer(look)

    def get_children_and_watch(self, path: str) -> Deferred[WatchedChildren]:
        """See ICoordinator."""

        def look(tree: Tree, session: Session) -> WatchedChildren:
            children = _children_of(path, tree, session)
            watch = _Watch(self, partial(tree.watches.drop_children, path))
            tree.watches.watch_children(path, watch)
            return children, watch.fired

        return self._answer(look)

    def _watch_data(self, tree: Tree, path: str) -> Deferred[NodeEvent]:
        watch = _Watch(self, partial(tree.watches.drop_data, path))
        tree.watches.watch_data(path, watch)
        return watch.fired

    def transaction(self, operations: Sequence[Operation]) -> Deferred[list[object]]:
        """See ICoordinator."""

        def run(tree: Tree, session: Session) -> list[object]:
            return tree.transaction(
                [partial(_do, tree, session, o) for o in operations]
            )

        return self._write(run)

    def sync(self, path: str) -> Deferred[None]:
        """See ICoordinator."""
        return self._write(lambda tree, session: None)


def _make_parents(tree: Tree, session: Session, path: str) -> None:
    above = parent_of(path)
    if above not in tree.nodes:
        _make_parents(tree, session, above)
        tree.create(session, above, None)


def _stat_of(tree: Tree, path: str) -> NodeStat | None:
    try:
        return tree.find(path).stat
    except NoNode:
        return None


def _data_of(path: str, tree: Tree, session: Session) -> Data:
    node = tree.read(session, path)
    return node.data or b"", node.stat


def _children_of(path: str, tree: Tree, session: Session) -> list[str]:
    return sorted(tree.read(session, path).children)


def _do(tree: Tree, session: Session, operation: Operation) -> str | NodeStat | None:
    if isinstance(operation, Create):
        flags = operation.ephemeral + 2 * operation.sequence
        return tree.create(session, operation.path, operation.data, flags=flags)
    if isinstance(operation, SetData):
        changed = tree.set_data(
            session, operation.path, operation.data, operation.version
        )
        return changed.stat
    if isinstance(operation, Check):
        tree.check(session, operation.path, operation.version)
    else:
        tree.delete(session, operation.path, operation.version)
    return None
