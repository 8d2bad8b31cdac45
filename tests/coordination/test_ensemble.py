"""The ensemble's coordinator on a kazoo that does what the test says: sessions."""

from __future__ import annotations

from kazoo.exceptions import (
    NotReadOnlyCallError,
)
from kazoo.protocol.states import EventType, KeeperState
from zope.interface.verify import verifyObject

from metatwist.coordination.ensemble import EnsembleCoordinator, EnsembleSettings
from metatwist.coordination.ensemble_session import STOP_LIMIT_S
from metatwist.coordination.errors import (
    ConnectionLost,
    ReadOnly,
    SessionExpired,
)
from metatwist.coordination.interface import ICoordinator, SessionState
from metatwist.coordination.kazoo_bridge import KazooParts

from .kazoo_fakes import REQUEST_S, SESSION_S, EnsembleCase, on_thread, stat

CONNECTED = SessionState.CONNECTED
CONNECTING = SessionState.CONNECTING
SUSPENDED = SessionState.SUSPENDED
CLOSED = SessionState.CLOSED


class SessionTest(EnsembleCase):
    """States and session ids."""

    def test_start_does_not_block(self) -> None:
        """The client is made on a thread; until then there is none."""
        self.assertEqual([], self.clients)
        self.assertEqual((CONNECTING, 0), (self.tree.state, self.tree.session_id))
        self.assertEqual("not connected yet", self.tree.problem)
        self.assertEqual(1000.0, self.tree.problem_since_s)
        self.run_jobs()
        self.assertEqual(["start"], self.client.life)
        verifyObject(ICoordinator, self.tree)

    def test_connected_when_answered(self) -> None:
        """It is connected once a request was answered, in a turn of the reactor."""
        self.run_jobs()
        on_thread(self.client.connect, 5)
        self.assertEqual([], self.client.calls)
        self.reactor.turn()
        self.assertEqual([], self.states)
        self.client.calls[0].answer(stat())
        self.assertEqual([], self.states)
        self.reactor.turn()
        self.assertEqual([CONNECTED], self.states)
        self.assertEqual((5, "zk:2181"), (self.tree.session_id, self.tree.server))
        self.assertIsNone(self.tree.problem)
        self.assertEqual("ZooKeeper zk:2181, now zk:2181", self.tree.description)

    def test_resumed(self) -> None:
        """A connection that breaks suspends the session, another one resumes it."""
        self.connected(5)
        self.suspended()
        self.assertEqual(5, self.tree.session_id)
        self.assertEqual("connection lost", self.tree.problem)
        self.resumed(5)
        self.assertEqual([CONNECTED, SUSPENDED, CONNECTED], self.states)

    def test_pauses_between_attempts(self) -> None:
        """A server that comes back is tried well within the session's time."""
        for session_s in (SESSION_S, 4.0, 1.0):
            settings = EnsembleSettings(self.connect_string, session_s, REQUEST_S)
            parts = KazooParts(self.new_client, self.jobs.append)
            EnsembleCoordinator(self.reactor, settings, parts).startService()
            self.run_jobs()
            retry = self.client.options["connection_retry"]
            longest_s = retry.max_delay * (1 + retry.max_jitter)
            self.assertLess(longest_s, session_s / 2)

    def test_expired(self) -> None:
        """A session that is over is followed by another one."""
        self.connected(5)
        self.suspended()
        self.client.lose()
        self.reactor.turn()
        self.assertEqual((CONNECTING, 0), (self.tree.state, self.tree.session_id))
        self.assertEqual("session 0x5 expired", self.tree.problem)
        self.resumed(6)
        self.assertEqual([CONNECTED, SUSPENDED, CONNECTING, CONNECTED], self.states)
        self.assertEqual(6, self.tree.session_id)

    def test_unannounced_expiry(self) -> None:
        """A session id that is another one means that the last session is over."""
        self.connected(5)
        watch = self.tree.exists_and_watch("/a")
        self.answer(None)
        self.client.connect(6)
        self.reactor.turn()
        self.failureResultOf(self.watch_of(watch), SessionExpired)
        self.answer(stat())
        self.assertEqual([CONNECTED, CONNECTING, CONNECTED], self.states)

    def test_read_only(self) -> None:
        """A read-only server answers reads; the problem says so, writes are refused."""
        self.run_jobs()
        self.client.connect(5, KeeperState.CONNECTED_RO)
        self.reactor.turn()
        self.answer(stat())
        self.assertEqual([SessionState.READ_ONLY], self.states)
        self.assertIn("zk:2181 is read-only", str(self.tree.problem))
        refused = self.tree.set("/a", b"")
        self.client.calls[-1].refuse(NotReadOnlyCallError())
        self.reactor.turn()
        self.failureResultOf(refused, ReadOnly)

    def test_broken_before_the_answer(self) -> None:
        """An answer to the first request of a connection that broke means nothing."""
        self.run_jobs()
        self.client.connect(5)
        self.reactor.turn()
        self.suspended()
        self.assertEqual([], self.states)
        first = self.client.calls[0]
        self.client.connect(5)
        first.answer(stat())
        self.reactor.turn()
        self.assertEqual([], self.states)
        self.answer(stat())
        self.assertEqual([CONNECTED], self.states)

    def test_only_the_latest_connection_counts(self) -> None:
        """Of two connections in a row the answer on the first means nothing."""
        self.run_jobs()
        for _ in range(2):
            self.client.connect(5)
            self.reactor.turn()
        self.answer(stat(), 0)
        self.assertEqual([], self.states)
        self.answer(stat(), 1)
        self.assertEqual([CONNECTED], self.states)

    def test_unanswered_probe(self) -> None:
        """A server that does not answer is asked again, and named as the problem."""
        self.run_jobs()
        self.client.connect(5)
        self.reactor.turn()
        self.reactor.advance(REQUEST_S)
        self.assertIn("zk:2181: no answer", str(self.tree.problem))
        self.reactor.advance(REQUEST_S)
        self.assertEqual(2, len(self.client.calls))
        self.answer(stat())
        self.assertEqual([CONNECTED], self.states)

    def test_client_gives_up(self) -> None:
        """A client that ends by itself is replaced, after longer and longer pauses."""
        self.connected(5)
        for pause_s, error in ((2.0, None), (4.0, OSError("odd"))):
            old = self.client
            old.end(error)
            self.reactor.turn()
            self.run_jobs()
            self.assertEqual(["start", "stop", "close"], old.life)
            self.reactor.advance(pause_s / 2 - 0.01)
            self.assertEqual([], self.jobs)
            self.reactor.advance(pause_s / 2 + 0.01)
            self.run_jobs()
            self.assertIsNot(old, self.client)
        self.assertIn("OSError: odd", str(self.tree.problem))
        self.resumed(6)
        self.assertEqual([CONNECTED, CONNECTING, CONNECTED], self.states)
        self.client.end()
        self.reactor.turn()
        self.run_jobs()
        self.reactor.advance(2.0)
        self.assertEqual(1, len(self.jobs), "short pauses again")

    def test_client_cannot_be_made(self) -> None:
        """A client whose making fails is tried again."""
        self.patch(self, "clients", None)
        self.run_jobs()
        self.assertIn("AttributeError", str(self.tree.problem))
        self.clients = []
        self.reactor.advance(2.0)
        self.connected(5)

    def test_refused_credentials(self) -> None:
        """kazoo ends when credentials are refused; a new client tries again."""
        self.run_jobs()
        self.client.connect(5)
        self.client.lose(KeeperState.AUTH_FAILED)
        self.client.end()
        self.reactor.turn()
        self.reactor.advance(2.0)
        self.run_jobs()
        self.assertEqual(2, len(self.clients))
        self.assertEqual([], self.states)

    def test_server_with_another_past(self) -> None:
        """Once the session's time is over, a server may have seen less than we have,
        and only then."""
        self.connected(5)
        self.suspended()
        self.resumed(5)
        self.reactor.advance(SESSION_S)
        self.assertEqual(77, self.client.last_zxid)
        self.suspended()
        self.reactor.advance(SESSION_S / 2)
        self.client.connect(5)
        self.suspended()
        self.reactor.advance(SESSION_S / 2 - 1)
        self.assertEqual(77, self.client.last_zxid)
        self.assertEqual(1, len(self.reactor.getDelayedCalls()))
        self.reactor.advance(1)
        self.assertEqual(0, self.client.last_zxid)

    def test_listener_that_fails(self) -> None:
        """A listener that fails is logged, and the others are called."""

        def fail(_state: SessionState) -> None:
            raise KeyError("mine")

        told: list[SessionState] = []
        self.tree.on_state(fail)
        self.tree.on_state(told.append)
        self.connected(5)
        self.assertEqual([CONNECTED], told)
        self.assertEqual(1, len(self.flushLoggedErrors(KeyError)))


