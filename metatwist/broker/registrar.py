"""Keeps what is registered as it should be, as long as the broker runs.

Events (a session, a change of topics, a reload, the timer) only ask for a pass, which
compares all there is with all there should be (spec layout 9.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import (
    Deferred,
    TimeoutError,
    inlineCallbacks,
    succeed,
)
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.broker.contested_id import ContestedId
from metatwist.broker.passes import Passes
from metatwist.broker.reconciling import Foreign, Reconciling
from metatwist.broker.registration import Names, offers, stored_topics
from metatwist.broker.registration_state import RegistrationState
from metatwist.broker.registration_view import RegistrationView
from metatwist.broker.settings import BrokerSettings
from metatwist.broker.settings.coordination import tree_settings
from metatwist.broker.topics import Topics
from metatwist.coordination.errors import CoordinationError
from metatwist.coordination.interface import ICoordinator, SessionState
from metatwist.errors import DuplicateBroker

WITHDRAW_LIMIT_S = 5.0
# A dead session ends by the server's clock, whose ticks are up to half a timeout.
CONTEST_SESSIONS = 1.5


class Registrar(Service):
    """Registers a master and its topics, and repairs what goes missing.

    `give_up` is called with a Failure of DuplicateBroker when another broker has our id
    at the first registration, and stays. Later that is said, and tried again.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        coordinator: ICoordinator,
        topics: Topics,
        address: Callable[[], str],
        give_up: Callable[[Failure], object],
    ) -> None:
        self._clock = clock
        self._coordinator: Any = coordinator
        self._topics = topics
        self._address = address
        self._give_up = give_up
        self._tree = tree_settings(topics.settings)
        names = Names.of(topics.settings)
        self._nodes = Reconciling(clock, coordinator, names)
        self._passes = Passes(clock, self._pass, self._interval_s)
        self._contested = ContestedId(
            clock, coordinator, names.master, self._contest_limit_s, self._look
        )
        self._state = RegistrationState(
            coordinator, self._nodes.beliefs, lambda: self.settings, address
        )
        self._listens = False

    @property
    def settings(self) -> BrokerSettings:
        """Those in force."""
        return self._topics.settings

    def _contest_limit_s(self) -> float:
        """The server may keep dead sessions for longer than was asked."""
        granted_s: float = self._coordinator.session_timeout_s or 0
        return CONTEST_SESSIONS * max(self._tree.session_timeout_ms / 1000, granted_s)

    def _interval_s(self) -> float:
        return self.settings.reconcile_interval_s

    # -- service ------------------------------------------------------------------

    def startService(self) -> None:
        """Begin to register."""
        super().startService()
        if not self._listens:
            self._listens = True
            self._coordinator.on_state(lambda _: self._look())
            self._topics.on_change(self._passes.request)
        if not self._tree.enable:
            self._log.info("zk.zkEnable=false: the broker is not registered")
        self._passes.start()

    def stopService(self) -> None:
        """Do nothing more; what is registered stays."""
        super().stopService()
        self._passes.stop()
        self._contested.stop()

    def _look(self) -> None:
        self._passes.request(full=True)

    # -- passes -------------------------------------------------------------------

    @inlineCallbacks
    def _pass(self, full: bool) -> Any:
        """One pass; fires with whether it should be tried again soon."""
        again = False
        if self._tree.enable and self._coordinator.state is SessionState.CONNECTED:
            try:
                yield self._reconcile(full)
                self._state.failure = None
            except CoordinationError as error:
                self._state.failure = error
                again = error.retriable
        self._state.tell()
        return again

    @inlineCallbacks
    def _reconcile(self, full: bool) -> Any:
        nodes, url = self._nodes, self._address().encode()
        session_id = self._coordinator.session_id
        if session_id != nodes.session_id:
            nodes.begin_session(session_id)
            self._contested.stop()
        full = full or not nodes.is_master
        if full:
            self._state.foreign = yield nodes.claim(url)
        if self._state.foreign is not None:
            yield self._met(self._state.foreign)
            return
        self._state.was_master = True
        self._contested.stop()
        yield nodes.describe(url, self.settings.config_checksum, full)
        found, self._state.unfit = offers(self.settings, stored_topics(self._topics))
        refusal = None
        try:
            yield nodes.register(found, full)
            self._state.registered(session_id, len(found))
        except CoordinationError as error:
            if error.retriable:
                raise
            refusal = error
        if full:
            # A topic that is refused, time and again, must not hide other brokers.
            self._state.others = yield nodes.other_masters()
        if refusal is not None:
            raise refusal
        if full:
            self._state.last_pass_s = self._clock.seconds()

    def _met(self, foreign: Foreign) -> Deferred[Any]:
        """Another broker has our id: before we ever had it, wait for its end."""
        if self._state.was_master or not self.running:
            return succeed(None)
        if not self._contested.is_over:
            return self._contested.wait()
        self.stopService()
        error = DuplicateBroker(
            self.settings.broker_id,
            self._address(),
            foreign.url,
            self._nodes.names.master,
        )
        self._give_up(Failure(error))
        return succeed(None)

    # -- leaving ------------------------------------------------------------------

    def withdraw(self) -> Deferred[bool]:
        """Remove what is registered; no pass comes after it.

        Fires with whether clients have something to notice. Never fails, and ends
        within WITHDRAW_LIMIT_S: without a connection the nodes go with the session.
        """
        self.stopService()
        if not self._nodes.session_id:  # nothing was ever written
            return succeed(False)
        leaving = self._leave()
        leaving.addTimeout(WITHDRAW_LIMIT_S, self._clock)
        return leaving.addErrback(self._could_not_leave)

    @inlineCallbacks
    def _leave(self) -> Any:
        yield self._passes.idle()
        return (yield self._nodes.withdraw())

    def _could_not_leave(self, failure: Failure) -> bool:
        if not failure.check(CoordinationError, TimeoutError):
            self._log.failure("withdrawing failed as it never should", failure)
            return False
        self._log.warn(
            "could not withdraw what is registered, it goes with the session: {reason}",
            reason=failure.getErrorMessage() or repr(failure.value),
        )
        # Over a connection that works, some of it is withdrawn.
        return self._coordinator.state is SessionState.CONNECTED

    def view(self) -> RegistrationView:
        """How it stands."""
        return self._state.view(self._clock.seconds())
