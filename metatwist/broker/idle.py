"""Closes connections on which nothing was read or written for long (spec 4).

One with a poll that waits for data is not silent: the next word is the broker's.
"""

from __future__ import annotations

from typing import Any

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.protocol import BrokerFactory

_TICKS = 5
_ASK_AGAIN_S = 60.0


class IdleConnections(Service):
    """Looks at all connections a few times within the limit, so that one is closed
    between `idle_timeout_s` and a fifth more after its last byte. A limit of 0 closes
    none; a reloaded one holds from the next look on."""

    _log = Logger()

    def __init__(
        self, clock: Any, factory: BrokerFactory, numbers: BrokerNumbers
    ) -> None:
        self._clock = clock
        self._factory = factory
        self._numbers = numbers
        self._timer: IDelayedCall | None = None

    def startService(self) -> None:
        """Begin to look."""
        super().startService()
        self._sleep()

    def stopService(self) -> None:
        """Look no more."""
        super().stopService()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sleep(self) -> None:
        timeout_s = self._factory.settings.idle_timeout_s
        delay_s = timeout_s / _TICKS if timeout_s else _ASK_AGAIN_S
        self._timer = self._clock.callLater(delay_s, self._wake)

    def _wake(self) -> None:
        if self._factory.settings.idle_timeout_s:
            self.tick()
        self._sleep()

    def tick(self) -> None:
        """One look; a silent connection is closed after five of them."""
        for connection in list(self._factory.connections):
            if connection.active or connection.awaits_data:
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
