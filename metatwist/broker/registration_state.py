"""What is known about a broker's registration, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from twisted.logger import Logger

from metatwist.broker import registration_view as say
from metatwist.broker.reconciling import MOST_NAMED, Foreign, Others
from metatwist.broker.registration_view import RegistrationView
from metatwist.broker.repair_plan import Beliefs
from metatwist.broker.settings import BrokerSettings
from metatwist.broker.settings.coordination import tree_settings
from metatwist.coordination.errors import CoordinationError
from metatwist.coordination.interface import ICoordinator, SessionState


class RegistrationState:
    """The outcome of the last passes, as the registrar notes it.

    `was_master` tells whether it ever was one; `unfit` names topics that no znode can
    have.
    """

    _log = Logger()

    def __init__(
        self,
        coordinator: ICoordinator,
        beliefs: Beliefs,
        settings: Callable[[], BrokerSettings],
        address: Callable[[], str],
    ) -> None:
        self.was_master = False
        self.foreign: Foreign | None = None
        self.failure: CoordinationError | None = None
        self.unfit: dict[str, str] = {}
        self.others = Others()
        self.last_pass_s: float | None = None
        self._coordinator: Any = coordinator
        self._beliefs = beliefs
        self._settings = settings
        self._address = address
        self._enabled = tree_settings(settings()).enable
        self._registered_as = 0
        self._said: str | None = None
        self._was_lost = False
        self._warned: set[str] = set()
        self._met: set[int | None] = set()

    @property
    def problem(self) -> str | None:
        """Why clients do not find the broker, or cannot use the coordinator in it; None
        when they do as far as is known."""
        return self._problem(self.foreign.url if self.foreign else "")

    def _problem(self, other: str) -> str | None:
        """The same, with a broker that has our id called `other`."""
        state, stalled = self._coordinator.state, self._stalled()
        if not self._enabled:
            return stalled
        if state is not SessionState.CONNECTED:
            return say.unreachable(self._where(), state.value)
        if self.foreign is not None:
            broker_id = self._settings().broker_id
            return say.taken_id(broker_id, self._address(), other)
        if self.failure is not None and stalled is None:
            return self._failed(self.failure)
        return stalled

    def _failed(self, error: CoordinationError) -> str:
        settings = self._settings()
        if settings.coordinator != "ensemble":
            return say.failed(error, "")
        has_credentials = settings.zookeeper_auth is not None
        return say.failed(error, self._coordinator.chroot, has_credentials)

    def _stalled(self) -> str | None:
        """What keeps an embedded coordinator from storing changes."""
        if self._settings().coordinator != "embedded":
            return None
        reason = getattr(self._coordinator, "problem", None)
        where = self._coordinator.description
        return None if reason is None else say.stalled(where, reason)

    def _where(self) -> str:
        where: str = self._coordinator.description
        reason = getattr(self._coordinator, "problem", None)
        return where if reason is None or reason in where else f"{where} ({reason})"

    def warnings(self) -> Iterator[str]:
        """What is not right, but keeps nothing from working now.

        Of an address that is no good for clients the settings warn already.
        """
        yield from self._own_warnings()
        for _, warning in self._of_others():
            yield warning

    def _own_warnings(self) -> Iterator[str]:
        for name, problem in self.unfit.items():
            yield say.unfit_topic(name, problem)
        damage = getattr(self._coordinator, "damage", ())
        if damage:
            yield say.damaged(damage)

    def _of_others(self) -> Iterator[tuple[int | None, str]]:
        """Each with the id of the other broker, the last one with None: the rest."""
        if self._settings().coordinator != "embedded":
            return
        for number, url in self.others.named.items():
            yield number, say.second_broker(number, url)
        if self.others.unnamed:
            yield None, say.more_brokers(self.others.unnamed)

    def registered(self, session_id: int, count: int) -> None:
        """All is as it should be, with so many topics; said after a change only, which
        a full disk of our own coordinator is not."""
        if session_id == self._registered_as and not self._was_lost:
            return
        self._registered_as, self._was_lost = session_id, False
        self._log.info(
            "registered broker {id}, {address}, topics: {count}; {where}",
            id=self._settings().broker_id,
            address=self._address(),
            count=count,
            where=self._coordinator.description,
        )

    def tell(self) -> None:
        """Log what is new."""
        # Told once, whatever the other one calls itself from time to time.
        problem, subject = self.problem, self._problem("another broker")
        # Of its connection and its disk the coordinator tells itself.
        cut_off = self._coordinator.state is not SessionState.CONNECTED
        is_stall = problem is not None and problem == self._stalled()
        if self.failure is not None or (problem is not None and not is_stall):
            self._was_lost = True
        cut_off = cut_off or is_stall
        if problem is not None and subject != self._said and not cut_off:
            lost = self.foreign is not None and self.was_master
            say_it = self._log.critical if lost else self._log.warn
            say_it("{problem}", problem=problem)
        self._said = subject
        for warning in self._news():
            self._log.warn("{warning}", warning=warning)

    def _news(self) -> Iterator[str]:
        """Warnings that were not told. Others may come and go, and change, without end:
        each is told once, by its id, and no more than MOST_NAMED of them."""
        for warning in self._own_warnings():
            if warning not in self._warned:
                self._warned.add(warning)
                yield warning
        for number, warning in self._of_others():
            has_room = number is None or len(self._met - {None}) < MOST_NAMED
            if number not in self._met and has_room:
                self._met.add(number)
                yield warning

    def view(self, now_s: float) -> RegistrationView:
        """How it stands."""
        coordinator, last_s = self._coordinator, self.last_pass_s
        session_id = coordinator.session_id
        return RegistrationView(
            kind=self._settings().coordinator,
            description=coordinator.description,
            state=coordinator.state.value,
            session_id=f"{session_id:#x}" if session_id else None,
            enabled=self._enabled,
            registered_nodes=self._beliefs.present,
            last_pass_age_s=None if last_s is None else round(now_s - last_s, 1),
            duplicate=self.foreign.url if self.foreign else None,
            problem=self.problem,
            repairs=dict(self._beliefs.repairs),
            other_brokers={str(key): url for key, url in self.others.named.items()},
            other_brokers_count=self.others.count,
            warnings=list(self.warnings()),
        )
