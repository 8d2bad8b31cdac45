"""Closes connections on which nothing was read or written for long (spec 4)."""

from __future__ import annotations

from typing import Any

from twisted.application.internet import TimerService
from twisted.logger import Logger

from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.protocol import BrokerFactory

_TICKS = 5


class IdleConnections(TimerService):
    """Looks at all connections a few times within the limit, so that one is closed
    between `idle_timeout_s` and a fifth more after its last byte."""

    _log = Logger()

    def __init__(
        self, clock: Any, factory: BrokerFactory, numbers: BrokerNumbers
    ) -> None:
        self._factory = factory
        self._numbers = numbers
        super().__init__(factory.settings.idle_timeout_s / _TICKS, self.tick)
        self.clock = clock

    def tick(self) -> None:
        """One look; a silent connection is closed after five of them."""
        for connection in list(self._factory.connections):
            if connection.active:
                connection.active = False
                connection.idle_ticks = 0
                continue
            connection.idle_ticks += 1
            if connection.idle_ticks >= _TICKS:
                self._numbers.idle_closed += 1
                self._log.info(
                    "closing {peer}: idle", peer=connection.transport.getPeer()
                )
                connection.transport.abortConnection()
