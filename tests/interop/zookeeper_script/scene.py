"""What each scene of the script works with."""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.protocol.states import WatchedEvent
from kazoo.retry import KazooRetry

from . import records
from .raw_client import ConnectRequest, RawClient
from .transcript import Ledger, Step

SESSION_S = 10.0
WAIT_S = 20.0


class Scene:
    """A part of the script, with a fresh directory `root` and clients of its own.

    `steps` grows as the scene asks, with `~` for the root; all clients end with
    `close`. `fence` is a path that no watch of the scene can see.
    """

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name = name
        self.address = address
        token = f"{time.time_ns():x}"
        self.root = f"/script-{token}"
        self.fence = f"/fence-{token}"
        self.steps: list[Step] = []
        self._names: Counter[str] = Counter()
        self.ledger = Ledger()
        self._clients: list[KazooClient] = []
        self._connections: list[RawClient] = []
        self._endings: list[Callable[[], object]] = []
        self.kazoo("script").create(self.root)

    def note(self, words: str, answer: object) -> None:
        """Add a step whose answer is known."""
        shown = answer if isinstance(answer, str) else self.ledger.show(answer)
        shown = shown.replace(self.root, "~")
        self._names[words] += 1
        again = self._names[words]
        name = f"{words} ({again})" if again > 1 else words
        self.steps.append(Step(f"{self.name}: {name}", shown))

    def ask(self, words: str, call: Callable[..., Any], *args: Any, **keys: Any) -> Any:
        """Call kazoo, add its answer or error as a step, and answer it or None."""
        try:
            answer = call(*args, **keys)
        except KazooException as error:
            self.note(words, self.ledger.show(error))
            return None
        self.note(words, self.ledger.show(answer))
        return answer

    def kazoo(self, session: str, address: str | None = None) -> KazooClient:
        """A connected kazoo client whose session shows as `session`."""
        client = self.unstarted_kazoo(address)
        client.start(WAIT_S)
        self.ledger.name_session(client.client_id[0], session)
        return client

    def unstarted_kazoo(
        self, address: str | None = None, client_id: tuple[int, bytes] | None = None
    ) -> KazooClient:
        """A kazoo client that retries quickly and is stopped with the scene."""
        host, port = self.address
        client = KazooClient(
            address or f"{host}:{port}",
            timeout=SESSION_S,
            client_id=client_id,
            connection_retry=KazooRetry(max_tries=-1, delay=0.02, max_delay=0.1),
        )
        self._clients.append(client)
        return client

    def connection(self) -> RawClient:
        """A raw connection that has sent nothing."""
        connection = RawClient(self.address)
        self._connections.append(connection)
        return connection

    def raw(self, session: str, request: ConnectRequest | None = None) -> RawClient:
        """A raw connection with a session that shows as `session`."""
        connection = self.connection()
        granted = connection.connect(request)
        self.ledger.name_session(granted.id, session)
        return connection

    def at_end(self, call: Callable[[], object]) -> None:
        """Have it called when the scene and its clients have ended."""
        self._endings.append(call)

    def close(self) -> None:
        """End all clients of the scene."""
        for connection in self._connections:
            if connection.session.id:
                connection.send(records.CLOSE)
            connection.drop()
        for client in self._clients:
            client.stop()
            client.close()
        for call in self._endings:
            call()


class WatchLog:
    """Remembers what kazoo's watches say."""

    def __init__(self, client: KazooClient, fence: str) -> None:
        self._client = client
        self._fence = fence
        self._events: queue.Queue[tuple[str, WatchedEvent]] = queue.Queue()

    def watch(self, tag: str) -> Callable[[WatchedEvent], None]:
        """A watch function whose events show with `tag`."""

        def remember(event: WatchedEvent) -> None:
            self._events.put((tag, event))

        return remember

    def drain(self, ledger: Ledger) -> list[str]:
        """All events that the server sent before now.

        A server sends the events of a connection in order, so they are all in once the
        event of a change made now has come.
        """
        self._client.exists(self._fence, watch=self.watch("fence"))
        self._client.create(self._fence)
        found = []
        while True:
            tag, event = self._events.get(timeout=WAIT_S)
            if tag == "fence":
                break
            found.append(f"{tag} {ledger.show(event)}")
        self._client.delete(self._fence)
        return found

    def next(self, ledger: Ledger) -> str:
        """Wait for one event."""
        tag, event = self._events.get(timeout=WAIT_S)
        return f"{tag} {ledger.show(event)}"


def wait_until(is_so: Callable[[], object]) -> None:
    """Poll until it is true; raises AssertionError after WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {WAIT_S:.0f} s")
        time.sleep(0.01)


def is_missing(client: KazooClient, path: str) -> bool:
    """Whether there is no such znode now."""
    try:
        client.get(path)
    except NoNodeError:
        return True
    return False


def pass_a_millisecond() -> None:
    """Make the next change have another time than the last; times are in ms."""
    time.sleep(0.005)
