"""One broker that is asked, again and again, which partitions it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from metatwist.client.discovery.asking import ask_stats
from metatwist.client.discovery.rounds import Rounds
from metatwist.client.discovery.stats_text import (
    Line,
    broker_id_of,
    stored_partitions,
)
from metatwist.client.errors import Attempt, ClientError, NotConnected
from metatwist.client.interfaces import IBrokers
from metatwist.client.settings import Backoff

PERIOD_S = 60.0
REFRESH_S = 0.5
TIMEOUT_S = 5.0
RETRIES = Backoff(0.5, 30)


class AskedBroker:
    """`told` is called after each try, from `start` to `stop`. Its connection is kept
    as long.

    Attributes:
        address: of its link.
        own_id: what it calls itself, None if it does not say.
        answered: it has answered once, and what it said stays valid.
        failure: why the last try failed, None if it did not.
    """

    def __init__(
        self,
        reactor: Any,
        brokers: IBrokers,
        address: str,
        told: Callable[[AskedBroker], object],
    ) -> None:
        self.address = address
        self.own_id: int | None = None
        self.answered = False
        self.failure: ClientError | None = None
        self._told = told
        self._rounds = Rounds(reactor, self._round)
        self._link: Any = brokers.link(address)
        self._offsets: list[Line] = []
        self._failures = 0

    @property
    def tried(self) -> bool:
        """Whether it has answered, or failed to."""
        return self.answered or self.failure is not None

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """What was tried the last time, if it failed."""
        if self.failure is None:
            return ()
        if isinstance(self.failure, NotConnected) and self.failure.attempts:
            return self.failure.attempts
        return (Attempt(self.address, self.failure.text),)

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Those of a topic that have a log."""
        return stored_partitions(self._offsets, topic)

    def start(self) -> None:
        """Begin to ask."""
        self._link.hold(self)
        self._rounds.start()

    def ask_soon(self) -> None:
        """Something did not work."""
        self._rounds.wake(REFRESH_S)

    def stop(self) -> None:
        """Ask no more."""
        self._rounds.stop()
        self._link.release(self)

    def _round(self) -> Deferred[float]:
        asking = Deferred.fromCoroutine(self._ask(self._link))
        return asking.addCallbacks(self._answered, self._failed)

    async def _ask(self, link: Any) -> tuple[list[Line], list[Line]]:
        general = await ask_stats(link, "", TIMEOUT_S)
        return general, await ask_stats(link, "offsets", TIMEOUT_S)

    def _answered(self, answers: tuple[list[Line], list[Line]]) -> float:
        general, self._offsets = answers
        self.own_id = broker_id_of(general)
        self.failure, self._failures, self.answered = None, 0, True
        self._told(self)
        return PERIOD_S

    def _failed(self, failure: Failure) -> float:
        failure.trap(ClientError)
        error: Any = failure.value
        self.failure = error
        self._failures += 1
        self._told(self)
        return RETRIES.pause_s(self._failures)
