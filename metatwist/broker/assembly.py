"""Settings and a reactor become a broker: the one file that knows every part."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from metatwist.broker.background import Background
from metatwist.broker.cleaning import Cleaning
from metatwist.broker.commit import CommitContext, CommitQueue
from metatwist.broker.coordinating import Coordination
from metatwist.broker.coordination_metrics import CoordinationMetrics
from metatwist.broker.descriptors import left_for_connections, raise_limit
from metatwist.broker.dispatch import Dispatch
from metatwist.broker.filters import Filters
from metatwist.broker.gets import GetPath
from metatwist.broker.group_queries import GroupQueries, groups_over
from metatwist.broker.inline_sync import InlineSync, never
from metatwist.broker.lane import Lane
from metatwist.broker.message_ids import MessageIds
from metatwist.broker.metrics import BrokerCollector
from metatwist.broker.moving import Moving
from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.operations import Operations
from metatwist.broker.polls import Polls
from metatwist.broker.pressure import DiskPressure
from metatwist.broker.protocol import BrokerFactory
from metatwist.broker.puts import PutPath
from metatwist.broker.registrar import Registrar
from metatwist.broker.settings import BrokerSettings
from metatwist.broker.stats import Stats
from metatwist.broker.status import Status
from metatwist.broker.storage.catalog import Catalog
from metatwist.broker.storage.file_pool import FilePool
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import LogContext
from metatwist.broker.syncing import KernelSyncer, ThreadSyncer
from metatwist.broker.topics import Topics
from metatwist.broker.turn import Turn
from metatwist.broker.verbs import Views
from metatwist.broker.verifying import Verifying

_BACKGROUND_THREADS = 2
_log = Logger()


class Ground:
    """What the parts stand on. Nothing runs yet, and no file is touched.

    `settings` are those in force, replaced at a reload; `lane` is None until the start,
    and where there is no epoll. `files` and `seconds`, the wall clock, are replaced in
    tests. `give_up` is called with the reason why the broker must end after its start.
    """

    def __init__(
        self,
        reactor: Any,
        settings: BrokerSettings,
        files: FileOps,
        seconds: Callable[[], float],
    ) -> None:
        self.reactor = reactor
        self.settings = settings
        self.files = files
        self.seconds = seconds
        self.numbers = BrokerNumbers()
        pool = FilePool(files, settings.max_open_segments)
        context = LogContext(files, pool, settings.max_segment_bytes)
        self.catalog = Catalog(context)
        self.sync_pool = ThreadPool(0, settings.sync_threads, "sync")
        self.background_pool = ThreadPool(0, _BACKGROUND_THREADS, "background")
        self.pressure = DiskPressure(self._most_pending, self.numbers)
        self.turn = Turn(reactor, self.pressure)
        self.lane: Lane | None = None
        self.coordination = Coordination(reactor, settings)
        self.give_up: Callable[[Failure], object] = _give_up

    def _most_pending(self) -> int:
        return self.settings.max_pending_bytes

    def address(self) -> str:
        """The URI that clients know the broker by."""
        return self.settings.address


@define
class Parts:
    """What a started broker is made of; `kernel` is None where threads do fsyncs,
    `registrar` without coordination."""

    topics: Topics
    filters: Filters
    factory: BrokerFactory
    polls: Polls
    views: Views
    cleaning: Cleaning
    verifying: Verifying
    moving: Moving
    operations: Operations
    kernel: KernelSyncer | None
    registrar: Registrar | None
    port: Any = None


def assemble(ground: Ground) -> Parts:
    """Put everything together over a catalog that is loaded."""
    settings, files, numbers = ground.settings, ground.files, ground.numbers
    background = Background(ground.reactor, ground.background_pool)
    kernel = _choose_syncer(ground)
    commit = _commit_context(ground, background, lambda queue: topics.stopped(queue))
    topics = Topics(settings, ground.catalog, commit)
    filters = Filters(topics, settings.app_class_path)
    puts = PutPath(topics, _message_ids(ground), numbers, ground.address)
    gets = GetPath(topics, filters, numbers, files, ground.address)
    stats = Stats(topics, numbers, ground.reactor.seconds)
    registrar = _registrar(ground, topics)
    polls = Polls(ground.reactor, topics, ground.turn, numbers)
    dispatch = Dispatch(topics, puts, gets, stats, numbers, polls)
    cleaning = Cleaning(background, topics, files, ground.seconds)
    return Parts(
        topics=topics,
        filters=filters,
        factory=_factory(ground, dispatch),
        polls=polls,
        views=Views(
            stats,
            Status(topics, numbers, stats, registrar),
            BrokerCollector(
                numbers,
                topics,
                CoordinationMetrics(registrar, ground.coordination.embedded),
            ),
            _group_queries(ground, topics),
        ),
        cleaning=cleaning,
        verifying=Verifying(background, topics, files),
        moving=Moving(background, topics, files),
        operations=Operations(background, files, topics, cleaning),
        kernel=kernel,
        registrar=registrar,
    )


def _registrar(ground: Ground, topics: Topics) -> Registrar | None:
    coordinator = ground.coordination.coordinator
    if coordinator is None:
        return None
    return Registrar(
        ground.reactor,
        coordinator,
        topics,
        ground.address,
        lambda reason: ground.give_up(reason),
    )


def _group_queries(ground: Ground, topics: Topics) -> GroupQueries:
    coordinator = ground.coordination.coordinator
    if coordinator is None:
        return GroupQueries(None)
    return GroupQueries(groups_over(ground.reactor, coordinator, topics))


def _give_up(reason: Failure) -> None:
    _log.critical("the broker cannot go on: {reason}", reason=reason.value)


def _choose_syncer(ground: Ground) -> KernelSyncer | None:
    """Give the turn its syncer: the kernel's workers, or else threads."""
    threads = ThreadSyncer(ground.reactor, ground.sync_pool, ground.files)
    ground.turn.syncer = threads
    if ground.lane is None:
        return None
    try:
        kernel = KernelSyncer(ground.lane, threads, ground.files)
    except OSError as error:
        _log.info("fsync on threads: {error}", error=error)
        return None
    ground.turn.syncer = kernel
    return kernel


