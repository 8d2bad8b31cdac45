"""The coordinator that the settings ask for, from its start to its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger

from metatwist.broker.descriptors import coordinator_connections, raise_limit
from metatwist.broker.lane import Lane, PlainTurn, has_lanes
from metatwist.broker.protocol import BrokerFactory
from metatwist.broker.registrar import Registrar
from metatwist.broker.settings import BrokerSettings
from metatwist.broker.settings.coordination import tree_settings
from metatwist.broker.transport import ListeningReactor
from metatwist.coordination.embedded.connection import MAX_CONNECTIONS
from metatwist.coordination.embedded.service import (
    EmbeddedCoordinator,
    EmbeddedSettings,
)
from metatwist.coordination.ensemble import EnsembleCoordinator, EnsembleSettings
from metatwist.coordination.errors import CoordinationError, NoNode
from metatwist.coordination.interface import ICoordinator
from metatwist.coordination.layout import Layout

_LOOK_S = 0.05
# Of clients with offsets to commit; a put must not wait for many of them.
_ROUND = 64
_FEW_CONNECTIONS = 1_000
_log = Logger()


class Coordination:
    """Starts and stops the coordinator; `coordinator` is None where there is none.

    Nothing runs before `start`. `embedded` is that kind of coordinator, or None.
    """

    def __init__(self, reactor: Any, settings: BrokerSettings) -> None:
        self.embedded: EmbeddedCoordinator | None = None
        self.coordinator: ICoordinator | None = None
        self._began = False
        self._reactor = reactor
        self._lane: Lane | None = None
        self._settings = settings
        if settings.coordinator == "embedded":
            wanted = EmbeddedSettings(
                settings.coordinator_path, settings.coordinator_endpoint
            )
            self.embedded = EmbeddedCoordinator(reactor, wanted)
            self.coordinator = self.embedded
        elif settings.coordinator == "ensemble":
            self.coordinator = EnsembleCoordinator(reactor, ensemble_settings(settings))

    def start(self) -> Deferred[None]:
        """Fires when an embedded coordinator serves, or fails with the reason why it
        does not. An ensemble is met in the background, however long that takes."""
        coordinator: Any = self.coordinator
        if coordinator is None:
            return succeed(None)
        self._began = True
        if self.embedded is not None:
            self._equip(self.embedded)
        coordinator.startService()
        return succeed(None) if self.embedded is None else self.embedded.ready

    def _equip(self, embedded: EmbeddedCoordinator) -> None:
        limit = raise_limit()
        room = coordinator_connections(self._settings, limit, MAX_CONNECTIONS)
        embedded.max_connections = room
        if room < _FEW_CONNECTIONS:
            _log.warn(
                "room for {room} connections to the coordinator: the system allows"
                " {limit} open files, and {files} are kept for segments (ulimit -n,"
                " maxOpenSegments)",
                room=room,
                limit=limit,
                files=self._settings.max_open_segments,
            )
        if has_lanes():
            # As for puts: the reactor's own way costs more than a commit of an offset.
            self._lane = Lane(self._reactor, PlainTurn(), 0, _ROUND)
            embedded.listening = ListeningReactor(self._reactor, self._lane)

    @inlineCallbacks
    def look_for_groups(self) -> Any:
        """To be called where there are messages: says so when an embedded coordinator
        knows no group of consumers, since moving a broker takes two directories."""
        if self.embedded is None:
            return
        groups = Layout(tree_settings(self._settings).root).groups()
        try:
            known = yield self.embedded.get_children(groups)
        except NoNode:
            known = []
        except CoordinationError:
            return
        if not known:
            _log.info(
                "this coordinator knows no consumer group yet; if the data was moved or"
                " restored, move {path} as well: the consumers' offsets are there",
                path=self._settings.coordinator_path,
            )

    def stop(self) -> Deferred[Any]:
        """End the session, and what serves others; ephemeral nodes go with it. Never
        fails: the logs of the broker must be closed, whatever becomes of this."""
        coordinator: Any = self.coordinator
        if not self._began:
            return succeed(None)
        stopping = maybeDeferred(coordinator.stopService)
        stopping.addErrback(partial(_log.failure, "coordination did not stop"))
        return stopping.addCallback(self._close_lane)

    def _close_lane(self, result: Any) -> Any:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.close()
        return result


def ensemble_settings(settings: BrokerSettings) -> EnsembleSettings:
    """How to reach the ensemble of `[zookeeper]`, and as whom."""
    tree = tree_settings(settings)
    credentials = None
    if settings.zookeeper_auth is not None:
        scheme, _, secret = settings.zookeeper_auth.partition(":")
        credentials = scheme, secret
    return EnsembleSettings(
        connect=tree.connect,
        session_timeout_s=tree.session_timeout_ms / 1000,
        connection_timeout_s=tree.connection_timeout_ms / 1000,
        credentials=credentials,
        acl=settings.zookeeper_acl,
    )


@inlineCallbacks
def leave(
    reactor: Any,
    registrar: Registrar,
    factory: BrokerFactory,
    hurries: Callable[[], bool] = lambda: False,
) -> Any:
    """Withdraw, and let clients notice while they are still served (spec layout 4.5).

    Fires after the sync time, or as soon as no client is connected or somebody hurries.
    """
    if not (yield registrar.withdraw()):
        return
    left_s = tree_settings(registrar.settings).sync_time_ms / 1000
    while factory.connections and left_s > 0 and not hurries():
        yield deferLater(reactor, min(left_s, _LOOK_S), lambda: None)
        left_s -= _LOOK_S
