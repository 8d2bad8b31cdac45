"""The embedded coordinator while time passes, its disk fails, and it stops."""

from __future__ import annotations

from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from metatwist.coordination.embedded import connection as connections
from metatwist.coordination.embedded import requests
from metatwist.coordination.embedded.service import TICK_S
from metatwist.coordination.embedded.store import StoreFull
from metatwist.coordination.errors import ConnectionLost, SessionExpired
from metatwist.coordination.interface import EventKind, SessionState
from metatwist.errors import StorageError
from tests.coordination.embedded_case import TIMEOUT_S, EmbeddedCase
from tests.coordination.server_case import Wire, create, greeting, read


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
        for _ in range(1000):
            if not self.coordinator.stalled:
                break
            self.pass_time_stalled(TICK_S)
        self.assertEqual(held.outline(), [2])
        self.assertTrue(held.wire.reading)
        self.pass_time_stalled(2 * TIMEOUT_S)
        self.assertFalse(self.has_ephemeral())


class LogTests(EmbeddedCase):
    """What is logged, and how often."""

    def setUp(self) -> None:
        super().setUp()
        self.events: list[LogEvent] = []
        globalLogPublisher.addObserver(self.events.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.events.append)

    def logged(self) -> list[str]:
        """What was logged since the last call."""
        found = [formatEvent(event) for event in self.events]
        self.events.clear()
        return found

    def test_expired(self) -> None:
        """Sessions that expire together are one line, however many there are."""
        peer = self.join()
        self.pass_time(TIMEOUT_S + TICK_S)
        session = peer.connection.session
        assert session is not None
        self.assertEqual(self.logged(), [f"session {session.id:#x} has expired"])
        for _ in range(30):
            self.join()
        self.pass_time(TIMEOUT_S + TICK_S)
        (line,) = self.logged()
        self.assertIn("30 sessions have expired, the first 0x", line)

    def test_full(self) -> None:
        """That clients are turned away is told once, and again after half have gone."""
        server = self.coordinator.server
        assert server is not None
        server.max_connections = 2
        peers = [self.join(), self.join()]
        expected = "turns clients away: there are 2 connections"
        for _ in range(2):
            for _ in range(3):
                self.assertIsNone(server.buildProtocol(None))
                self.pass_time(1)
            (line,) = self.logged()
            self.assertIn(expected, line)
            peers.pop().drop()
            self.pass_time(1)
            peers.append(self.join())
            self.assertEqual(self.logged(), [])


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
