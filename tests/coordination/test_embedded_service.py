"""The embedded coordinator as a service: its start and stop, its disk and its time."""

from __future__ import annotations

import contextlib
import queue
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface.verify import verifyObject

from metatwist.coordination.embedded import connection as connections
from metatwist.coordination.embedded import requests
from metatwist.coordination.embedded.service import (
    DATABASE_NAME,
    TICK_S,
    CoordinatorPortTaken,
    EmbeddedCoordinator,
    EmbeddedSettings,
)
from metatwist.coordination.embedded.store import MemoryStore, StoreFull
from metatwist.coordination.errors import ConnectionLost, SessionExpired
from metatwist.coordination.interface import EventKind, ICoordinator, SessionState
from metatwist.errors import DirectoryInUse, StorageError
from tests.coordination.server_case import (
    EPHEMERAL,
    Peer,
    Wire,
    create,
    greeting,
    read,
)

ANY_PORT = "tcp:0:interface=127.0.0.1"
LIMIT_S = 20.0
TIMEOUT_S = 10.0


class RealTests(TestCase):
    """On the real reactor: ports, threads and files."""

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
        yield self.assertFailure(second.ready, DirectoryInUse)
        yield second.stopService()
        yield first.create("/a")
        self.assertIsNotNone((yield first.exists("/a")))
        yield first.stopService()

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


class Turns(MemoryReactorClock):
    """A reactor whose time a test tells; what threads hand over waits for `settle`."""

    def __init__(self) -> None:
        super().__init__()
        self._handed: queue.Queue[Callable[[], object]] = queue.Queue()

    def callFromThread(self, call: Callable[..., object], *values: Any) -> None:
        self._handed.put(lambda: call(*values))

    def settle(self) -> None:
        """Take one call from a thread."""
        self._handed.get(timeout=LIMIT_S)()

    def settle_any(self) -> None:
        """Take a call from a thread, if one comes soon."""
        with contextlib.suppress(queue.Empty):
            self._handed.get(timeout=0.01)()


class Refusing:
    """A commit that fails as long as `error` is set."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def __call__(self, *_: object) -> None:
        if self.error is not None:
            raise self.error


class EmbeddedCase(SynchronousTestCase):
    """In memory, on a reactor whose time the test tells."""

    def setUp(self) -> None:
        self.commit = Refusing(None)
        self.patch(MemoryStore, "commit", self.commit)
        self.turns = Turns()
        self.turns.advance(1000)
        self.coordinator = EmbeddedCoordinator(
            self.turns, EmbeddedSettings(None, ANY_PORT), lambda: 1_800_000_000.5
        )
        self.coordinator.startService()
        self.addCleanup(self.stop)
        self.turns.settle()
        self.successResultOf(self.coordinator.ready)

    def stop(self) -> None:
        """Stop, with all turns that this takes."""
        if not self.coordinator.running:
            return
        self.finish(self.coordinator.stopService())

    def finish(self, stopped: Deferred[Any]) -> None:
        """Let a stop end, with all turns that this takes."""
        for _ in range(1000):
            if stopped.called:
                break
            self.turns.advance(0.1)
            self.turns.settle_any()
        self.successResultOf(stopped)

    def commit_once(self) -> None:
        """Let one commit begin and end."""
        self.turns.advance(0.1)
        self.turns.settle()

    def pass_time(self, seconds: float) -> None:
        """Let time pass as it does while the process runs."""
        self.turns.pump([TICK_S] * round(seconds / TICK_S))

    def pass_time_stalled(self, seconds: float) -> None:
        """The same, while each commit that is tried ends at once."""
        for _ in range(round(seconds / TICK_S)):
            self.turns.advance(TICK_S)
            self.turns.settle_any()

    def sessions(self) -> int:
        """How many there are, the coordinator's own included."""
        numbers = self.coordinator.numbers
        assert numbers is not None
        return numbers.sessions

    def join(self) -> Peer:
        """A client with a session."""
        server = self.coordinator.server
        assert server is not None
        connection, wire = server.buildProtocol(None), Wire()
        connection.makeConnection(wire)
        peer = Peer(connection, wire)
        peer.send(greeting())
        self.assertEqual(len(peer.frames()), 1)
        return peer

    def connect(self) -> Peer:
        """A client with a session and an ephemeral node /e of its own."""
        peer = self.join()
        peer.send(peer.request(requests.CREATE, create("/e", b"", EPHEMERAL)))
        self.commit_once()
        self.assertEqual(peer.outline(), [1])
        return peer

    def has_ephemeral(self) -> bool:
        """Whether /e is there."""
        return self.successResultOf(self.coordinator.exists("/e")) is not None