class ChrootTest(EnsembleCase):
    """A chroot that is not there."""

    connect_string = "zk:2181/app"

    def test_missing(self) -> None:
        """It is the problem, and looked for again until it is there."""
        self.run_jobs()
        self.client.connect(5)
        self.reactor.turn()
        self.answer(None)
        self.assertIn("no chroot /app", str(self.tree.problem))
        self.assertEqual([], self.states)
        self.reactor.advance(5.0)
        self.answer(stat())
        self.assertEqual([CONNECTED], self.states)


class StopTest(EnsembleCase):
    """Stops."""

    def test_before_the_client(self) -> None:
        """A stop before the client is made is done at once, and none is made then."""
        self.successResultOf(self.tree.stopService())
        self.run_jobs()
        self.assertEqual(["stop", "close"], self.clients[0].life[1:])
        self.assertEqual([CLOSED], self.states)

    def test_overtakes_the_start(self) -> None:
        """When the thread that stops is the quicker one, nothing is started."""
        self.tree.stopService()
        self.jobs.reverse()
        self.run_jobs()
        self.assertEqual([], self.clients)

    def test_connected(self) -> None:
        """It is done once the session is closed; requests and watches end at once,
        exactly once, and nothing is told afterwards."""
        client = self.connected()
        watch = self.tree.exists_and_watch("/a")
        self.answer(None)
        pending = self.tree.get("/a")
        stopped = self.tree.stopService()
        self.failureResultOf(pending, ConnectionLost)
        self.failureResultOf(self.watch_of(watch), SessionExpired)
        self.assertNoResult(stopped)
        client.calls[-1].answer((b"", stat()))
        client.suspend()
        client.lose()
        client.end()
        self.run_jobs()
        self.successResultOf(stopped)
        self.assertEqual(["start", "stop", "close"], client.life)
        self.assertEqual([CONNECTED, CLOSED], self.states)
        self.assertEqual(0, self.tree.session_id)
        self.assertIsNone(self.tree.problem)
        self.assertEqual([], self.reactor.getDelayedCalls())
        self.failureResultOf(self.tree.exists("/a"), ConnectionLost)

    def test_takes_too_long(self) -> None:
        """It does not wait for ever, and an end that comes later is no harm."""
        self.connected()
        stopped = self.tree.stopService()
        self.reactor.advance(STOP_LIMIT_S)
        self.successResultOf(stopped)
        self.run_jobs()

    def test_client_that_fails_to_stop(self) -> None:
        """A client that cannot stop does not stop the stop."""
        client = self.connected()
        self.patch(client, "close", None)
        stopped = self.tree.stopService()
        self.run_jobs()
        self.successResultOf(stopped)

    def test_in_a_listener(self) -> None:
        """A listener may stop the coordinator; no new client is made."""
        self.connected()
        self.tree.on_state(
            lambda state: self.tree.stopService() if state is CONNECTING else None
        )
        self.client.end()
        self.reactor.turn()
        self.run_jobs()
        self.assertEqual([CONNECTED, CONNECTING, CLOSED], self.states)
        self.assertEqual([], self.reactor.getDelayedCalls())

    def test_again(self) -> None:
        """After a stop it can be started again."""
        self.connected()
        self.tree.stopService()
        self.tree.startService()
        self.connected(9)
        self.assertEqual([CONNECTED, CLOSED, CONNECTING, CONNECTED], self.states)

    def test_old_client_speaks_up(self) -> None:
        """What the client of before a stop says is heard by nobody."""
        old = self.connected()
        asked = self.tree.exists_and_watch("/a")
        event = old.calls[-1].keys["watch"]
        self.tree.stopService()
        self.failureResultOf(asked, ConnectionLost)
        self.tree.startService()
        self.connected(9)
        watch = self.tree.exists_and_watch("/a")
        self.answer(None)
        old.fire(event, EventType.CREATED, "/a")
        old.lose()
        self.reactor.turn()
        self.assertNoResult(self.watch_of(watch))
        self.assertEqual(9, self.tree.session_id)
