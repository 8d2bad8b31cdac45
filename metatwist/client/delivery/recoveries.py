"""The recoveries of a consumer: one for each recover store among its policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, DeferredList

from metatwist.client.delivery.acks import without_acks
from metatwist.client.delivery.recover_store import RecoverStore
from metatwist.client.delivery.recovery import Recovery
from metatwist.client.settings import RecoverySettings


class Recoveries:
    """Delivers what stores have kept to the listeners that have failed on it."""

    def __init__(self, clock: Any, group: str, settings: RecoverySettings) -> None:
        self._clock = clock
        self._group = group
        self._settings = settings
        self._by_store: dict[RecoverStore, Recovery] = {}

    def add(
        self,
        topic: str,
        listener: Callable[..., Any],
        rejection: object,
        manual_ack: bool,
    ) -> None:
        """A subscription; before `start`. Other policies than a store need nothing."""
        if not isinstance(rejection, RecoverStore):
            return
        recovery = self._by_store.get(rejection)
        if recovery is None:
            recovery = Recovery(self._clock, rejection, self._settings)
            self._by_store[rejection] = recovery
        plain = without_acks(listener) if manual_ack else listener
        recovery.register(topic, self._group, plain)

    def start(self) -> None:
        """Begin to look into the stores."""
        for recovery in self._by_store.values():
            recovery.startService()

    def stop(self) -> Deferred[Any]:
        """Fires when no listener runs for a recovery, within `stop_timeout_s`."""
        running = [one for one in self._by_store.values() if one.running]
        return DeferredList([one.stopService() for one in running])
