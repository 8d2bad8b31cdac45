"""Coordinators of ours on a real ZooKeeper, and a check that none leaves the reactor's
thread."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import SkipTest

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from metatwist.coordination.ensemble import EnsembleCoordinator, EnsembleSettings
from metatwist.coordination.interface import SessionState

from ..support.tcp_proxy import TcpProxy
from .zookeeper_server import DebianZooKeeper, find_zookeeper

POLL_S = 0.01
LIMIT_S = 60.0
SESSION_S = 2.0


class CoordinatorCase(TestCase):
    """A directory, servers and coordinators in it, all of them stopped at the end.

    `states` has what the listener of each coordinator was told.
    """

    def setUp(self) -> None:
        """Nothing runs yet."""
        why_not = find_zookeeper()
        if why_not is not None:
            raise SkipTest(why_not)
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.states: dict[EnsembleCoordinator, list[SessionState]] = {}
        self.threads: set[int] = set()
        self.addCleanup(self._only_reactor_thread)

    def zookeeper(self, name: str = "zookeeper") -> DebianZooKeeper:
        """A server that does not run yet."""
        server = DebianZooKeeper(self.directory / name)
        self.addCleanup(server.kill)
        return server

    def proxy(self, server: DebianZooKeeper) -> TcpProxy:
        """A proxy in front of a server."""
        proxy = TcpProxy(server.port)
        self.addCleanup(proxy.close)
        return proxy

    def coordinator(self, connect: str, **keys: Any) -> EnsembleCoordinator:
        """A coordinator that was just started."""
        keys = {"session_timeout_s": SESSION_S, "connection_timeout_s": 20.0, **keys}
        coordinator = EnsembleCoordinator(reactor, EnsembleSettings(connect, **keys))
        states = self.states[coordinator] = []

        def note(state: SessionState) -> None:
            self.threads.add(threading.get_ident())
            states.append(state)

        coordinator.on_state(note)
        coordinator.startService()
        self.addCleanup(coordinator.stopService)
        return coordinator

    @inlineCallbacks
    def connected(self, connect: str, **keys: Any) -> Any:
        """A coordinator that has connected."""
        coordinator = self.coordinator(connect, **keys)
        yield self.until_state(coordinator, SessionState.CONNECTED)
        return coordinator

    @inlineCallbacks
    def until(self, holds: Callable[[], object], what: str) -> Any:
        """Wait until that holds, for as long as is reasonable."""
        deadline = time.monotonic() + LIMIT_S
        while not holds():
            if time.monotonic() > deadline:
                self.fail(f"never: {what}")
            yield deferLater(reactor, POLL_S)

    def until_state(
        self, coordinator: EnsembleCoordinator, state: SessionState
    ) -> Deferred[None]:
        """Wait for a state."""
        return self.until(lambda: coordinator.state is state, str(state))

    def until_fired(self, watch: Deferred[Any]) -> Deferred[Any]:
        """Wait for a watch or an answer; passes on what it fires or fails with."""
        return self.checked(watch).addTimeout(LIMIT_S, reactor)

    def checked(self, answer: Deferred[Any]) -> Deferred[Any]:
        """The same, and its thread is noted."""

        def note(result: Any) -> Any:
            self.threads.add(threading.get_ident())
            return result

        return answer.addBoth(note)

    def _only_reactor_thread(self) -> None:
        self.assertLessEqual(self.threads, {threading.get_ident()})
