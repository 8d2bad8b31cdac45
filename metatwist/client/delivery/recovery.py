"""Delivers messages of the recover store again, from time to time (spec client 13)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from metatwist.client.delivery.outcomes import (
    Outcome,
    deferred_from,
    listener_failed,
    settled,
)
from metatwist.client.delivery.recover_file import StoredMessage
from metatwist.client.delivery.recover_store import RecoverStore
from metatwist.client.delivery.stopping import Stopping
from metatwist.client.errors import ClientStopped, LocalStoreFailed
from metatwist.client.message import ReceivedMessage
from metatwist.client.settings import RecoverySettings

Listener = Callable[[ReceivedMessage], object]
_PAGE = 100


class Recovery(Service):
    """Hands stored messages to the registered listeners: in the order in which they
    were stored, one at a time, out of order with the partition. Where several recover
    from one store, a message is with one of them at a time.

    A message whose listener ends well is deleted; another one stays, with the error,
    and the rest goes on. A message whose listener has ended while the process died
    before the deletion comes again. Nothing is lost for want of a listener.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        store: RecoverStore,
        settings: RecoverySettings = RecoverySettings(),
    ) -> None:
        self._clock = clock
        self._store = store
        self._settings = settings
        self._listeners: dict[tuple[str, str], Listener] = {}
        self._stopping: Stopping | None = None
        self._pausing: Deferred[None] | None = None
        self._asked: Deferred[Outcome] | None = None

    def register(
        self, topic: str, group: str, listener: Listener
    ) -> Callable[[], None]:
        """Recover messages of a topic and group with a listener, one for each; a plain
        one (see `without_acks`). Returns how to stop that."""
        key = (topic, group)
        self._listeners[key] = listener

        def unregister() -> None:
            if self._listeners.get(key) is listener:
                del self._listeners[key]

        return unregister

    def startService(self) -> None:
        """Begin to wait for the first pass."""
        super().startService()
        self._stopping = Stopping(self._clock, self._give_up)
        Deferred.fromCoroutine(self._run(self._stopping)).addErrback(
            lambda failure: self._log.failure("recovery broke", failure)
        )

    def stopService(self) -> Deferred[None]:
        """Fires when the running listener has ended, or its time is over: its message
        stays then. The store is not closed."""
        super().stopService()
        if self._stopping is None:
            raise RuntimeError("stopped before it was started")
        stopped = self._stopping.ask(self._settings.stop_timeout_s)
        if self._pausing is not None:
            self._pausing.cancel()
        return stopped

    def _give_up(self) -> None:
        if self._asked is not None:
            self._asked.cancel()

    async def _run(self, stopping: Stopping) -> None:
        pause_s = self._settings.first_s
        try:
            while not stopping.wanted:
                self._pausing = deferLater(self._clock, pause_s)
                try:
                    await self._pausing
                except CancelledError:
                    return
                finally:
                    self._pausing = None
                await self._pass(stopping)
                pause_s = self._settings.period_s
        finally:
            stopping.end()

    async def _pass(self, stopping: Stopping) -> None:
        """All registered topics once; a store that fails is tried again in the next."""
        if not self._store.may_hold:
            return
        try:
            if self._settings.expiry_s is not None:
                expired = await self._store.expire(self._settings.expiry_s)
                if expired:
                    self._log.warn("{count} stored messages expired", count=expired)
            for topic, group in list(self._listeners):
                await self._recover(topic, group, stopping)
        except (LocalStoreFailed, ClientStopped) as error:
            self._log.error("no recovery for now: {error}", error=error)

    async def _recover(self, topic: str, group: str, stopping: Stopping) -> None:
        sequence = 0
        while taken := deque(await self._store.take(topic, group, sequence, _PAGE)):
            sequence = taken[-1].sequence
            try:
                while taken:
                    listener = self._listeners.get((topic, group))
                    if listener is None or stopping.wanted:
                        return
                    await self._deliver(taken.popleft(), listener, stopping)
            finally:
                self._store.give_back(taken)

    async def _deliver(
        self, stored: StoredMessage, listener: Listener, stopping: Stopping
    ) -> None:
        running = maybeDeferred(_called, listener, stored.message)
        timeout_s = self._settings.listener_timeout_s
        self._asked = settled(self._clock, running, timeout_s)
        _, error = await self._asked
        self._asked = None
        if error is None:
            await self._store.delete(stored.sequence)
        elif stopping.wanted and isinstance(error, CancelledError):
            self._store.give_back([stored])
        else:
            failed = listener_failed(stored.message, error)
            self._log.warn("not recovered: {error}", error=failed)
            await self._store.failed(stored.sequence, str(failed))


def _called(listener: Listener, message: ReceivedMessage) -> Any:
    answer = listener(message)
    return deferred_from(answer) or answer
