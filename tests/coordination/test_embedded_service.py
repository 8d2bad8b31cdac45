"""The embedded coordinator as a service: ports, threads and files."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from metatwist.coordination.embedded.listening import CoordinatorPortTaken
from metatwist.coordination.embedded.service import (
    DATABASE_NAME,
    EmbeddedCoordinator,
    EmbeddedSettings,
)
from metatwist.coordination.errors import ConnectionLost
from metatwist.coordination.interface import ICoordinator, SessionState
from metatwist.errors import DirectoryInUse, StorageError
from tests.coordination.embedded_case import ANY_PORT, LIMIT_S
from tests.coordination.server_case import EPHEMERAL


class RealTests(TestCase):
    """On the real reactor."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)

    def coordinator(self, endpoint: str = ANY_PORT) -> EmbeddedCoordinator:
        """One that has begun to start; it is stopped at the end of the test."""
        found = EmbeddedCoordinator(
            reactor, EmbeddedSettings(self.directory / "coordinator", endpoint)
        )
        found.startService()
        self.addCleanup(lambda: found.stopService() if found.running else None)
        return found

    def word(self, port: int) -> Deferred[bytes]:
        """What a port answers to ruok; asked on a thread."""
        found: Deferred[bytes] = Deferred()

        def ask() -> None:
            try:
                with socket.create_connection(("127.0.0.1", port), LIMIT_S) as client:
                    client.sendall(b"ruok")
                    answer = client.recv(10)
            except OSError as error:
                answer = type(error).__name__.encode()
            reactor.callFromThread(found.callback, answer)  # type: ignore[attr-defined]

        threading.Thread(target=ask).start()
        return found

    @inlineCallbacks
    def test_serves(self) -> Any:
        """Once ready it answers its own process and its port, and keeps a database;
        once stopped nobody listens."""
        coordinator = self.coordinator()
        self.assertEqual(coordinator.state, SessionState.CONNECTING)
        verifyObject(ICoordinator, coordinator)
        yield coordinator.ready
        self.assertEqual(coordinator.state, SessionState.CONNECTED)
        port = coordinator.port.getHost().port
        self.assertEqual((yield self.word(port)), b"imok")
        self.assertEqual((yield coordinator.create("/a", b"1")), "/a")
        self.assertTrue((self.directory / "coordinator" / DATABASE_NAME).exists())
        self.assertIsNone(coordinator.problem)
        yield coordinator.stopService()
        self.assertEqual(coordinator.state, SessionState.CLOSED)
        self.assertEqual((yield self.word(port)), b"ConnectionRefusedError")

    @inlineCallbacks
    def test_restart(self) -> Any:
        """A restart keeps persistent nodes as they were, loses the ephemerals of all
        sessions, and goes on with higher zxids and sequence numbers."""
        first = self.coordinator()
        yield first.ready
        yield first.create("/p/q", b"\0\xff", make_parents=True)
        yield first.set("/p/q", b"2")
        yield first.create("/p/e-", ephemeral=True, sequence=True)
        assert first.server is not None
        foreign = first.server.realm.sessions.begin(10_000)
        first.server.realm.tree.create(foreign, "/p/f", b"", flags=EPHEMERAL)
        before = yield first.get("/p/q")
        zxid = first.server.realm.tree.zxid
        yield first.stopService()
        second = self.coordinator()
        yield second.ready
        self.assertEqual((yield second.get("/p/q")), before)
        self.assertEqual((yield second.get_children("/p")), ["q"])
        made = yield second.create("/p/e-", sequence=True)
        self.assertEqual(made, "/p/e-0000000003")
        stat = yield second.exists(made)
        self.assertGreater(stat.czxid, zxid)
        self.assertGreater(stat.czxid >> 32, zxid >> 32)
        yield second.stopService()

    @inlineCallbacks
    def test_port_taken(self) -> Any:
        """A port that is taken is an error that names both settings; it stops
        cleanly, and what is stored can be opened by another."""
        first = self.coordinator()
        yield first.ready
        port = first.port.getHost().port
        yield first.stopService()
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))
            other.listen()
            second = self.coordinator(f"tcp:{port}:interface=127.0.0.1")
            error = yield self.assertFailure(second.ready, CoordinatorPortTaken)
            for word in ("coordinatorEndpoint", "zk.zkConnect", f"tcp:{port}"):
                self.assertIn(word, str(error))
            self.assertNotEqual(second.state, SessionState.CONNECTED)
            yield second.stopService()
        third = self.coordinator(f"tcp:{port}:interface=127.0.0.1")
        yield third.ready
        yield third.stopService()

    @inlineCallbacks
    def test_directory_in_use(self) -> Any:
        """Two coordinators never share a directory; the second one's failure costs the
        first nothing."""
        first = self.coordinator()
        yield first.ready
        second = self.coordinator()
        error = yield self.assertFailure(second.ready, DirectoryInUse)
        self.assertIn("[metatwist] coordinatorPath: ", str(error))
        yield second.stopService()
        yield first.create("/a")
        self.assertIsNotNone((yield first.exists("/a")))
        yield first.stopService()

    @inlineCallbacks
    def test_no_place_for_the_database(self) -> Any:
        """A directory that cannot be made is an error that names setting and path."""
        (self.directory / "coordinator").write_text("no directory")
        coordinator = self.coordinator()
        error = yield self.assertFailure(coordinator.ready, StorageError)
        for part in ("[metatwist] coordinatorPath: ", str(self.directory)):
            self.assertIn(part, str(error))
        yield coordinator.stopService()

    @inlineCallbacks
    def test_address_of_another_machine(self) -> Any:
        """An address that is not ours is an error that speaks of the interface."""
        coordinator = self.coordinator("tcp:0:interface=192.0.2.1")
        error = yield self.assertFailure(coordinator.ready, CoordinatorPortTaken)
        self.assertIn("`interface` has to be an address", str(error))
        yield coordinator.stopService()

    @inlineCallbacks
    def test_database_removed(self) -> Any:
        """Once the database is gone nothing is acknowledged any more, and the problem
        says why."""
        coordinator = self.coordinator()
        yield coordinator.ready
        (self.directory / "coordinator" / DATABASE_NAME).unlink()
        yield self.assertFailure(coordinator.create("/a"), ConnectionLost)
        self.assertIn("removed or replaced while in use", str(coordinator.problem))
        self.assertTrue(coordinator.failed)
        yield coordinator.stopService()

    @inlineCallbacks
    def test_stopped_while_starting(self) -> Any:
        """A stop waits for the start, and leaves nothing open."""
        first = self.coordinator()
        yield first.stopService()
        self.assertEqual(first.state, SessionState.CLOSED)
        second = self.coordinator()
        yield second.ready
        yield second.stopService()

    @inlineCallbacks
    def test_stop_waits_for_the_disk(self) -> Any:
        """What is written before the stop is on disk after it, answered or not."""
        first = self.coordinator()
        yield first.ready
        waiting = [first.create(f"/{number}") for number in range(50)]
        for one in waiting:
            one.addErrback(lambda failure: failure.trap(ConnectionLost))
        yield first.stopService()
        second = self.coordinator()
        yield second.ready
        self.assertEqual(len((yield second.get_children("/"))), 51)
        yield second.stopService()

    @inlineCallbacks
    def test_database_does_not_close(self) -> Any:
        """A database that cannot be closed, for want of room say, holds up no stop;
        the next start has all of it."""
        first = self.coordinator()
        yield first.ready
        yield first.create("/a")
        close = first._store.close
        self.addCleanup(close)

        def refuse() -> None:
            close()
            raise StorageError("the log could not be moved")

        self.patch(first._store, "close", refuse)
        yield first.stopService()
        self.assertFalse(any(one.is_alive() for one in first._pool.threads))
        second = self.coordinator()
        yield second.ready
        self.assertIsNotNone((yield second.exists("/a")))
        yield second.stopService()
