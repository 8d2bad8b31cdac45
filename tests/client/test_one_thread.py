"""The thread of a local file."""

from __future__ import annotations

import threading
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, gatherResults, inlineCallbacks
from twisted.trial.unittest import TestCase

from metatwist.client.errors import ClientStopped
from metatwist.client.one_thread import OneThread

TIMEOUT_S = 60


class OneThreadTest(TestCase):
    """Order, failures, the end."""

    @inlineCallbacks
    def test_one_after_the_other(self) -> Any:
        """Calls run in order on one thread that is not the reactor's; failures arrive,
        and a cancelled wait disturbs nothing."""
        thread, seen = OneThread(reactor, "test"), []
        going_on = threading.Event()

        def call(number: int) -> int:
            going_on.wait(TIMEOUT_S)
            seen.append((number, threading.get_ident()))
            return 10 // number

        calls = [thread.run(call, number) for number in (3, 1, 5)]
        failing, unwanted = thread.run(call, 0), thread.run(call, 7)
        unwanted.cancel()
        self.failureResultOf(unwanted, CancelledError)
        stopped = thread.stop(lambda: seen.append("last"))
        self.assertNoResult(stopped)
        going_on.set()
        self.assertEqual([3, 10, 2], (yield gatherResults(calls)))
        yield self.assertFailure(failing, ZeroDivisionError)
        yield stopped
        self.assertEqual([3, 1, 5, 0, 7], [one[0] for one in seen[:-1]])
        self.assertEqual("last", seen[-1])
        threads = {one[1] for one in seen[:-1]}
        self.assertEqual(1, len(threads))
        self.assertNotIn(threading.get_ident(), threads)

    @inlineCallbacks
    def test_stopped(self) -> Any:
        """After a stop, of an unused thread too, calls fail with ClientStopped."""
        thread = OneThread(reactor, "test")
        self.successResultOf(thread.stop(lambda: None))
        yield thread.stop()
        self.failureResultOf(thread.run(int), ClientStopped)
