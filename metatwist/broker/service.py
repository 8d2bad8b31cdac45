"""The broker as a Twisted service: what happens at start, at stop, at a reload.

Start: lock the data roots, coordinate, load the partitions, listen, open the control
socket, register. Stop: withdraw, listen no more, finish what was accepted, sync, end
the coordination, leave clean-stop markers, unlock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, DeferredList, inlineCallbacks, succeed
from twisted.internet.endpoints import serverFromString
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.broker.assembly import Ground, Parts, assemble
from metatwist.broker.commit import CommitQueue
from metatwist.broker.control import ControlService
from metatwist.broker.coordinating import leave
from metatwist.broker.filters import Filters
from metatwist.broker.idle import IdleConnections
from metatwist.broker.lane import Lane, has_lanes
from metatwist.broker.loading import Loading, log_reports
from metatwist.broker.operations import synced
from metatwist.broker.protocol import BrokerFactory
from metatwist.broker.schedule import RetentionSchedule
from metatwist.broker.settings import BrokerSettings
from metatwist.broker.storage.files import FileOps
from metatwist.broker.transport import ListeningReactor
from metatwist.broker.verbs import AdminVerbs
from metatwist.errors import AdminError, StartAbandoned
from metatwist.local_socket import CONTROL_SOCKET_NAME

STOP_LIMIT_S = 10.0


class Broker(MultiService):
    """The whole broker as a service.

    `started` fires when it listens, or fails with the reason why it does not. `files`
    and `seconds` (the wall clock) can be replaced in tests.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        settings: BrokerSettings,
        files: FileOps | None = None,
        seconds: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._reactor = reactor
        self.ground = Ground(reactor, settings, files or FileOps(), seconds)
        self.catalog = self.ground.catalog
        self.started: Deferred[None] = Deferred()
        self.parts: Parts | None = None
        self._stopped: Deferred[Any] | None = None
        self._starting: Deferred[None] = succeed(None)
        self._loading: Loading | None = None
        self._stop_requested = self._stop_hurries = False

    @property
    def settings(self) -> BrokerSettings:
        """Those in force."""
        return self.ground.settings

    # -- start --------------------------------------------------------------------

    def lock(self) -> None:
        """Take the data roots; raises StorageError when that can't be done."""
        settings = self.settings
        roots = [settings.data_path]
        roots += [topic.data_path for topic in settings.topics.values()]
        self._roots = list(dict.fromkeys(roots))
        self.catalog.lock(self._roots)

    def startService(self) -> None:
        """Begin to load; the rest follows by itself."""
        super().startService()
        self._starting = Deferred()
        self.ground.sync_pool.start()
        self.ground.background_pool.start()
        starting = self._start()
        starting.addBoth(self._start_ended)

    def _start_ended(self, result: Any) -> None:
        # First, since who hears of it may stop the broker, which waits for this.
        self._starting.callback(None)
        if isinstance(result, Failure):
            self.started.errback(result)
        else:
            self.started.callback(None)

    @inlineCallbacks
    def _start(self) -> Any:
        yield self.ground.coordination.start()
        if self._stopped is not None:
            raise StartAbandoned("stopped before it had loaded")
        found = self.catalog.discover(self._roots)
        self.catalog.problems = found.problems
        for problem in found.problems:
            self._log.warn("{problem}", problem=problem)
        self._loading = Loading(
            self._reactor, self.ground.sync_pool, self.catalog, found
        )
        yield self._loading.start()
        if self._stopped is not None:
            raise StartAbandoned("stopped while it was loading")
        log_reports(self.catalog)
        if any(log.log_end for log in self.catalog.logs.values()):
            self.ground.coordination.look_for_groups()
        if has_lanes():
            self.ground.lane = Lane(self._reactor, self.ground.turn)
        self.parts = assemble(self.ground)
        self._check_filters(self.parts.filters)
        yield self._listen(self.parts)
        self._start_services(self.parts)

    @inlineCallbacks
    def _listen(self, parts: Parts) -> Any:
        reactor = self._reactor
        if self.ground.lane is not None:
            reactor = ListeningReactor(reactor, self.ground.lane)
        endpoint = serverFromString(reactor, self.settings.broker_endpoint)
        parts.port = yield endpoint.listen(parts.factory)
        self._log.info(
            "broker {id} listens on {where}, known as {address}",
            id=self.settings.broker_id,
            where=self.settings.broker_endpoint,
            address=self.ground.address(),
        )

    def _start_services(self, parts: Parts) -> None:
        cleaning = parts.cleaning
        services = [
            IdleConnections(self._reactor, parts.factory, self.ground.numbers),
            RetentionSchedule(
                self._reactor, cleaning.expressions, cleaning.run, self.ground.seconds
            ),
        ]
        if self.settings.control_socket:
            verbs = AdminVerbs(
                self, parts.operations, parts.topics, parts.views, parts.moving
            )
            path = self.settings.data_path.resolve() / CONTROL_SOCKET_NAME
            services.append(ControlService(self._reactor, path, verbs.table()))
        if parts.registrar is not None:
            services.append(parts.registrar)
        for service in services:
            service.setServiceParent(self)
        parts.verifying.start()

    # -- stop ---------------------------------------------------------------------

    def stopService(self) -> Deferred[Any]:
        """Fires when nothing that was acknowledged can be lost any more."""
        if self._stopped is None:
            self._stopped = self._stop()
        again: Deferred[Any] = Deferred()
        self._stopped.chainDeferred(again)
        self._stopped.addBoth(lambda _: None)
        return again

    @inlineCallbacks
    def _stop(self) -> Any:
        if self._loading is not None:
            self._loading.abandoned = True
        yield self._starting
        parts = self.parts
        if parts is not None:
            if parts.registrar is not None:
                yield leave(
                    self._reactor,
                    parts.registrar,
                    parts.factory,
                    lambda: self._stop_hurries,
                )
            if parts.port is not None:
                yield parts.port.stopListening()
            parts.cleaning.stopping = True
            yield parts.verifying.stop() or succeed(None)
        yield super().stopService()
        if parts is not None:
            yield self._finish_connections(parts.factory)
            parts.polls.stop()
            yield self._sync_all(list(parts.topics.queues.values()))
        yield self.ground.coordination.stop()
        # Whatever has led here, a connection's end say, is to be over as well.
        yield deferLater(self._reactor, 0, lambda: None)
        # What still runs on threads, a load say, must be over before the lock is given
        # free; joining them blocks, and nothing is left to serve.
        self.ground.sync_pool.stop()
        self.ground.background_pool.stop()
        if parts is not None and parts.kernel is not None:
            parts.kernel.close()
        if self.ground.lane is not None:
            self.ground.lane.close()
        self._say_goodbye()
        self.catalog.close()

    def _say_goodbye(self) -> None:
        unsynced = [
            f"{topic}-{partition} ({log.unsynced_bytes} bytes)"
            for (topic, partition), log in self.catalog.logs.items()
            if log.unsynced_bytes or log.failure is not None
        ]
        if unsynced:
            self._log.critical(
                "broker stopped; NOT known to be on disk: {partitions}",
                partitions=", ".join(unsynced),
            )
        elif self.parts is not None:
            self._log.info("broker stopped, all that was acknowledged is on disk")

    def _finish_connections(self, factory: BrokerFactory) -> Deferred[Any]:
        """Answer what was accepted; those who do not read are cut off at the limit."""
        ended = [connection.finish() for connection in list(factory.connections)]
        everyone = DeferredList(ended)

        def cut_off() -> None:
            for connection in list(factory.connections):
                connection.transport.abortConnection()

        timer = self._reactor.callLater(STOP_LIMIT_S, cut_off)
        return everyone.addBoth(lambda _: timer.active() and timer.cancel())

    @inlineCallbacks
    def _sync_all(self, queues: list[CommitQueue]) -> Any:
        for queue in queues:
            queue.cancel_timer()
        yield DeferredList([synced(queue) for queue in queues])

    def request_stop(self) -> str:
        """Stop in order, after the answer to this has left; a second request ends the
        wait for clients that have yet to notice."""
        if self._stopped is not None:
            self._log.info("asked to stop again: not waiting for clients to notice")
            self._stop_hurries = True
        elif not self._stop_requested:
            self._stop_requested = True
            self._reactor.callLater(0.1, self._reactor.stop)
        return "stopping"

    # -- operations ---------------------------------------------------------------

    def reload(self) -> Any:
        """Replaced by the tap, which knows where the settings come from."""
        raise AdminError("this broker was started without a configuration to reload")

    def apply(self, settings: BrokerSettings) -> None:
        """Put reloaded settings in force."""
        self.ground.settings = settings
        if self.parts is not None:
            self.parts.topics.apply(settings)
            self.parts.filters.forget()
            self._check_filters(self.parts.filters)

    def _check_filters(self, filters: Filters) -> None:
        for problem in filters.check():
            self._log.error("{problem}", problem=problem)
