"""The session with an ensemble: what kazoo tells, made into states.

A connection counts once the server has answered a first request on it: kazoo calls
itself connected before it has sent credentials, and a chroot that is missing shows
only then. What gives kazoo up for good (refused credentials, nonsense from a server)
is answered with a new client after a while.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, TimeoutError, fail, maybeDeferred, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.coordination.ensemble_outage import Outage, session_name
from metatwist.coordination.ensemble_requests import Requests
from metatwist.coordination.ensemble_settings import EnsembleSettings
from metatwist.coordination.ensemble_watches import Watches
from metatwist.coordination.errors import ConnectionLost, CoordinationError
from metatwist.coordination.interface import SessionState
from metatwist.coordination.kazoo_bridge import (
    KazooBridge,
    KazooParts,
    Link,
    LinkChange,
)
from metatwist.coordination.state_listeners import StateListeners

PROBE_INTERVAL_S = 5.0
LONGEST_PAUSE_S = 60.0
STOP_LIMIT_S = 5.0
USABLE = (SessionState.CONNECTED, SessionState.READ_ONLY)
Start = Callable[[Any], Any]
"""Calls one of the asynchronous methods of the kazoo client that it is given."""


class EnsembleSession:
    """The states, and the requests and watches that end with them.

    When a state ends requests or watches, listeners know of it before these fail.

    Attributes:
        state, session_id, session_timeout_s: see `ICoordinator`.
        server: the one it is connected to, as `host:port`; empty without.
        watches: those of this session.
        outage: why it is not connected.
    """

    _log = Logger()

    def __init__(
        self, reactor: Any, settings: EnsembleSettings, parts: KazooParts
    ) -> None:
        self.state = SessionState.CONNECTING
        self.session_id = 0
        self.session_timeout_s: float | None = None
        self.server = ""
        self.watches = Watches()
        self.outage = Outage(reactor, str(settings.target))
        self._reactor = reactor
        self._settings = settings
        self._parts = parts
        self.listeners = StateListeners()
        self._requests = Requests(reactor, settings.connection_timeout_s)
        self._bridge: KazooBridge | None = None
        self._connection: LinkChange | None = None
        self._next_try: IDelayedCall | None = None
        self._forgetting: IDelayedCall | None = None
        self._ends = 0

    def start(self) -> None:
        """Begin to connect."""
        self.outage.begin("not connected yet", is_news=False)
        self._become(SessionState.CONNECTING)
        self._open()

    def stop(self) -> Deferred[None]:
        """End the session; fires when the server knows, at the latest after
        STOP_LIMIT_S, and at once without a connection."""
        bridge, self._bridge = self._bridge, None
        is_reachable = self._connection is not None
        self._no_connection()
        self._no_session()
        self.outage.end()
        self._become(SessionState.CLOSED)
        self._requests.fail_all()
        self.watches.fail_all()
        if bridge is None:
            return succeed(None)
        closed = bridge.close()
        if not is_reachable:
            return succeed(None)
        return closed.addTimeout(STOP_LIMIT_S, self._reactor).addErrback(self._slow)

    def ask(self, start: Start, subject: str) -> Deferred[Any]:
        """Send a request; without a connection it fails at once. Fires with kazoo's
        value or fails with a CoordinationError."""
        if self.state not in USABLE:
            return fail(ConnectionLost(self.outage.problem or self.state.value))
        return self._ask(start, subject)

    def _ask(self, start: Start, subject: str) -> Deferred[Any]:
        assert self._bridge is not None
        return self._requests.submit(partial(start, self._bridge.client), subject)

    # -- what the bridge tells ---------------------------------------------------

    def link_changed(self, change: LinkChange) -> None:
        """See `BridgeOwner`."""
        if change.link is Link.LOST:
            self._session_over()
        elif change.link is Link.SUSPENDED:
            self._interrupted()
        else:
            if self.session_id not in (0, change.session_id):
                self._session_over()
            self._connection = change
            self._probe()

    def link_granted(self, session_timeout_s: float) -> None:
        """See `BridgeOwner`."""
        self.session_timeout_s = session_timeout_s

    def link_trouble(self, server: str, text: str) -> None:
        """See `BridgeOwner`."""
        self.outage.trouble(server, text)

    def link_ended(self, reason: str) -> None:
        """See `BridgeOwner`."""
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.close()
        self._session_over()
        if reason:
            self.outage.trouble(self.server, reason)
        if self.state is not SessionState.CLOSED:
            self._ends += 1
            longest_s = min(2.0**self._ends, LONGEST_PAUSE_S)
            self._try_later(longest_s, self._open)

    # -- steps -------------------------------------------------------------------

    def _open(self) -> None:
        self._bridge = KazooBridge(self._reactor, self._settings, self, self._parts)
        self._bridge.open()

    def _probe(self) -> None:
        connection = self._connection
        self._ask(lambda client: client.exists_async("/"), "/").addCallbacks(
            self._probed,
            self._not_probed,
            callbackArgs=(connection,),
            errbackArgs=(connection,),
        )

    def _probed(self, stat: Any, connection: LinkChange) -> None:
        if connection is not self._connection:
            return
        if stat is not None:
            self._connected(connection)
            return
        chroot = self._settings.target.chroot
        self.outage.trouble(connection.server, f"has no chroot {chroot}, create it")
        self._try_later(PROBE_INTERVAL_S, self._probe)

    def _not_probed(self, failure: Failure, connection: LinkChange) -> None:
        failure.trap(CoordinationError)
        if connection is self._connection:
            self.outage.trouble(connection.server, str(failure.value))
            self._try_later(PROBE_INTERVAL_S, self._probe)

    def _connected(self, connection: LinkChange) -> None:
        self._keep_progress()
        self._ends = 0
        self.session_id = connection.session_id
        self.server = connection.server
        is_read_only = connection.link is Link.READ_ONLY
        self.outage.over(self.server, self.session_id, is_read_only)
        # Before any request of a listener, as ZooKeeper's own client does it.
        self.watches.set_again(self._ask)
        self._become(USABLE[is_read_only])

    def _interrupted(self) -> None:
        self._no_connection()
        if self.session_id:
            self.outage.begin("connection lost")
            if self._forgetting is None:
                self._forgetting = self._reactor.callLater(
                    self._settings.session_timeout_s, self._forget_progress
                )
            self._become(SessionState.SUSPENDED)
        self._requests.fail_all()

    def _session_over(self) -> None:
        self._no_connection()
        if self.session_id:
            self.outage.begin(f"session {session_name(self.session_id)} expired")
        self._no_session()
        self._become(SessionState.CONNECTING)
        self._requests.fail_all()
        self.watches.fail_all()

    def _no_connection(self) -> None:
        self._connection = None
        self.server = ""
        if self._next_try is not None:
            self._next_try.cancel()
            self._next_try = None

    def _no_session(self) -> None:
        self.session_id = 0
        self._keep_progress()

    def _keep_progress(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
            self._forgetting = None

    def _forget_progress(self) -> None:
        """A server that has seen less than we have does not let us in, so that we
        don't go back in time. One that was set up anew never will have (spec layout
        7.3, rule 7). After the session's time, going back is the lesser evil."""
        self._forgetting = None
        if self._bridge is not None:
            self._bridge.forget_progress()

    def _become(self, state: SessionState) -> None:
        if state is self.state:
            return
        self.state = state
        for call in self.listeners:
            maybeDeferred(call, state).addErrback(self._listener_failed)

    def _listener_failed(self, failure: Failure) -> None:
        self._log.failure("a listener of the session's state failed", failure)

    def _slow(self, failure: Failure) -> None:
        failure.trap(TimeoutError)
        self._log.warn("ZooKeeper does not answer; the session ends by its timeout")

    def _try_later(self, longest_s: float, call: Callable[[], None]) -> None:
        if self._next_try is not None:
            self._next_try.cancel()
        delay_s = longest_s * random.uniform(0.5, 1.0)
        self._next_try = self._reactor.callLater(delay_s, self._try, call)

    def _try(self, call: Callable[[], None]) -> None:
        self._next_try = None
        call()
