"""One broker that is asked, again and again, which partitions it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from metatwist.client.discovery.rounds import Rounds
from metatwist.client.discovery.stats_text import (
    Line,
    Offered,
    broker_id_of,
    offered_topics,
    stored_partitions,
)
from metatwist.client.errors import Attempt, ClientError, NotConnected
from metatwist.client.interfaces import IBrokers
from metatwist.client.settings import Backoff
from metatwist.client.statistics import ask_stats

PERIOD_S = 60.0
REFRESH_S = 0.5
TIMEOUT_S = 5.0
LISTEN_S = 0.1
RETRIES = Backoff(0.5, 30)


@frozen
class _Told:
    """One round's answers: `offered` by our own brokers, `logs` are the lines of
    `stats offsets` of others."""

    own_id: int | None = None
    offered: Mapping[str, Offered] | None = None
    logs: list[Line] = field(factory=list)


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
        self._reactor = reactor
        self._rounds = Rounds(reactor, self._round)
        self._link: Any = brokers.link(address)
        self._heard = _Told()
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
        """Those of a topic that can be read: all that are configured or stored, as far
        as the broker tells, else those that have a log."""
        if self._heard.offered is None:
            return stored_partitions(self._heard.logs, topic)
        offered = self._heard.offered.get(topic)
        return tuple(range(offered.readable)) if offered else ()

    def writable(self, topic: str) -> int | None:
        """How many partitions of a topic take messages, from 0 on: those configured, as
        far as the broker tells, else those up to the highest that has a log. None for a
        topic of which it has nothing, and may make it of the first message."""
        if self._heard.offered is None:
            logs = stored_partitions(self._heard.logs, topic)
            return logs[-1] + 1 if logs else None
        offered = self._heard.offered.get(topic)
        return offered.writable if offered else None

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

    async def _ask(self, link: Any) -> _Told:
        if not self.tried:
            await self._first_try(link)
        general = await ask_stats(link, "", TIMEOUT_S)
        own_id = broker_id_of(general.lines)
        extensions = await ask_stats(link, "extensions", TIMEOUT_S)
        offered = offered_topics(extensions.lines)
        if offered is not None:
            return _Told(own_id, offered)
        offsets = await ask_stats(link, "offsets", TIMEOUT_S)
        return _Told(own_id, logs=list(offsets.lines))

    async def _first_try(self, link: Any) -> None:
        """Until it is connected, or fails as soon as a try has failed: the link itself
        tries on, and tells of no failure before the time is up."""
        until_s = self._reactor.seconds() + TIMEOUT_S
        while True:
            try:
                await link.when_connected(LISTEN_S)
            except NotConnected as error:
                if error.attempts or self._reactor.seconds() >= until_s:
                    raise
            else:
                return

    def _answered(self, told: _Told) -> float:
        self._heard, self.own_id = told, told.own_id
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
