"""Statistics of several brokers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import (
    NotConnected,
    RequestRefused,
    ServerUnavailable,
    UnexpectedReply,
)
from metatwist.client.statistics import ask_each
from tests.client.discovery.fake_brokers import FakeBrokers, FakeLink

A, B = "meta://a:1", "meta://b:1"


class AskingTests(SynchronousTestCase):
    """ask_each."""

    def setUp(self) -> None:
        self.brokers = FakeBrokers()
        self.a: FakeLink = self.brokers.link(A)
        self.b: FakeLink = self.brokers.link(B)

    def test_partial(self) -> None:
        """One that fails spoils nothing (W31), and every line is kept."""
        self.a.logs = [("t", 0), ("t", 1)]
        self.b.mode = "down"
        asking = ask_each(self.brokers, [B, A], "offsets", 1)
        found = self.successResultOf(asking)
        self.assertEqual(list(found), [B, A])
        self.assertEqual(
            found[A].lines,
            tuple(("t", f"part {one} min_offset 0 max_offset 9") for one in (0, 1)),
        )
        self.assertIsNone(found[A].error)
        self.assertEqual(found[B].lines, ())
        self.assertIsInstance(found[B].error, NotConnected)
        self.assertFalse(self.a.holders or self.b.holders)

    def test_config(self) -> None:
        """The file of a broker is no lines but bytes."""
        found = self.successResultOf(ask_each(self.brokers, [A], "config", 1))[A]
        self.assertEqual((found.raw, found.lines), (b"brokerId=0\n", ()))
        self.assertIsNone(found.error)

    def test_raw(self) -> None:
        """The bytes of other answers are there too."""
        found = self.successResultOf(ask_each(self.brokers, [A], "", 1))[A]
        self.assertEqual(found.raw, b"STATS\r\npid 1\r\nbroker_id 0\r\nEND\r\n")

    def test_refused(self) -> None:
        """A refusal keeps its kind."""
        self.a.code = 503
        found = self.successResultOf(ask_each(self.brokers, [A], "", 1))[A]
        self.assertIsInstance(found.error, RequestRefused)
        self.assertIsInstance(found.error, ServerUnavailable)

    def test_no_statistics(self) -> None:
        """An answer that is no statistics is an error like others."""
        self.patch(self.a, "text", lambda item: "hello")
        found = self.successResultOf(ask_each(self.brokers, [A], "", 1))[A]
        self.assertIsInstance(found.error, UnexpectedReply)

    def test_bad_item(self) -> None:
        """An item that would be more than one word, or none, is never sent."""
        for item in ("a b", " ", "a\r\nquit", "a\n", "\ud800"):
            with self.assertRaises(ValueError):
                ask_each(self.brokers, [A], item, 1)
        self.assertEqual(self.a.asked, [])

    def test_cancel(self) -> None:
        """Cancelling lets go of the links."""
        self.a.mode = "silent"
        asking = ask_each(self.brokers, [A, B], "", 1)
        asking.cancel()
        self.failureResultOf(asking)
        self.assertFalse(self.a.holders or self.b.holders)
