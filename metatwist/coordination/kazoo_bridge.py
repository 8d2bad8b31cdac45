"""One kazoo client and the way between its threads and the reactor's.

The client is made, started, stopped and closed on threads of its own, since all that
may block. What it has to say is handed to the reactor's thread, and to nobody once
`close` was called.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Protocol

from attrs import frozen
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from metatwist.coordination.ensemble_settings import EnsembleSettings
from metatwist.coordination.kazoo_handler import (
    ReactorHandler,
    ShuffledServers,
    forwarding_log,
)
from metatwist.coordination.kazoo_troubles import (
    Attempt,
    Trouble,
    attempted,
    granted_s,
    trouble_of,
)

FIRST_RETRY_S = 0.2
LONGEST_RETRY_S = 10.0
SHORTEST_CONNECT_LIMIT_S = 1.0
PATIENCE_S = 5.0
"""A server that says nothing is told after that time; kazoo waits for much longer."""


class Link(Enum):
    """What became of the client's connection."""

    CONNECTED = "connected"
    READ_ONLY = "read-only"
    SUSPENDED = "suspended"
    LOST = "lost"


@frozen
class LinkChange:
    """A change of the connection; the session's id is 0 where there is none."""

    link: Link
    session_id: int
    server: str


class BridgeOwner(Protocol):
    """Who is told, on the reactor's thread."""

    def link_changed(self, change: LinkChange) -> None:
        """The connection came or went."""

    def link_granted(self, session_timeout_s: float) -> None:
        """The session about to be told of lasts as long without contact."""

    def link_trouble(self, server: str, text: str) -> None:
        """Something did not work with that server (empty: with none or all)."""

    def link_ended(self, reason: str) -> None:
        """The client gave up by itself and is of no more use."""


def start_thread(call: Callable[[], None]) -> None:
    """Call on a thread that does not keep the process alive."""
    threading.Thread(target=call, name="zookeeper", daemon=True).start()


@frozen
class KazooParts:
    """What tests replace: how a client is made and where blocking calls run."""

    new_client: Callable[..., Any] = KazooClient
    in_thread: Callable[[Callable[[], None]], None] = start_thread


class KazooBridge:
    """One kazoo client from start to end; used on the reactor's thread.

    `client` is None until it has been made.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        settings: EnsembleSettings,
        owner: BridgeOwner,
        parts: KazooParts,
    ) -> None:
        self.client: Any = None
        self._reactor = reactor
        self._settings = settings
        self._owner: BridgeOwner | None = owner
        self._parts = parts
        target = settings.target
        limit_s = settings.session_timeout_s / len(target.servers)
        self._silence: IDelayedCall | None = None
        self._handler = ReactorHandler(
            self._hand_over, self._ended, max(limit_s, SHORTEST_CONNECT_LIMIT_S)
        )
        # Guards what only the opening and the closing thread use.
        self._lock = threading.Lock()
        self._opened: Any = None
        self._closing = False

    def open(self) -> None:
        """Begin to connect, and go on until `close`."""
        self._parts.in_thread(self._open)

    def close(self) -> Deferred[None]:
        """End the session; fires when the client's thread has ended, which may take
        as long as a connection attempt. The owner is told nothing from now on."""
        self._owner = None
        self.client = None
        self._heard()
        closed: Deferred[None] = Deferred()
        self._parts.in_thread(partial(self._close, closed))
        return closed

    def forget_progress(self) -> None:
        """Go back to the session on a server that has seen less than the last one."""
        if self.client is not None:
            self.client.last_zxid = 0

    # -- on threads of kazoo and for kazoo ---------------------------------------

    def _open(self) -> None:
        with self._lock:
            if self._closing:
                return
            try:
                self._opened = client = self._parts.new_client(**self._options())
                client.hosts = ShuffledServers(client.hosts)
                client.add_listener(partial(self._listen, client))
                self._hand_over(self._made, client)
                client.start_async()
            except Exception as error:
                self._hand_over(self._ended, error)

    def _close(self, closed: Deferred[None]) -> None:
        text = ""
        with self._lock:
            self._closing = True
            try:
                if self._opened is not None:
                    self._opened.stop()
                    self._opened.close()
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
        self._reactor.callFromThread(self._closed, closed, text)

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        retry = KazooRetry(
            max_tries=-1,
            delay=FIRST_RETRY_S,
            # A server that is back gives a session its time to return, not more.
            max_delay=min(LONGEST_RETRY_S, settings.session_timeout_s / 4),
            sleep_func=self._handler.sleep_func,
        )
        return {
            "hosts": str(settings.target),
            "timeout": settings.session_timeout_s,
            "handler": self._handler,
            "auth_data": [settings.credentials] if settings.credentials else None,
            "read_only": True,
            "connection_retry": retry,
            "logger": forwarding_log(self._told),
        }

    def _listen(self, client: Any, state: str) -> None:
        session_id, _ = client.client_id or (0, b"")
        if state == KazooState.SUSPENDED:
            link = Link.SUSPENDED
        elif state == KazooState.LOST:
            link = Link.LOST
        elif client.client_state == KeeperState.CONNECTED_RO:
            link = Link.READ_ONLY
        else:
            link = Link.CONNECTED
        change = LinkChange(link, session_id or 0, self._handler.peer)
        self._hand_over(self._changed, change)

    def _told(self, record: logging.LogRecord) -> None:
        """kazoo's log goes no further: what matters of it is told as a trouble."""
        granted = granted_s(record)
        if granted is not None:
            self._hand_over(self._granted, granted)
            return
        server = attempted(record)
        trouble = trouble_of(record, self._attempt())
        if server is not None:
            self._hand_over(self._trying, server)
        elif trouble is not None:
            self._hand_over(self._complained, trouble)

    def _attempt(self) -> Attempt:
        handler, credentials = self._handler, self._settings.credentials
        state = getattr(self._opened, "client_state", None)
        has_session = state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
        scheme = credentials[0] if credentials else None
        return Attempt(handler.peer, handler.is_accepted, has_session, scheme)

    def _hand_over(self, call: Callable[..., object], *args: Any) -> None:
        self._reactor.callFromThread(self._deliver, call, args)

    # -- on the reactor's thread -------------------------------------------------

    def _deliver(self, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self._owner is not None:
            call(*args)

    def _made(self, client: Any) -> None:
        self.client = client

    def _granted(self, session_timeout_s: float) -> None:
        if self._owner is not None:
            self._owner.link_granted(session_timeout_s)

    def _trying(self, server: str) -> None:
        self._heard()
        self._silence = self._reactor.callLater(PATIENCE_S, self._no_answer, server)

    def _no_answer(self, server: str) -> None:
        self._silence = None
        self._complained(Trouble(server, self._attempt().silence))

    def _heard(self) -> None:
        """Something came of the attempt."""
        silence, self._silence = self._silence, None
        if silence is not None:
            silence.cancel()

    def _changed(self, change: LinkChange) -> None:
        self._heard()
        if self._owner is not None:
            self._owner.link_changed(change)

    def _ended(self, error: Exception | None) -> None:
        self._heard()
        if self._owner is not None:
            reason = f"{type(error).__name__}: {error}" if error else ""
            self._owner.link_ended(reason)

    def _complained(self, trouble: Trouble) -> None:
        self._heard()
        if self._owner is not None:
            self._owner.link_trouble(trouble.server, trouble.text)

    def _closed(self, closed: Deferred[None], text: str) -> None:
        if text:
            self._log.debug("closing the session: {text}", text=text)
        closed.callback(None)
