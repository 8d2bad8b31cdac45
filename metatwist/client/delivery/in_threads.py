"""Listeners that block, on the reactor's thread pool (spec client 22, 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from metatwist.client.delivery.acks import Acks
from metatwist.client.errors import AckRefused
from metatwist.client.message import ReceivedMessage


class ThreadAcks:
    """Acks for a function in a thread: what it asks for takes effect when it has ended,
    on the reactor's thread, also if it raised. See `Acks`."""

    def __init__(self, acks: Acks) -> None:
        self._acks = acks
        self._asked: str | None = None

    def ack(self) -> None:
        """This message is done and all before it."""
        self._ask("ack")

    def rollback(self) -> None:
        """Go back to the last ack."""
        self._ask("rollback")

    def apply(self) -> None:
        """Pass on what was asked for."""
        if self._asked == "ack":
            self._acks.ack()
        elif self._asked == "rollback":
            self._acks.rollback()

    def _ask(self, what: str) -> None:
        if self._asked not in (None, what):
            raise AckRefused(f"{what} after {self._asked}")
        self._asked = what


def in_thread_pool(
    reactor: Any, function: Callable[..., object]
) -> Callable[..., Deferred[Any]]:
    """A listener, with acks or without, that calls `function` on a thread of the
    reactor's pool, one message of a partition at a time; several partitions at once.

    Cancelling its Deferred, as a time-out does, drops the outcome; the function runs on
    for all that, and the message may come again meanwhile.
    """

    def listen(message: ReceivedMessage, *acks: Acks) -> Deferred[Any]:
        mine = [ThreadAcks(one) for one in acks]
        pool = reactor.getThreadPool()
        ended = deferToThreadPool(reactor, pool, function, message, *mine)

        def apply(result: Any) -> Any:
            for one in mine:
                one.apply()
            return result

        return ended.addBoth(apply) if mine else ended

    return listen
