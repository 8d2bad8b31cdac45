"""The broker as a service: its start, its stop, and both at once."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import inlineCallbacks
from twisted.internet.threads import deferToThread
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import TestCase

from metatwist.broker import assembly, coordinating
from metatwist.broker.service import Broker
from metatwist.broker.settings import default_settings
from metatwist.broker.storage.files import FileOps
from metatwist.errors import StartAbandoned

LIMIT = 1024
ENVIRON = {
    "METATWIST_METATWIST_brokerEndpoint": "tcp:0:interface=127.0.0.1",
    "METATWIST_METATWIST_coordinator": "none",
}


class HeldFiles(FileOps):
    """Listing a partition waits until it is let go, and notes whether that came before
    the lock was given free."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.listed = threading.Event()
        self.closed_after: list[bool] = []

    def entries(self, path: Path) -> Iterator[tuple[str, bool]]:
        """As ever, but late."""
        if path.name == "test-0":
            self.begun.set()
            self.go_on.wait(20)
            self.listed.set()
        return super().entries(path)

    def close(self, fd: int) -> None:
        """The last descriptor to be closed is that of the lock."""
        self.closed_after.append(self.listed.is_set())
        super().close(fd)


class BrokerServiceTests(TestCase):
    """On the real reactor, since threads and ports are what it is about."""

    def setUp(self) -> None:
        """An empty data directory."""
        self.data = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.data)

    def broker(self, files: FileOps | None = None) -> Broker:
        """A broker that holds the lock."""
        broker = Broker(reactor, default_settings(self.data, ENVIRON), files)
        broker.lock()
        return broker

    @inlineCallbacks
    def test_stopped_twice(self) -> Any:
        """A second stop waits for the first, and the directory is free after it."""
        broker = self.broker()
        broker.startService()
        yield broker.started
        first, second = broker.stopService(), broker.stopService()
        yield first
        yield second
        again = self.broker()
        again.startService()
        yield again.started
        yield again.stopService()

    @inlineCallbacks
    def test_open_files(self) -> Any:
        """Connections of clients and of those of the coordinator in it, and segments,
        are together no more than the system allows."""
        for module in (assembly, coordinating):
            self.patch(module, "raise_limit", lambda: LIMIT)
        endpoint = "METATWIST_METATWIST_coordinatorEndpoint"
        environ = {
            "METATWIST_METATWIST_brokerEndpoint": "tcp:0:interface=127.0.0.1",
            endpoint: "tcp:0:interface=127.0.0.1",
        }
        settings = default_settings(self.data / "data", environ)
        broker = Broker(reactor, settings)
        broker.lock()
        broker.startService()
        yield broker.started
        embedded = broker.ground.coordination.embedded
        assert embedded is not None and embedded.server is not None
        assert broker.parts is not None
        room = embedded.server.max_connections
        self.assertEqual(room, 112)
        files = settings.max_open_segments + room + broker.parts.factory.descriptors
        self.assertLess(files, LIMIT)
        self.assertGreater(files, LIMIT - 100)
        yield broker.stopService()

    @inlineCallbacks
    def test_goodbye_is_true(self) -> Any:
        """A stop says what is not on disk, and only otherwise that all is."""
        for failure, words in ((None, "all that was ack"), ("EIO", "NOT known")):
            broker = self.broker()
            broker.startService()
            yield broker.started
            broker.catalog.create(self.data, f"t{words[0]}", 0).failure = failure
            with capturedLogs() as events:
                yield broker.stopService()
            said = [str(formatEvent(event)) for event in events]
            self.assertTrue(any(words in line for line in said), said)

    @inlineCallbacks
    def test_stopped_while_it_loads(self) -> Any:
        """The lock is held until the last load is over, and nothing is started."""
        (self.data / "test-0").mkdir()
        files = HeldFiles()
        broker = self.broker(files)
        broker.startService()
        yield deferToThread(files.begun.wait, 20)
        stopping = broker.stopService()
        self.assertNoResult(stopping)
        files.go_on.set()
        yield stopping
        self.assertTrue(files.closed_after[-1])
        yield self.assertFailure(broker.started, StartAbandoned)
        self.assertIsNone(broker.parts)