class TimeTests(EmbeddedCase):
    """Time, and the disk."""

    def test_times_of_nodes(self) -> None:
        """Nodes have the time of day, sessions that of the reactor."""
        made = self.coordinator.create("/a")
        self.commit_once()
        self.successResultOf(made)
        stat = self.successResultOf(self.coordinator.exists("/a"))
        assert stat is not None
        self.assertEqual((stat.ctime, stat.mtime), (1_800_000_000_500,) * 2)

    def test_expires(self) -> None:
        """A silent session expires in time, and its connection is closed."""
        peer = self.connect()
        self.pass_time(TIMEOUT_S - 1)
        self.assertTrue(self.has_ephemeral())
        self.pass_time(1 + TICK_S)
        self.assertFalse(self.has_ephemeral())
        self.assertTrue(peer.wire.disconnected)

    def test_pings_keep_a_session(self) -> None:
        """A session that pings lives on."""
        peer = self.connect()
        for _ in range(10):
            self.pass_time(TIMEOUT_S / 2)
            peer.send(peer.request(requests.PING, xid=-2))
        self.assertTrue(self.has_ephemeral())
        self.assertFalse(peer.is_closed)

    def test_pause_is_forgiven(self) -> None:
        """While the process stands still no session grows older; afterwards all do."""
        self.connect()
        self.pass_time(TIMEOUT_S / 2)
        self.turns.advance(1000)
        self.assertTrue(self.has_ephemeral())
        self.pass_time(TIMEOUT_S / 2 - 1)
        self.assertTrue(self.has_ephemeral())
        self.pass_time(1 + 2 * TICK_S)
        self.assertFalse(self.has_ephemeral())

    def test_own_session_lasts(self) -> None:
        """The broker's own session outlives any silence."""
        made = self.coordinator.create("/mine", ephemeral=True)
        self.commit_once()
        self.successResultOf(made)
        before = self.coordinator.session_id
        self.pass_time(200)
        self.assertEqual(self.coordinator.session_id, before)
        self.assertIsNotNone(self.successResultOf(self.coordinator.exists("/mine")))

    def test_disk_failure(self) -> None:
        """When the disk fails nothing is acknowledged any more: own writes fail, all
        connections close, and newcomers get no answer. The problem is told."""
        peer = self.connect()
        states: list[SessionState] = []
        self.coordinator.on_state(states.append)
        _, watch = self.successResultOf(self.coordinator.exists_and_watch("/none"))
        self.commit.error = StorageError("the disk is broken")
        own = self.coordinator.create("/a")
        peer.send(peer.request(requests.EXISTS, read("/a")))
        self.commit_once()
        self.failureResultOf(own, ConnectionLost)
        self.failureResultOf(self.coordinator.get("/a"), ConnectionLost)
        self.assertEqual(states, [SessionState.SUSPENDED])
        self.assertEqual((peer.outline(), peer.wire.disconnected), ([], True))
        self.assertEqual(self.coordinator.problem, "the disk is broken")
        told = self.coordinator.stalled, self.coordinator.failed
        self.assertEqual(told, (False, True))
        server = self.coordinator.server
        assert server is not None
        late, wire = server.buildProtocol(None), Wire()
        late.makeConnection(wire)
        late.dataReceived(greeting())
        self.assertEqual(wire.value(), b"")
        self.stop()
        self.failureResultOf(watch, SessionExpired)
        self.assertEqual(states, [SessionState.SUSPENDED, SessionState.CLOSED])

    def test_port_closed_on_failure(self) -> None:
        """After a failure of the disk nobody can connect any more, so that clients look
        elsewhere or wait; the stop that follows is as clean as any."""
        stops: list[str] = []
        port = self.coordinator.port
        self.patch(port, "stopListening", lambda: stops.append("stopped"))
        self.commit.error = StorageError("the disk is broken")
        self.coordinator.create("/a").addErrback(lambda _: None)
        self.commit_once()
        self.assertEqual(stops, ["stopped"])
        self.stop()
        self.assertEqual(stops, ["stopped"])

    def test_full_disk(self) -> None:
        """While the disk is full writes wait and sessions stay; once there is room all
        goes on."""
        peer = self.connect()
        self.commit.error = StoreFull("the disk is full")
        own = self.coordinator.create("/a")
        self.commit_once()
        self.assertEqual(self.coordinator.problem, "the disk is full")
        told = self.coordinator.stalled, self.coordinator.failed
        self.assertEqual(told, (True, False))
        peer.send(peer.request(requests.PING, xid=-2))
        self.assertEqual(peer.outline(), [-2])
        self.assertNoResult(own)
        self.commit.error = None
        self.turns.advance(1)
        self.turns.settle()
        self.assertEqual(self.successResultOf(own), "/a")
        self.assertIsNone(self.coordinator.problem)
        told = self.coordinator.stalled, self.coordinator.failed
        self.assertEqual(told, (False, False))

    def test_full_disk_keeps_who_is_held(self) -> None:
        """While the disk is full the session of a client that is not read any more
        lasts, however long that takes: its silence is ours. Others may still expire."""
        self.patch(connections, "MAX_WAITING_BYTES", 10)
        held, silent = self.connect(), self.join()
        self.commit.error = StoreFull("the disk is full")
        held.send(held.request(requests.CREATE, create("/a")))
        self.commit_once()
        self.assertFalse(held.wire.reading)
        sessions = self.sessions()
        self.pass_time_stalled(3 * TIMEOUT_S)
        self.assertTrue(self.has_ephemeral())
        self.assertEqual(self.sessions(), sessions - 1)
        self.assertTrue(silent.wire.disconnected)
        self.commit.error = None
        self.pass_time_stalled(2 * TICK_S)
        self.assertEqual(held.outline(), [2])
        self.assertTrue(held.wire.reading)
        self.pass_time_stalled(2 * TIMEOUT_S)
        self.assertFalse(self.has_ephemeral())


