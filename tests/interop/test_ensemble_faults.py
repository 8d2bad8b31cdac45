"""Our coordinator while its ZooKeeper, or the way there, fails."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from attrs import evolve
from twisted.internet import reactor
from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from metatwist.coordination.errors import (
    ConnectionLost,
    OperationTimeout,
    ReadOnly,
    SessionExpired,
)
from metatwist.coordination.interface import EventKind, SessionState

from ..support.child_process import free_port
from .coordinator_case import CoordinatorCase
from .zookeeper_server import ZooKeeperEnsemble

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CONNECTED = SessionState.CONNECTED
CONNECTING = SessionState.CONNECTING
SUSPENDED = SessionState.SUSPENDED
CLOSED = SessionState.CLOSED


class LinkFaultsTest(CoordinatorCase):
    """One server behind a proxy, and an observer with a way of its own."""

    @inlineCallbacks
    def setUp(self) -> Any:
        """Connect both."""
        super().setUp()
        self.server = self.zookeeper()
        self.server.start()
        self.link = self.proxy(self.server)
        self.observer = yield self.connected(self.server.address)
        self.tree = yield self.connected(self.link.address)

    @inlineCallbacks
    def test_resume(self) -> Any:
        """A short cut keeps session, ephemerals and watches; what changed meanwhile
        fires its watch; requests fail at once while it lasts."""
        tree, observer = self.tree, self.observer
        session_id = tree.session_id
        yield tree.create("/mine", ephemeral=True)
        yield tree.create("/dir/old", make_parents=True)
        _, appears = yield tree.exists_and_watch("/appears")
        _, children = yield tree.get_children_and_watch("/dir")
        _, vanishes = yield tree.exists_and_watch("/dir/old")
        _, _, later = yield tree.get_and_watch("/mine")
        self.link.cut()
        yield self.until_state(tree, SUSPENDED)
        yield self.assertFailure(tree.get("/mine"), ConnectionLost)
        yield observer.create("/appears")
        yield observer.delete("/dir/old")
        self.assertIn(self.link.address, tree.problem)
        self.link.heal()
        yield self.until_state(tree, CONNECTED)
        self.assertEqual(session_id, tree.session_id)
        kinds = []
        for watch in (appears, children, vanishes):
            event = yield self.until_fired(watch)
            kinds.append(event.kind)
        expected = [EventKind.CREATED, EventKind.CHILDREN, EventKind.DELETED]
        self.assertEqual(expected, kinds)
        _, stat = yield tree.get("/mine")
        self.assertEqual(session_id, stat.ephemeral_owner)
        self.assertFalse(later.called)
        yield observer.set("/mine", b"x")
        self.assertEqual(EventKind.CHANGED, (yield self.until_fired(later)).kind)
        self.assertEqual([CONNECTED, SUSPENDED, CONNECTED], self.states[tree])

    @inlineCallbacks
    def test_expiry(self) -> Any:
        """After a cut longer than the session there is a new one; ephemerals are gone
        and watches have failed before it is announced."""
        tree = self.tree
        session_id = tree.session_id
        yield tree.create("/mine", ephemeral=True)
        _, _, watch = yield tree.get_and_watch("/mine")
        _, gone = yield self.observer.exists_and_watch("/mine")
        self.link.cut()
        yield self.until_fired(gone)
        self.assertEqual(SUSPENDED, tree.state)
        self.link.heal()
        yield self.assertFailure(self.until_fired(watch), SessionExpired)
        yield self.until_state(tree, CONNECTED)
        self.assertNotIn(tree.session_id, (0, session_id))
        yield tree.create("/mine", ephemeral=True)
        told = [CONNECTED, SUSPENDED, CONNECTING, CONNECTED]
        self.assertEqual(told, self.states[tree])

    @inlineCallbacks
    def test_black_hole(self) -> Any:
        """A network that swallows packets costs a request no more than its limit."""
        tree = yield self.connected(self.link.address, connection_timeout_s=0.3)
        self.link.cut(black_hole=True)
        yield self.assertFailure(self.checked(tree.exists("/")), OperationTimeout)
        yield self.until_state(tree, SUSPENDED)
        self.link.heal()
        yield self.until_state(tree, CONNECTED)
        yield self.until_state(self.tree, CONNECTED)

    @inlineCallbacks
    def test_stop_while_cut(self) -> Any:
        """A stop without connection is done at once and ends what waits."""
        tree = self.tree
        _, watch = yield tree.exists_and_watch("/w")
        self.link.cut()
        yield self.until_state(tree, SUSPENDED)
        stopped = tree.stopService()
        self.successResultOf(stopped)
        self.failureResultOf(watch, SessionExpired)
        self.assertEqual(CLOSED, tree.state)

    @inlineCallbacks
    def test_stop(self) -> Any:
        """A stop takes the ephemerals along before it is done, ends requests and
        watches once, and nothing comes after it."""
        tree = self.tree
        yield tree.create("/mine", ephemeral=True)
        _, watch = yield tree.exists_and_watch("/w")
        pending = [tree.exists("/w") for _ in range(300)]
        stopped = tree.stopService()
        for one in pending:
            self.failureResultOf(one, ConnectionLost)
        self.failureResultOf(watch, SessionExpired)
        yield self.until_fired(stopped)
        self.assertIsNone((yield self.observer.exists("/mine")))
        yield self.observer.create("/w")
        told = list(self.states[tree])
        yield deferLater(reactor, 0.1)
        self.assertEqual([CONNECTED, CLOSED], told)
        self.assertEqual(told, self.states[tree])

    @inlineCallbacks
    def test_stop_of_a_frozen_server(self) -> Any:
        """A stop does not wait for ever for a server that does not answer."""
        self.server._process.send_signal(signal.SIGSTOP)
        yield self.until_fired(self.tree.stopService())
        self.server._process.send_signal(signal.SIGCONT)

    @inlineCallbacks
    def test_start_again(self) -> Any:
        """A coordinator that was stopped can be started again, with a new session."""
        session_id = self.tree.session_id
        yield self.until_fired(self.tree.stopService())
        self.tree.startService()
        yield self.until_state(self.tree, CONNECTED)
        self.assertNotEqual(session_id, self.tree.session_id)
        yield self.tree.get_children("/")


class ServerFaultsTest(CoordinatorCase):
    """Servers that are down, come, go, and lose their memory."""

    @inlineCallbacks
    def test_some_are_dead(self) -> Any:
        """One server of several that works is enough; the dead are no problem then."""
        server = self.zookeeper()
        yield deferToThread(server.start)
        dead = [f"127.0.0.1:{free_port()}", "no-such-host.invalid:2181"]
        connect = ",".join([*dead, f"[::1]:{free_port()}", server.address])
        tree = yield self.connected(connect)
        self.assertIsNone(tree.problem)
        self.assertIn(server.address, tree.description)

    @inlineCallbacks
    def test_late_server(self) -> Any:
        """Without a server it says why, and connects once there is one."""
        server = self.zookeeper()
        tree = self.coordinator(f"no-such-host.invalid:2181,{server.address}")
        wanted = ("no-such-host.invalid: cannot be resolved", "Connection refused")
        yield self.until(
            lambda: all(text in tree.problem for text in wanted), "a reason"
        )
        self.assertEqual((CONNECTING, 0), (tree.state, tree.session_id))
        self.assertGreater(tree.problem_since_s, 1e9)
        yield self.assertFailure(tree.exists("/"), ConnectionLost)
        yield deferToThread(server.start)
        yield self.until_state(tree, CONNECTED)
        self.assertIsNone(tree.problem)
        self.assertIsNone(tree.problem_since_s)

    def test_stop_unconnected(self) -> None:
        """A stop before any connection is done at once."""
        tree = self.coordinator(f"127.0.0.1:{free_port()}")
        self.successResultOf(tree.stopService())

    @inlineCallbacks
    def test_restart(self) -> Any:
        """A server that comes back in time has kept session and ephemerals."""
        server = self.zookeeper()
        yield deferToThread(server.start)
        tree = yield self.connected(server.address, session_timeout_s=30.0)
        session_id = tree.session_id
        yield tree.create("/mine", ephemeral=True)
        yield deferToThread(server.restart)
        yield self.until(lambda: tree.problem is None, "connected again")
        yield self.until_state(tree, CONNECTED)
        _, stat = yield tree.get("/mine")
        self.assertEqual(session_id, stat.ephemeral_owner)

    @inlineCallbacks
    def test_restarted_empty(self) -> Any:
        """A server that lost its memory, and with it all that we have seen, is used
        again with a new session."""
        server = self.zookeeper()
        yield deferToThread(server.start)
        tree = yield self.connected(server.address)
        for number in range(50):
            yield tree.create(f"/{number}")
        _, _, watch = yield tree.get_and_watch("/0")
        yield deferToThread(server.stop)
        server.empty()
        yield deferToThread(server.start)
        yield self.assertFailure(self.until_fired(watch), SessionExpired)
        yield self.until_state(tree, CONNECTED)
        self.assertEqual(["zookeeper"], (yield tree.get_children("/")))

    @inlineCallbacks
    def test_read_only(self) -> Any:
        """A server without its majority gives a session for reading only; with the
        majority back there is a full one, and sessions of before go on."""
        os.environ["JDK_JAVA_OPTIONS"] = "-Dreadonlymode.enabled=true"
        self.addCleanup(os.environ.pop, "JDK_JAVA_OPTIONS")
        ensemble = ZooKeeperEnsemble(self.directory / "ensemble")
        self.addCleanup(ensemble.kill)
        for server in ensemble.servers:
            # Without those a read-only server of 3.8 cannot make sessions.
            local = ["localSessionsEnabled=true", "localSessionsUpgradingEnabled=true"]
            lines = [*server.settings.lines, *local]
            server.settings = evolve(server.settings, lines=lines)
        yield deferToThread(ensemble.start)
        before = yield self.connected(ensemble.address, session_timeout_s=40.0)
        session_id = before.session_id
        yield before.create("/a", b"x")
        yield before.create("/mine", ephemeral=True)
        third = yield self.connected(ensemble.servers[2].address)
        yield third.sync("/a")
        for server in ensemble.servers[:2]:
            server.kill()
        tree = self.coordinator(ensemble.address)
        yield self.until_state(tree, SessionState.READ_ONLY)
        self.assertIn("read-only", tree.problem)
        self.assertEqual(b"x", (yield self.checked(tree.get("/a")))[0])
        yield self.assertFailure(tree.set("/a", b"y"), ReadOnly)
        yield deferToThread(ensemble.start)
        yield self.until_state(tree, CONNECTED)
        yield tree.set("/a", b"y")
        self.assertIsNone(tree.problem)
        yield self.until_state(before, CONNECTED)
        self.assertEqual(session_id, before.session_id)
