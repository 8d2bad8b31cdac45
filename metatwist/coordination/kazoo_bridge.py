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
from twisted.logger import Logger

from metatwist.coordination.ensemble_settings import EnsembleSettings
from metatwist.coordination.kazoo_handler import (
    ReactorHandler,
    ShuffledServers,
    forwarding_log,
)

FIRST_RETRY_S = 0.2
LONGEST_RETRY_S = 10.0
SHORTEST_CONNECT_LIMIT_S = 1.0
_NOISE = ("Transition to CONNECTING",)
_PREFIXES = ("Connection dropped: ", "Connection time-out: ", "socket connection ")


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
        text = record.getMessage()
        server = self._handler.peer
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {record.exc_info[1]!r}"
        if text.startswith("Cannot resolve") and isinstance(record.args, tuple):
            server, text = str(record.args[0]), f"cannot be resolved: {record.args[1]}"
        if text.startswith("AUTH_FAILED") and self._settings.credentials:
            text = f"refused the credentials of scheme {self._settings.credentials[0]}"
        self._hand_over(self._complained, record.levelno, server, text)

    def _hand_over(self, call: Callable[..., object], *args: Any) -> None:
        self._reactor.callFromThread(self._deliver, call, args)

    # -- on the reactor's thread -------------------------------------------------

    def _deliver(self, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self._owner is not None:
            call(*args)

    def _made(self, client: Any) -> None:
        self.client = client

    def _changed(self, change: LinkChange) -> None:
        if self._owner is not None:
            self._owner.link_changed(change)

    def _ended(self, error: Exception | None) -> None:
        if self._owner is not None:
            reason = f"{type(error).__name__}: {error}" if error else ""
            self._owner.link_ended(reason)

    def _complained(self, level: int, server: str, text: str) -> None:
        self._log.debug("kazoo, {server}: {text}", server=server, text=text)
        if self._owner is None or level < logging.WARNING or text in _NOISE:
            return
        for prefix in _PREFIXES:
            text = text.removeprefix(prefix)
        self._owner.link_trouble(server, text.removeprefix("error: "))

    def _closed(self, closed: Deferred[None], text: str) -> None:
        if text:
            self._log.debug("closing the session: {text}", text=text)
        closed.callback(None)
