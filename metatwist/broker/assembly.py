"""Settings and a reactor become a running broker: the one file that knows every part.

Start: lock the data roots, load the partitions, listen, then the control socket. Stop:
listen no more, finish what was accepted, sync, leave clean-stop markers, unlock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, DeferredList, inlineCallbacks, succeed
from twisted.internet.endpoints import serverFromString
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from metatwist.broker.background import Background
from metatwist.broker.cleaning import Cleaning
from metatwist.broker.commit import CommitContext, CommitQueue
from metatwist.broker.control import ControlService
from metatwist.broker.descriptors import left_for_connections, raise_limit
from metatwist.broker.dispatch import Dispatch
from metatwist.broker.filters import Filters
from metatwist.broker.gets import GetPath
from metatwist.broker.idle import IdleConnections
from metatwist.broker.inline_sync import InlineSync, never
from metatwist.broker.lane import Lane, has_lanes
from metatwist.broker.loading import Loading, log_reports
from metatwist.broker.message_ids import MessageIds
from metatwist.broker.metrics import BrokerCollector
from metatwist.broker.moving import Moving
from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.operations import Operations, synced
from metatwist.broker.pressure import DiskPressure
from metatwist.broker.protocol import BrokerFactory
from metatwist.broker.puts import PutPath
from metatwist.broker.schedule import RetentionSchedule
from metatwist.broker.settings import BrokerSettings
from metatwist.broker.stats import Stats
from metatwist.broker.status import Status
from metatwist.broker.storage.catalog import Catalog
from metatwist.broker.storage.file_pool import FilePool
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import LogContext
from metatwist.broker.syncing import ISyncer, KernelSyncer, ThreadSyncer
from metatwist.broker.topics import Topics
from metatwist.broker.transport import ListeningReactor
from metatwist.broker.turn import Turn
from metatwist.broker.verbs import AdminVerbs, Views
from metatwist.broker.verifying import Verifying
from metatwist.errors import AdminError, StartAbandoned
from metatwist.local_socket import CONTROL_SOCKET_NAME

STOP_LIMIT_S = 10.0
_BACKGROUND_THREADS = 2


@define
class Parts:
    """What a started broker is made of."""

    topics: Topics
    filters: Filters
    factory: BrokerFactory
    views: Views
    cleaning: Cleaning
    verifying: Verifying
    moving: Moving
    operations: Operations
    port: Any = None


class Broker(MultiService):
    """The whole broker as a service.

    `started` fires when it listens, or fails with the reason why it does not.
    `reload_settings` reads the configuration anew; `files` and `seconds` (the wall
    clock) can be replaced in tests.
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
        self._settings = settings
        self._files = files or FileOps()
        self._seconds = seconds
        self.numbers = BrokerNumbers()
        self.started: Deferred[None] = Deferred()
        pool = FilePool(self._files, settings.max_open_segments)
        context = LogContext(self._files, pool, settings.max_segment_bytes)
        self.catalog = Catalog(context)
        self._sync_pool = ThreadPool(0, settings.sync_threads, "sync")
        self._background = ThreadPool(0, _BACKGROUND_THREADS, "background")
        self._pressure = DiskPressure(self._most_pending, self.numbers)
        self._turn = Turn(reactor, self._pressure)
        self._lane: Lane | None = None
        self._kernel: KernelSyncer | None = None
        self.parts: Parts | None = None
        self._stopped: Deferred[Any] | None = None
        self._starting: Deferred[None] = succeed(None)
        self._loading: Loading | None = None
        self._stop_requested = False

    @property
    def settings(self) -> BrokerSettings:
        """Those in force."""
        return self.parts.topics.settings if self.parts else self._settings

    def _most_pending(self) -> int:
        return self.settings.max_pending_bytes

    def _address(self) -> str:
        settings = self.settings
        return f"meta://{settings.host_name}:{settings.server_port}"

    # -- start --------------------------------------------------------------------

    def lock(self) -> None:
        """Take the data roots; raises StorageError when that can't be done."""
        settings = self._settings
        roots = [settings.data_path]
        roots += [topic.data_path for topic in settings.topics.values()]
        self._roots = list(dict.fromkeys(roots))
        self.catalog.lock(self._roots)

    def startService(self) -> None:
        """Begin to load; the rest follows by itself."""
        super().startService()
        self._starting = Deferred()
        self._sync_pool.start()
        self._background.start()
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
        found = self.catalog.discover(self._roots)
        self.catalog.problems = found.problems
        for problem in found.problems:
            self._log.warn("{problem}", problem=problem)
        self._loading = Loading(self._reactor, self._sync_pool, self.catalog, found)
        yield self._loading.start()
        if self._stopped is not None:
            raise StartAbandoned("stopped while it was loading")
        log_reports(self.catalog)
        if has_lanes():
            self._lane = Lane(self._reactor, self._turn)
        self.parts = self._assemble()
        self._check_filters(self.parts.filters)
        yield self._listen(self.parts)
        self._start_services(self.parts)

    def _assemble(self) -> Parts:
        background = Background(self._reactor, self._background)
        inline = InlineSync(
            self._files,
            self.numbers,
            self._turn,
            lambda: background.jobs > 0,
            time.monotonic,
        )
        commit = CommitContext(
            sync=self._turn.sync,
            numbers=self.numbers,
            settled=self._turn.settled,
            touch=self._turn.touch,
            stopped=lambda queue: topics.stopped(queue),
            inline=inline.sync if self._settings.inline_sync else never,
            call_later=self._reactor.callLater,
        )
        self._turn.syncer = self._syncer()
        topics = Topics(self._settings, self.catalog, commit)
        ids = MessageIds(self._settings.broker_id, self._seconds)
        for log in self.catalog.logs.values():
            if not ids.rise_above(log.last_id):
                where = str(log.directory)
                self._log.error(
                    "{where}: the last message's id is damaged", where=where
                )
        numbers, files = self.numbers, self._files
        filters = Filters(topics, self._settings.app_class_path)
        puts = PutPath(topics, ids, numbers, self._address)
        gets = GetPath(topics, filters, numbers, files, self._address)
        stats = Stats(topics, numbers, self._reactor.seconds)
        dispatch = Dispatch(topics, puts, gets, stats, numbers)
        cleaning = Cleaning(background, topics, files, self._seconds)
        return Parts(
            topics=topics,
            filters=filters,
            factory=self._factory(dispatch),
            views=Views(
                stats,
                Status(topics, numbers, stats),
                BrokerCollector(numbers, topics),
            ),
            cleaning=cleaning,
            verifying=Verifying(background, topics, files),
            moving=Moving(background, topics, files),
            operations=Operations(background, files, topics, cleaning),
        )

    def _factory(self, dispatch: Dispatch) -> BrokerFactory:
        factory = BrokerFactory(
            dispatch, self._pressure, self._files, self._reactor.callLater
        )
        settings, limit = self._settings, raise_limit()
        room = left_for_connections(limit, settings.max_open_segments)
        factory.descriptors = room
        if room < settings.max_connections:
            self._log.warn(
                "room for {room} connections: the system allows {limit} open files, and"
                " {files} are kept for segments (ulimit -n, maxOpenSegments)",
                room=room,
                limit=limit,
                files=settings.max_open_segments,
            )
        return factory

    def _syncer(self) -> ISyncer:
        threads = ThreadSyncer(self._reactor, self._sync_pool, self._files)
        if self._lane is None:
            return threads
        try:
            self._kernel = KernelSyncer(self._lane, threads, self._files)
        except OSError as error:
            self._log.info("fsync on threads: {error}", error=error)
            return threads
        return self._kernel

    @inlineCallbacks
    def _listen(self, parts: Parts) -> Any:
        reactor = self._reactor
        if self._lane is not None:
            reactor = ListeningReactor(reactor, self._lane)
        endpoint = serverFromString(reactor, self._settings.broker_endpoint)
        parts.port = yield endpoint.listen(parts.factory)
        self._log.info(
            "broker {id} listens on {where}, known as {address}",
            id=self._settings.broker_id,
            where=self._settings.broker_endpoint,
            address=self._address(),
        )

    def _start_services(self, parts: Parts) -> None:
        cleaning = parts.cleaning
        services = [
            IdleConnections(self._reactor, parts.factory, self.numbers),
            RetentionSchedule(
                self._reactor, cleaning.expressions, cleaning.run, self._seconds
            ),
        ]
        if self._settings.control_socket:
            verbs = AdminVerbs(
                self, parts.operations, parts.topics, parts.views, parts.moving
            )
            path = self._settings.data_path.resolve() / CONTROL_SOCKET_NAME
            services.append(ControlService(self._reactor, path, verbs.table()))
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
            if parts.port is not None:
                yield parts.port.stopListening()
            parts.cleaning.stopping = True
            yield parts.verifying.stop() or succeed(None)
        yield super().stopService()
        if parts is not None:
            yield self._finish_connections(parts.factory)
            yield self._sync_all(list(parts.topics.queues.values()))
        # Whatever has led here, a connection's end say, is to be over as well.
        yield deferLater(self._reactor, 0, lambda: None)
        # What still runs on threads, a load say, must be over before the lock is given
        # free; joining them blocks, and nothing is left to serve.
        self._sync_pool.stop()
        self._background.stop()
        if self._kernel is not None:
            self._kernel.close()
        if self._lane is not None:
            self._lane.close()
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
        """Stop in order, after the answer to this has left."""
        if not self._stop_requested:
            self._stop_requested = True
            self._reactor.callLater(0.1, self._reactor.stop)
        return "stopping"

    # -- operations ---------------------------------------------------------------

    def reload(self) -> Any:
        """Replaced by the tap, which knows where the settings come from."""
        raise AdminError("this broker was started without a configuration to reload")

    def apply(self, settings: BrokerSettings) -> None:
        """Put reloaded settings in force."""
        self._settings = settings
        if self.parts is not None:
            self.parts.topics.apply(settings)
            self.parts.filters.forget()
            self._check_filters(self.parts.filters)

    def _check_filters(self, filters: Filters) -> None:
        for problem in filters.check():
            self._log.error("{problem}", problem=problem)
