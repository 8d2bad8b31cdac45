"""The embedded coordinator as a service: load the tree, listen, keep time, end.

It serves its own process as an ICoordinator and everyone else on a port.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.application.service import Service
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred, succeed
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.task import LoopingCall, deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from metatwist.coordination.embedded.connection import (
    MAX_CONNECTIONS,
    TICK_S,
    TreeServer,
)
from metatwist.coordination.embedded.journal import Journal
from metatwist.coordination.embedded.listening import (
    CoordinatorPortTaken,
    is_plain,
    place_of,
)
from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.embedded.numbers import TreeNumbers
from metatwist.coordination.embedded.realm import Realm
from metatwist.coordination.embedded.sessions import Session
from metatwist.coordination.embedded.store import LostFiles, MemoryStore, NodeStore
from metatwist.errors import StorageError

MOST_LOGGED = 20
"""Damaged znodes; `damage` has all."""

_LATE_S = 1.0
_GOODBYE_S = 1.0
_LOOK_S = 0.02
DATABASE_NAME = "tree.sqlite3"


@frozen
class EmbeddedSettings:
    """`directory` holds the database, None keeps all in memory; `endpoint` is a Twisted
    server endpoint."""

    directory: Path | None
    endpoint: str


class EmbeddedCoordinator(LocalCoordinator, Service):
    """ICoordinator, and a ZooKeeper server on `settings.endpoint`.

    `ready` fires once it listens, or fails with the reason: StorageError or
    CoordinatorPortTaken. `damage` has a sentence for each stored znode that could not
    be read and is missing. `listening` is the reactor that has its connections, of
    which there are `max_connections` at most; both count at the start.
    """

    def __init__(
        self,
        reactor: Any,
        settings: EmbeddedSettings,
        seconds: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(reactor)
        self.description = f"embedded, {settings.endpoint}"
        self.ready: Deferred[None] = Deferred()
        self.damage: tuple[str, ...] = ()
        self.server: TreeServer | None = None
        self.listening = reactor
        self.max_connections = MAX_CONNECTIONS
        self.port: Any = None
        self._log = Logger()
        self._settings = settings
        self._seconds = seconds
        self._pool = ThreadPool(0, 1, "coordinator")
        self._store = _store_for(settings)
        self._journal = Journal(reactor, self._store, self._run)
        self._journal.on_failure(self._journal_failed)
        self._clock = LoopingCall(self._tick)
        self._clock.clock = reactor
        self._last_tick_s = 0.0
        self._starting: Deferred[None] = succeed(None)
        self._is_stored = self._is_full = False
        self._stopped: Deferred[Any] | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong now."""
        return self._journal.failed or self._journal.stalled

    @property
    def stalled(self) -> bool:
        """Whether changes wait, unanswered, for room on the disk."""
        return self._journal.stalled is not None and not self.failed

    @property
    def failed(self) -> bool:
        """Whether the disk has failed, so that nobody is answered until a restart."""
        return self._journal.failed is not None

    @property
    def numbers(self) -> TreeNumbers | None:
        """How much it has to do; None before it listens."""
        return None if self.server is None else TreeNumbers.of(self.server)

    def _run(self, call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._pool, call, *arguments)

    def startService(self) -> None:
        """Begin to load; `ready` tells the end."""
        super().startService()
        self._pool.start()
        self._starting = Deferred()
        self._start().addBoth(self._start_ended)

    def _start_ended(self, result: Any) -> None:
        self._starting.callback(None)
        if isinstance(result, Failure):
            self.ready.errback(result)
        else:
            self.ready.callback(None)

    @inlineCallbacks
    def _start(self) -> Any:
        try:
            loaded = yield self._run(self._store.open)
        except StorageError as error:
            raise type(error)(f"[metatwist] coordinatorPath: {error}") from error
        self._is_stored = True
        self.damage = tuple(loaded.problems)
        for problem in self.damage[:MOST_LOGGED]:
            self._log.error("{problem}", problem=problem)
        realm = Realm.over(
            self._journal,
            self._reactor.seconds,
            lambda: int(self._seconds() * 1000),
            loaded.nodes,
            loaded.epoch,
        )
        where = self._settings.endpoint
        self.server = TreeServer(realm, self.max_connections, is_plain(where))
        endpoint = serverFromString(self.listening, where)
        try:
            self.port = yield endpoint.listen(self.server)
        except (CannotListenError, OSError) as error:
            reason = getattr(error, "socketError", None) or error
            raise CoordinatorPortTaken(where, reason) from None
        self._last_tick_s = self._reactor.seconds()
        self._clock.start(TICK_S, now=False).addErrback(self._clock_broke)
        self._log.info(
            "embedded coordinator listens on {where} with {count} nodes",
            where=place_of(where, self.port),
            count=len(realm.tree.nodes),
        )
        self.open(realm)

    def _clock_broke(self, failure: Failure) -> None:
        self._log.failure("sessions no longer expire", failure=failure)

    def _tick(self) -> None:
        """Expire sessions; but after a pause of our own, first let them speak."""
        if self.server is None:
            return
        now_s = self._reactor.seconds()
        late_s = now_s - self._last_tick_s - TICK_S
        self._last_tick_s = now_s
        if late_s > _LATE_S:
            self._log.warn(
                "this process stood still for {pause:.1f} s; all sessions get that"
                " much more time",
                pause=late_s,
            )
            self.server.realm.sessions.forgive(late_s)
        self._tell_expired(self.server.tick())
        self._tell_full(self.server)

    def _tell_expired(self, over: list[Session]) -> None:
        if len(over) == 1:
            self._log.info("session {id:#x} has expired", id=over[0].id)
        elif over:
            self._log.info(
                "{count} sessions have expired, the first {id:#x}",
                count=len(over),
                id=over[0].id,
            )

    def _tell_full(self, server: TreeServer) -> None:
        """Once, until half of the connections have gone."""
        if server.turned_away and not self._is_full:
            self._is_full = True
            self._log.warn(
                "the coordinator turns clients away: there are {limit} connections",
                limit=server.max_connections,
            )
        if len(server.connections) <= server.max_connections // 2:
            self._is_full = False
        server.turned_away = 0

    def _journal_failed(self, reason: str) -> None:
        self._log.critical(
            "embedded coordinator: {reason}; it answers nobody until the broker is"
            " restarted",
            reason=reason,
        )
        self.suspend()
        self._stop_listening()
        if self.server is not None:
            self.server.abort_all()

    def stopService(self) -> Deferred[Any]:
        """Fires once nobody is connected and all that was answered is on disk."""
        if self._stopped is None:
            super().stopService()
            self._stopped = self._stop()
        again: Deferred[Any] = Deferred()
        self._stopped.chainDeferred(again)
        self._stopped.addBoth(lambda _: None)
        return again

    @inlineCallbacks
    def _stop(self) -> Any:
        yield self._starting
        if self._clock.running:
            self._clock.stop()
        yield self._stop_listening()
        if self.server is not None:
            self.close()
            # Before the journal, which ends when no more changes come.
            self.server.finish_all()
            yield self._journal.stop()
            yield self._say_goodbye(self.server)
        if self._is_stored:
            yield self._run(self._store.close).addErrback(self._not_closed)
        # Joining blocks, for as long as nothing runs there any more: not at all.
        self._pool.stop()

    def _not_closed(self, failure: Failure) -> None:
        failure.trap(StorageError)
        after = "; nothing is lost, the next start reads it"
        self._log.error(
            "embedded coordinator: {reason}{after}",
            reason=failure.value,
            after="" if failure.check(LostFiles) else after,
        )

    def _stop_listening(self) -> Deferred[Any]:
        """Close the port, once: a second time would fail."""
        port, self.port = self.port, None
        return succeed(None) if port is None else maybeDeferred(port.stopListening)

    @inlineCallbacks
    def _say_goodbye(self, server: TreeServer) -> Any:
        """Let answers leave that were given; not for ever."""
        left_s = _GOODBYE_S
        while server.connections and left_s > 0:
            yield deferLater(self._reactor, _LOOK_S, lambda: None)
            left_s -= _LOOK_S
        server.abort_all()


def _store_for(settings: EmbeddedSettings) -> NodeStore | MemoryStore:
    if settings.directory is None:
        return MemoryStore()
    return NodeStore(settings.directory / DATABASE_NAME)