def _commit_context(
    ground: Ground, background: Background, stopped: Callable[[CommitQueue], None]
) -> CommitContext:
    turn, numbers = ground.turn, ground.numbers
    inline = InlineSync(
        ground.files, numbers, turn, lambda: background.jobs > 0, time.monotonic
    )
    return CommitContext(
        sync=turn.sync,
        numbers=numbers,
        settled=turn.settled,
        touch=turn.touch,
        stopped=stopped,
        inline=inline.sync if ground.settings.inline_sync else never,
        call_later=ground.reactor.callLater,
    )


def _message_ids(ground: Ground) -> MessageIds:
    """Ids above all that are stored."""
    ids = MessageIds(ground.settings.broker_id, ground.seconds)
    for log in ground.catalog.logs.values():
        if not ids.rise_above(log.last_id):
            name = log.directory.name
            _log.error("{name}: the id of its last message is damaged", name=name)
    return ids


def _factory(ground: Ground, dispatch: Dispatch) -> BrokerFactory:
    """Connections, as many as fit beside our files."""
    factory = BrokerFactory(
        dispatch, ground.pressure, ground.files, ground.reactor.callLater
    )
    settings, limit = ground.settings, raise_limit()
    embedded = ground.coordination.embedded
    others = settings.max_open_segments
    others += 0 if embedded is None else embedded.max_connections
    room = left_for_connections(limit, others)
    factory.descriptors = room
    if room < settings.max_connections:
        _log.warn(
            "room for {room} connections: the system allows {limit} open files, and"
            " {others} are kept for segments and for clients of the coordinator"
            " (ulimit -n, maxOpenSegments)",
            room=room,
            limit=limit,
            others=others,
        )
    return factory
