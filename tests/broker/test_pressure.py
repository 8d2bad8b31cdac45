"""The bound on bytes that wait for the disk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.pressure import DiskPressure


class Sender:
    """A connection that counts how often it may go on."""

    resumed = 0

    def disk_caught_up(self) -> None:
        """Read again."""
        self.resumed += 1


def queue(waiting_bytes: int) -> Any:
    """A commit queue, as far as the pressure looks at it."""
    return SimpleNamespace(waiting_bytes=waiting_bytes)


class PressureTests(SynchronousTestCase):
    """`DiskPressure` with a bound of 100 bytes."""

    def setUp(self) -> None:
        """Nothing waits."""
        self.limit_bytes = 100
        self.numbers = BrokerNumbers()
        self.pressure = DiskPressure(lambda: self.limit_bytes, self.numbers)
        self.sender = Sender()

    def test_bytes_of_the_turn_count(self) -> None:
        """Within a turn what was received counts, up to the bound."""
        self.pressure.turn_bytes = 100
        self.assertFalse(self.pressure.too_much_waits(self.sender))
        self.pressure.turn_bytes = 101
        self.assertTrue(self.pressure.too_much_waits(self.sender))

    def test_queues_count(self) -> None:
        """At the end of a turn what the queues hold counts, over all of them."""
        self.pressure.turn_bytes = 1000
        self.pressure.turn_ended([queue(60), queue(41)])
        self.assertEqual(self.numbers.pending_bytes, 101)
        self.assertTrue(self.pressure.too_much_waits(self.sender))

    def test_resumes_at_half(self) -> None:
        """Who was paused goes on, once, when half of the bound has gone."""
        self.pressure.turn_bytes = 101
        self.pressure.too_much_waits(self.sender)
        for waiting_bytes, resumed in ((101, 0), (51, 0), (50, 1), (0, 1)):
            self.pressure.turn_ended([queue(waiting_bytes)])
            self.assertEqual(self.sender.resumed, resumed, waiting_bytes)

    def test_pauses_are_counted_once(self) -> None:
        """Asking again while it is paused counts no second pause."""
        self.pressure.turn_bytes = 101
        self.pressure.too_much_waits(self.sender)
        self.pressure.too_much_waits(self.sender)
        self.assertEqual(self.numbers.backpressure_pauses, 1)

    def test_forgotten(self) -> None:
        """A connection that has ended is not told."""
        self.pressure.turn_bytes = 101
        self.pressure.too_much_waits(self.sender)
        self.pressure.forget(self.sender)
        self.pressure.turn_ended([])
        self.assertEqual(self.sender.resumed, 0)

    def test_reloaded_bound(self) -> None:
        """A bound that was reloaded holds at once."""
        self.pressure.turn_bytes = 60
        self.assertFalse(self.pressure.too_much_waits(self.sender))
        self.limit_bytes = 50
        self.assertTrue(self.pressure.too_much_waits(self.sender))
