"""Listeners that block."""

from __future__ import annotations

import threading
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from metatwist.client.delivery.in_threads import in_thread_pool
from metatwist.client.events import DeliveryFailed
from metatwist.client.message import ReceivedMessage
from tests.client.delivery.scripted import Bench, number_of

TIMEOUT_S = 60


class InThreadsTest(TestCase):
    """In the reactor's pool."""

    @inlineCallbacks
    def _until(self, condition: Any) -> Any:
        for _ in range(TIMEOUT_S * 100):
            if condition():
                return
            yield deferLater(reactor, 0.01)
        self.fail("it never came to that")

    @inlineCallbacks
    def test_elsewhere_and_in_order(self) -> Any:
        """The function runs on another thread, one message after the other; what it
        raises is a failure."""
        seen: list[int] = []
        threads: set[int] = set()

        def work(one: ReceivedMessage) -> None:
            threads.add(threading.get_ident())
            seen.append(number_of(one))
            if number_of(one) == 2:
                raise ValueError("bad")

        bench = Bench(4)
        bench.deliver(in_thread_pool(reactor, work), most_deliveries=1)
        yield self._until(lambda: bench.done == 4)
        self.assertEqual([0, 1, 2, 3], seen)
        self.assertNotIn(threading.get_ident(), threads)

    @inlineCallbacks
    def test_acks(self) -> Any:
        """Acks that are asked for in the thread take effect when the function ends."""

        def work(one: ReceivedMessage, acks: Any) -> None:
            if number_of(one) == 1:
                acks.ack()
            if number_of(one) == 3:
                acks.rollback()

        bench = Bench(4)
        bench.deliver(in_thread_pool(reactor, work), manual_ack=True)
        yield self._until(lambda: bench.told(DeliveryFailed))
        self.assertEqual(2, bench.done)
        yield bench.delivery.stop(1)

    @inlineCallbacks
    def test_cancelled(self) -> Any:
        """A function that takes too long is left behind."""
        going_on, ended = threading.Event(), threading.Event()

        def work(_: ReceivedMessage) -> None:
            going_on.wait(TIMEOUT_S)
            ended.set()

        bench = Bench(1)
        stopped: Deferred[None] = bench.deliver(in_thread_pool(reactor, work)).stop(3)
        bench.clock.advance(3)
        yield stopped
        going_on.set()
        yield self._until(ended.is_set)
        self.assertEqual(0, bench.done)
