"""A coordinator that is a ZooKeeper ensemble, by way of kazoo.

No call from a thread of kazoo's reaches this module or a user's Deferred: everything
goes through `reactor.callFromThread`, see `kazoo_bridge`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail, inlineCallbacks
from zope.interface import implementer

from metatwist.coordination.embedded.paths import check_path
from metatwist.coordination.ensemble_session import EnsembleSession, Start
from metatwist.coordination.ensemble_settings import EnsembleSettings
from metatwist.coordination.errors import BadArguments, NodeExists, NoNode
from metatwist.coordination.interface import (
    Create,
    Data,
    ICoordinator,
    NodeStat,
    Operation,
    SessionState,
    StateListener,
    WatchedChildren,
    WatchedData,
    WatchedStat,
)
from metatwist.coordination.kazoo_bridge import KazooParts
from metatwist.coordination.kazoo_values import (
    acl_for,
    check_operation,
    fill_transaction,
    results_from,
    stat_from,
)

__all__ = ["EnsembleCoordinator", "EnsembleSettings"]


@implementer(ICoordinator)
class EnsembleCoordinator(Service):
    """A session with an ensemble (spec layout 1, 2, 4.7, 9).

    A request while there is no connection fails with ConnectionLost at once, one whose
    connection breaks as soon as that is known, and one that is not answered within
    `connection_timeout_s` with OperationTimeout.
    """

    def __init__(
        self,
        reactor: Any,
        settings: EnsembleSettings,
        parts: KazooParts | None = None,
    ) -> None:
        self._settings = settings
        self._session = EnsembleSession(reactor, settings, parts or KazooParts())

    def startService(self) -> None:
        """Begin to connect, in the background and for as long as it takes."""
        super().startService()
        self._session.start()

    def stopService(self) -> Deferred[None]:
        """Close the session, so that its ephemerals go at once; fires when that is
        done, after a few seconds if the server does not answer, at once if there is no
        connection. Requests fail with ConnectionLost, watches with SessionExpired."""
        super().stopService()
        return self._session.stop()

    # -- how it does -------------------------------------------------------------

    @property
    def state(self) -> SessionState:
        """See ICoordinator."""
        return self._session.state

    @property
    def session_id(self) -> int:
        """See ICoordinator."""
        return self._session.session_id

    @property
    def session_timeout_s(self) -> float | None:
        """See ICoordinator."""
        return self._session.session_timeout_s

    @property
    def server(self) -> str:
        """`host:port` of the server it is connected to; empty without connection."""
        return self._session.server

    @property
    def chroot(self) -> str:
        """The znode that is the root here, without a slash at the end; empty for none.
        Paths in errors do not have it."""
        return self._settings.target.chroot

    @property
    def problem(self) -> str | None:
        """Why it is not connected now, or only for reading; None if it is."""
        return self._session.outage.problem

    @property
    def problem_since_s(self) -> float | None:
        """When that began, by the reactor's clock (s since 1970); None if it is."""
        return self._session.outage.since_s

    @property
    def description(self) -> str:
        """See ICoordinator."""
        target = f"ZooKeeper {self._settings.target}"
        if self.problem is not None:
            return f"{target} ({self.problem})"
        return f"{target}, now {self.server}" if self.server else target

    def on_state(self, call: StateListener) -> Callable[[], None]:
        """See ICoordinator."""
        return self._session.listeners.add(call)

    # -- writing -----------------------------------------------------------------

    def create(
        self,
        path: str,
        data: bytes | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> Deferred[str]:
        """See ICoordinator; parents are made by the lazy rule of spec layout 2."""
        node = Create(path, data, ephemeral, sequence)
        if make_parents:
            return self._create_with_parents(node)
        return self._create(node)

    def _create(self, node: Create) -> Deferred[str]:
        def start(client: Any) -> Any:
            check_operation(node)
            acl = acl_for(self._settings.acl, node)
            return client.create_async(
                node.path, node.data, acl, node.ephemeral, node.sequence
            )

        return self._session.ask(start, node.path)

    @inlineCallbacks
    def _create_with_parents(self, node: Create) -> Any:
        parent = node.path.rpartition("/")[0]
        try:
            created = yield self._create(node)
        except NoNode:
            if not parent:
                raise
            with suppress(NodeExists):  # somebody else was quicker
                yield self._create_with_parents(Create(parent))
            created = yield self._create(node)
        return created

    def delete(self, path: str, version: int = -1) -> Deferred[None]:
        """See ICoordinator."""
        asked = self._ask(path, lambda client: client.delete_async(path, version))
        return asked.addCallback(_nothing)

    def set(
        self, path: str, data: bytes | None, version: int = -1
    ) -> Deferred[NodeStat]:
        """See ICoordinator."""
        asked = self._ask(path, lambda client: client.set_async(path, data, version))
        return asked.addCallback(stat_from)

    def transaction(self, operations: Sequence[Operation]) -> Deferred[list[object]]:
        """See ICoordinator."""

        def start(client: Any) -> Any:
            transaction = client.transaction()
            fill_transaction(transaction, operations, self._settings.acl)
            return transaction.commit_async()

        subject = ", ".join(operation.path for operation in operations)
        asked = self._session.ask(start, subject)
        return asked.addCallback(lambda answers: results_from(operations, answers))

    # -- reading -----------------------------------------------------------------

    def exists(self, path: str) -> Deferred[NodeStat | None]:
        """See ICoordinator."""
        asked = self._ask(path, lambda client: client.exists_async(path))
        return asked.addCallback(_optional_stat)

    def get(self, path: str) -> Deferred[Data]:
        """See ICoordinator."""
        return self._ask(path, lambda client: client.get_async(path)).addCallback(_data)

    def get_children(self, path: str) -> Deferred[list[str]]:
        """See ICoordinator."""
        asked = self._ask(path, lambda client: client.get_children_async(path))
        return asked.addCallback(sorted)

    def exists_and_watch(self, path: str) -> Deferred[WatchedStat]:
        """See ICoordinator."""
        watches = self._session.watches

        def watched(stat: Any) -> WatchedStat:
            seen = _optional_stat(stat)
            return seen, watches.watch_data(path, seen)

        def start(client: Any) -> Any:
            return client.exists_async(path, watch=watches.data_event)

        return self._ask(path, start).addCallback(watched)

    def get_and_watch(self, path: str) -> Deferred[WatchedData]:
        """See ICoordinator."""
        watches = self._session.watches

        def watched(answer: Any) -> WatchedData:
            data, seen = _data(answer)
            return data, seen, watches.watch_data(path, seen)

        def start(client: Any) -> Any:
            return client.get_async(path, watch=watches.data_event)

        return self._ask(path, start).addCallback(watched)

    def get_children_and_watch(self, path: str) -> Deferred[WatchedChildren]:
        """See ICoordinator."""
        watches = self._session.watches

        def watched(answer: Any) -> WatchedChildren:
            names, stat = answer
            return sorted(names), watches.watch_children(path, stat_from(stat))

        def start(client: Any) -> Any:
            watch = watches.child_event
            return client.get_children_async(path, watch=watch, include_data=True)

        return self._ask(path, start).addCallback(watched)

    def sync(self, path: str) -> Deferred[None]:
        """See ICoordinator."""
        asked = self._ask(path, lambda client: client.sync_async(path))
        return asked.addCallback(_nothing)

    def _ask(self, path: str, start: Start) -> Deferred[Any]:
        try:
            check_path(path)
        except BadArguments as error:
            return fail(error)
        return self._session.ask(start, path)


def _nothing(_answer: object) -> None:
    return None


def _optional_stat(stat: Any) -> NodeStat | None:
    return None if stat is None else stat_from(stat)


def _data(answer: Any) -> Data:
    data, stat = answer
    return data or b"", stat_from(stat)
