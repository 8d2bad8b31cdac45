"""kazoo without a server, on threads that run when a test says so."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from attrs import define, field
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import (
    EventType,
    KazooState,
    KeeperState,
    WatchedEvent,
    ZnodeStat,
)
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.ensemble import EnsembleCoordinator, EnsembleSettings
from metatwist.coordination.interface import SessionState
from metatwist.coordination.kazoo_bridge import KazooParts

SESSION_S = 30.0
REQUEST_S = 10.0


def on_thread(call: Callable[..., object], *arguments: object) -> None:
    """Call on another thread and wait for its end."""
    thread = threading.Thread(target=call, args=arguments)
    thread.start()
    thread.join()


def stat(**fields: int) -> ZnodeStat:
    """A stat of kazoo's, zero but for these fields."""
    return ZnodeStat(*[0] * 11)._replace(**fields)


class FakeReactor(Clock):
    """Time by hand; calls from threads wait for `turn`."""

    def __init__(self) -> None:
        super().__init__()
        self.from_threads: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def callFromThread(self, call: Callable[..., object], *args: Any) -> None:
        """See IReactorFromThreads."""
        self.from_threads.append((call, args))

    def turn(self) -> None:
        """Make all the calls, in order."""
        while self.from_threads:
            call, args = self.from_threads.pop(0)
            call(*args)


@define
class FakeCall:
    """One request that reached kazoo."""

    name: str
    args: tuple[Any, ...]
    keys: dict[str, Any]
    result: Any

    def answer(self, value: Any = None) -> None:
        """The server's answer, on kazoo's thread."""
        on_thread(self.result.set, value)

    def refuse(self, error: Exception) -> None:
        """An error instead."""
        on_thread(self.result.set_exception, error)


@define
class FakeTransaction:
    """What kazoo calls a TransactionRequest, as much of it as is needed."""

    client: FakeKazoo
    operations: list[Any] = field(factory=list)

    def delete(self, path: str, version: int) -> None:
        """Add a delete."""
        self.operations.append((path, version))

    def commit_async(self) -> Any:
        """Send it."""
        return self.client.call("transaction", tuple(self.operations))


class FakeKazoo:
    """As much of a KazooClient as a bridge uses."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.handler = options["handler"]
        self.hosts = [("zk", 2181)]
        self.log: logging.Logger = options["logger"]
        self.last_zxid = 77
        self.client_state = KeeperState.CLOSED
        self.client_id: tuple[int, bytes] | None = None
        self.state = KazooState.LOST
        self.calls: list[FakeCall] = []
        self.life: list[str] = []
        self._listener: Callable[[str], object] = lambda _state: None

    def add_listener(self, listener: Callable[[str], object]) -> None:
        """There is one."""
        self._listener = listener

    def start_async(self) -> None:
        """Note it."""
        self.life.append("start")

    def stop(self) -> None:
        """Note it."""
        self.life.append("stop")

    def close(self) -> None:
        """Note it."""
        self.life.append("close")

    def transaction(self) -> FakeTransaction:
        """A new one."""
        return FakeTransaction(self)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.endswith("_async"):
            raise AttributeError(name)
        return lambda *args, **keys: self.call(name[:-6], args, **keys)

    def call(self, name: str, args: tuple[Any, ...], **keys: Any) -> Any:
        """Note a request."""
        result = self.handler.async_result()
        self.calls.append(FakeCall(name, args, keys, result))
        return result

    # -- what happens on kazoo's thread ------------------------------------------

    def connect(self, session_id: int, keeper: str = KeeperState.CONNECTED) -> None:
        """A connection with that session."""
        self.handler.peer = "zk:2181"
        self.client_id = (session_id, b"")
        self._change(keeper, KazooState.CONNECTED)

    def suspend(self) -> None:
        """The connection breaks; kazoo fails requests, then tells, then fires the
        watches that it forgets."""
        self.client_id = None
        for call in self.calls:
            call.refuse(ConnectionLoss())
        self._change(KeeperState.CONNECTING, KazooState.SUSPENDED)
        for call in self.calls:
            if "watch" in call.keys:
                self.fire(call.keys["watch"], EventType.NONE, None)

    def lose(self, keeper: str = KeeperState.EXPIRED_SESSION) -> None:
        """The session is over."""
        self.client_id = None
        self._change(keeper, KazooState.LOST)

    def end(self, error: Exception | None = None) -> None:
        """kazoo's loop comes to an end by itself."""

        def loop() -> None:
            if error is not None:
                raise error

        self.handler.spawn(loop).join()

    def fire(self, watch: Any, kind: str, path: str | None) -> None:
        """Give an event to a watch."""
        event = WatchedEvent(kind, self.client_state, path)
        on_thread(self.handler.dispatch_callback, _Callback(watch, (event,)))

    def warn(self, text: str, *args: object) -> None:
        """Something for kazoo's log."""
        on_thread(self.log.warning, text, *args)

    def _change(self, keeper: str, state: str) -> None:
        self.client_state = keeper
        self.state = state
        on_thread(self._listener, state)


@define
class _Callback:
    func: Callable[..., object]
    args: tuple[Any, ...]


class EnsembleCase(SynchronousTestCase):
    """A coordinator that was started, and nothing that happens by itself.

    `clients` are those made so far, `states` what its listener was told, `jobs` the
    calls that wait for a thread.
    """

    connect_string = "zk:2181"

    def setUp(self) -> None:
        """Start."""
        self.reactor = FakeReactor()
        self.reactor.advance(1000.0)
        self.clients: list[FakeKazoo] = []
        self.jobs: list[Callable[[], None]] = []
        self.states: list[SessionState] = []
        parts = KazooParts(self.new_client, self.jobs.append)
        settings = EnsembleSettings(self.connect_string, SESSION_S, REQUEST_S)
        self.tree = EnsembleCoordinator(self.reactor, settings, parts)
        self.tree.on_state(self.states.append)
        self.tree.startService()

    def new_client(self, **options: Any) -> FakeKazoo:
        """What KazooClient does."""
        self.clients.append(FakeKazoo(**options))
        return self.clients[-1]

    def run_jobs(self) -> None:
        """Let the threads work that wait."""
        while self.jobs:
            on_thread(self.jobs.pop(0))
        self.reactor.turn()

    @property
    def client(self) -> FakeKazoo:
        """The latest."""
        return self.clients[-1]

    def connected(self, session_id: int = 1) -> FakeKazoo:
        """Connect, answer the first request, and forget about that."""
        self.run_jobs()
        client = self.client
        client.connect(session_id)
        self.reactor.turn()
        self.answer(stat())
        client.calls.clear()
        return client

    def answer(self, value: Any = None, number: int = -1) -> None:
        """Answer one of the client's calls, the latest unless told otherwise."""
        self.client.calls[number].answer(value)
        self.reactor.turn()

    def suspended(self) -> None:
        """Break the connection."""
        self.client.suspend()
        self.reactor.turn()

    def resumed(self, session_id: int = 1) -> None:
        """Connect again, with what that brings along; calls of before are forgotten."""
        self.client.calls.clear()
        self.client.connect(session_id)
        self.reactor.turn()
        self.answer(stat(), 0)

    def watch_of(self, asked: Deferred[Any]) -> Deferred[Any]:
        """The watch that came with an answer."""
        watch: Deferred[Any] = self.successResultOf(asked)[-1]
        return watch
