"""A broker without process, reactor and socket: real parts, real files, held fsyncs.

Connections are protocols on string transports, and the disk answers when a test says
so. `turn()` is the end of a turn of the reactor.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.commit import CommitContext
from metatwist.broker.dispatch import Dispatch
from metatwist.broker.filters import Filters
from metatwist.broker.gets import GetPath
from metatwist.broker.inline_sync import never
from metatwist.broker.message_ids import MessageIds
from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.polls import Polls
from metatwist.broker.pressure import DiskPressure
from metatwist.broker.protocol import BrokerFactory, BrokerProtocol
from metatwist.broker.puts import PutPath
from metatwist.broker.settings import BrokerSettings, load_settings
from metatwist.broker.stats import Stats
from metatwist.broker.storage.catalog import Catalog
from metatwist.broker.storage.file_pool import FilePool
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import LogContext, SyncJob
from metatwist.broker.syncing import Done
from metatwist.broker.topics import Topics
from metatwist.broker.turn import Turn

INI = """\
[system]
brokerId=5
hostName=broker.test
numPartitions=3
unflushThreshold=0
unflushInterval=10000
maxSegmentSize=4096
maxTransferSize=1048576
[topic=test]
stat=true
[topic=lazy]
unflushThreshold=1000
[topic=quiet]
[topic=wild*]
"""
ADDRESS = "meta://broker.test:8123"


class HeldSyncer:
    """An `ISyncer` whose fsyncs end when a test ends them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[SyncJob, Done]] = []

    def sync(self, job: SyncJob, done: Done) -> None:
        """See `ISyncer`."""
        self.waiting.append((job, done))

    def submit(self) -> bool:
        """See `ISyncer`."""
        return True

    def finish(self, error: OSError | None = None) -> None:
        """End the oldest fsync."""
        _, done = self.waiting.pop(0)
        done(error)


class PeerTransport(StringTransport):
    """A string transport with the TCP options that the broker sets."""

    options: tuple[str, ...] = ()

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Noted."""
        self.options += ("no delay",) if enabled else ()

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Noted."""
        self.options += ("keep alive",) if enabled else ()


class Connection:
    """One peer: what it sends, and what it has got."""

    def __init__(self, protocol: BrokerProtocol, parts: BrokerParts) -> None:
        self.protocol = protocol
        self.transport = PeerTransport()
        self._parts = parts
        protocol.makeConnection(self.transport)

    def send(self, *requests: bytes) -> None:
        """Let all requests arrive in one read."""
        self.protocol.dataReceived(b"".join(requests))

    def taken(self) -> bytes:
        """What was written since the last call."""
        data = self.transport.value()
        self.transport.clear()
        return data

    def ask(self, *requests: bytes) -> bytes:
        """Send, let the disk do all its work, and take what was written."""
        self.send(*requests)
        self._parts.settle()
        return self.taken()

    @property
    def is_read(self) -> bool:
        """True while the broker reads from this peer."""
        state: str = self.transport.producerState
        return state == "producing"

    def lost(self) -> None:
        """The connection is gone."""
        self.protocol.connectionLost(Failure(ConnectionDone()))


