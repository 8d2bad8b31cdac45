"""The embedded coordinator in memory, on a reactor whose time a test tells."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded import requests
from metatwist.coordination.embedded.service import (
    TICK_S,
    EmbeddedCoordinator,
    EmbeddedSettings,
)
from metatwist.coordination.embedded.store import MemoryStore
from tests.coordination.server_case import EPHEMERAL, Peer, Wire, create, greeting

ANY_PORT = "tcp:0:interface=127.0.0.1"
LIMIT_S = 20.0
TIMEOUT_S = 10.0


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
        self.finish(self.coordinator.stopService())

    def finish(self, stopped: Deferred[Any]) -> None:
        """Let a stop end, with all turns that this takes."""
        for _ in range(1000):
            if stopped.called:
                break
            self.turns.pump([0.02] * 10)
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