class StopTests(EmbeddedCase):
    """The end, while clients are connected."""

    def test_answers_leave(self) -> None:
        """What waited for the disk is answered before the connection ends, and the
        client hears no more than that."""
        peer, other = self.connect(), self.join()
        peer.send(peer.request(requests.CREATE, create("/a")))
        stopped = self.coordinator.stopService()
        other.send(other.request(requests.CREATE, create("/late")))
        self.assertFalse(peer.is_closed)
        self.finish(stopped)
        self.assertEqual(peer.outline(), [2])
        self.assertEqual(other.outline(), [])
        for one in (peer, other):
            self.assertTrue(one.is_closed)

    def test_under_load(self) -> None:
        """A client that writes on and on does not keep it from stopping."""
        peer = self.connect()
        peer.send(peer.request(requests.CREATE, create("/a")))
        stopped = self.coordinator.stopService()
        for number in range(100):
            if stopped.called:
                break
            self.turns.advance(0.1)
            peer.send(peer.request(requests.CREATE, create(f"/{number}")))
            self.turns.settle_any()
        self.successResultOf(stopped)

    def test_who_does_not_leave(self) -> None:
        """A client that does not take the end of its connection is cut off soon."""
        peer = self.connect()
        self.finish(self.coordinator.stopService())
        self.assertTrue(peer.wire.disconnected)

    def test_twice(self) -> None:
        """Each stop answers once all has ended, the second one and one afterwards."""
        first = self.coordinator.stopService()
        second = self.coordinator.stopService()
        self.assertNoResult(second)
        self.finish(first)
        self.successResultOf(second)
        self.successResultOf(self.coordinator.stopService())

    def test_watches_fire(self) -> None:
        """Who watches a node of the broker's own session sees it go."""
        made = self.coordinator.create("/mine", ephemeral=True)
        self.commit_once()
        self.successResultOf(made)
        peer = self.connect()
        peer.watch(requests.EXISTS, "/mine")
        self.finish(self.coordinator.stopService())
        self.assertEqual(peer.outline(), [(EventKind.DELETED, "/mine")])
