"""Waits for the session with ZooKeeper, so that a tool can say that there is none."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from metatwist.client.errors import Attempt, NotConnected
from metatwist.coordination.ensemble import EnsembleCoordinator
from metatwist.coordination.interface import SessionState

_USABLE = (SessionState.CONNECTED, SessionState.READ_ONLY)


def connected(
    clock: Any, coordinator: EnsembleCoordinator, connect: str, timeout_s: float
) -> Deferred[None]:
    """Fires once there is a session; fails with NotConnected when there is none in
    time. `connect` is the connect string. Cancelling stops the wait."""
    waiting: Deferred[None] = Deferred()

    def late() -> None:
        reason = coordinator.problem or "no answer"
        waiting.errback(
            NotConnected("ZooKeeper cannot be reached", (Attempt(connect, reason),))
        )

    def told(state: SessionState) -> None:
        if state in _USABLE and not waiting.called:
            waiting.callback(None)

    def over(result: Any) -> Any:
        if timer.active():
            timer.cancel()
        return result

    timer = clock.callLater(timeout_s, late)
    waiting.addBoth(over)
    coordinator.on_state(told)
    told(coordinator.state)
    return waiting