class BrokerParts:
    """The parts of a broker, put together as `assembly` does it.

    `ini` replaces the configuration, `environ` overrides single settings. Files lie in
    `directory` and go when the test has ended; `filter_dir` takes filters.
    """

    def __init__(
        self,
        case: SynchronousTestCase,
        ini: str = INI,
        environ: Mapping[str, str] | None = None,
        files: FileOps | None = None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp())
        case.addCleanup(shutil.rmtree, self.directory)
        self.filter_dir = self.directory / "provided"
        self.filter_dir.mkdir()
        self.settings = self._load(ini, environ or {})
        self.files = files or FileOps()
        self.clock = Clock()
        self.clock.advance(1_700_000_000)
        self.numbers = BrokerNumbers()
        self.syncer = HeldSyncer()
        self.pressure = DiskPressure(self._most_pending_bytes, self.numbers)
        self.turns = Turn(self.clock, self.pressure)
        self.turns.syncer = self.syncer
        self.catalog = self._catalog()
        case.addCleanup(self.catalog.close)
        self.topics = Topics(self.settings, self.catalog, self._commit())
        self._build()

    def _load(self, ini: str, environ: Mapping[str, str]) -> BrokerSettings:
        path = self.directory / "conf" / "server.ini"
        path.parent.mkdir()
        path.write_text(ini)
        data = {"METATWIST_SYSTEM_dataPath": str(self.directory / "data")}
        return load_settings(path, {**data, **environ})

    def _most_pending_bytes(self) -> int:
        return self.topics.settings.max_pending_bytes

    def _catalog(self) -> Catalog:
        pool = FilePool(self.files, self.settings.max_open_segments)
        context = LogContext(self.files, pool, self.settings.max_segment_bytes)
        return Catalog(context)

    def _commit(self) -> CommitContext:
        return CommitContext(
            sync=self.turns.sync,
            numbers=self.numbers,
            settled=self.turns.settled,
            touch=self.turns.touch,
            stopped=lambda queue: self.topics.stopped(queue),
            inline=never,
            call_later=self.clock.callLater,
        )

    def _build(self) -> None:
        topics, numbers = self.topics, self.numbers
        ids = MessageIds(self.settings.broker_id, self.clock.seconds)
        self.filters = Filters(topics, self.settings.app_class_path)
        self.puts = PutPath(topics, ids, numbers, lambda: ADDRESS, max)
        self.gets = GetPath(topics, self.filters, numbers, self.files, lambda: ADDRESS)
        self.stats = Stats(topics, numbers, self.clock.seconds)
        self.polls = Polls(self.clock, topics, self.turns, numbers)
        self.dispatch = Dispatch(
            topics, self.puts, self.gets, self.stats, numbers, self.polls
        )
        self.factory = BrokerFactory(
            self.dispatch, self.pressure, self.files, self.clock.callLater
        )

    def connect(self) -> Connection:
        """A new peer."""
        protocol: Any = self.factory.buildProtocol(None)
        return Connection(protocol, self)

    def turn(self) -> None:
        """End the turn."""
        self.clock.advance(0)

    def sync(self, error: OSError | None = None) -> None:
        """End the oldest fsync, and the turn in which that is told."""
        self.syncer.finish(error)
        self.turn()

    def settle(self) -> None:
        """End turns and fsyncs until nothing is left to do."""
        self.turn()
        while self.syncer.waiting:
            self.sync()


def has_fired(waiting: Deferred[Any]) -> bool:
    """Whether a Deferred has its result."""
    return bool(waiting.called)


def put(body: bytes, opaque: int = 1, topic: str = "test", partition: int = 0) -> bytes:
    """A put without checksum."""
    return f"put {topic} {partition} {len(body)} 0 -1 {opaque}\r\n".encode() + body


def get(offset: int, opaque: int = 1, topic: str = "test", size: int = 1000) -> bytes:
    """A get of partition 0 for the group `g`."""
    return f"get {topic} g 0 {offset} {size} {opaque}\r\n".encode()


def poll(
    offset: int,
    opaque: int = 1,
    topic: str = "test",
    partition: int = 0,
    wait_ms: int = 5000,
    size: int = 1000,
) -> bytes:
    """A poll for the group `g`."""
    request = f"poll {topic} g {partition} {offset} {size} {wait_ms} {opaque}\r\n"
    return request.encode()


def opaques(data: bytes) -> list[int]:
    """The opaques of all replies in `data`, in order; each must be whole."""
    found = []
    while data:
        header, _, rest = data.partition(b"\r\n")
        *_, length, opaque = header.split(b" ")
        assert len(rest) >= int(length), data
        found.append(int(opaque))
        data = rest[int(length) :]
    return found
