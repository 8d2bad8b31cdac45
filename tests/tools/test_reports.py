"""What tools count and say: failures, latencies, pace, figures, ends."""

from __future__ import annotations

import json
import signal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import Attempt, ClientError, NotConnected, Where
from metatwist.coordination.names import PartitionName
from metatwist.tools.ending import ToolError, ending_of, words_of
from metatwist.tools.failures import MOST_RANGES, Failures
from metatwist.tools.figures import ConsumeFigures, ProduceFigures
from metatwist.tools.latencies import Latencies
from metatwist.tools.pacing import Pace
from metatwist.tools.running import Stop


class FailuresTest(SynchronousTestCase):
    """The report of what was not stored."""

    def test_report(self) -> None:
        """Lines are named as ranges, by file, apart from those of unknown outcome."""
        failures = Failures()
        for number in (5, 2, 3, 4, 9):
            failures.add("-", number, "refused")
        failures.add("a.txt", 1, "lost", unknown=True)
        self.assertEqual(failures.count, 6)
        self.assertEqual(
            failures.report(),
            [
                "5 not stored: lines 2 to 5, 9",
                "1 stored or not, which is unknown: a.txt, line 1",
                "  5 times: refused",
                "  lost",
            ],
        )

    def test_nothing(self) -> None:
        """Nothing is said where nothing failed."""
        self.assertEqual(Failures().report(), [])

    def test_bounded(self) -> None:
        """Very many failures of many kinds are counted, and take no more room."""
        failures = Failures()
        for number in range(0, 4 * MOST_RANGES, 2):
            failures.add("-", number, f"reason {number}")
        report = failures.report()
        self.assertEqual(failures.count, 2 * MOST_RANGES)
        self.assertIn("and more", report[0])
        self.assertIn(f"{2 * MOST_RANGES - 5} times for other reasons", report[-1])
        self.assertLess(len("".join(report)), 1000)


class LatenciesTest(SynchronousTestCase):
    """Percentiles."""

    @given(st.lists(st.integers(0, 10**9), min_size=1), st.floats(1, 100))
    def test_percentiles(self, microseconds: list[int], percent: float) -> None:
        """They are at most 1.6 % and a microsecond too high, and never too low."""
        latencies = Latencies()
        for one in microseconds:
            latencies.add(one / 1e6)
        ordered = sorted(microseconds)
        rank = next(
            at for at in range(len(ordered)) if at + 1 >= len(ordered) * percent / 100
        )
        found = latencies.percentile_s(percent)
        assert found is not None
        exact_s = ordered[rank] / 1e6
        self.assertGreaterEqual(found, exact_s - 1e-6)
        self.assertLessEqual(found, exact_s * 1.016 + 1e-6)
        self.assertEqual(latencies.longest_s, ordered[-1] / 1e6)

    def test_none(self) -> None:
        """Without durations there is no percentile."""
        self.assertIsNone(Latencies().percentile_s(50))


class FiguresTest(SynchronousTestCase):
    """Figures as text and JSON."""

    def test_produced(self) -> None:
        """Rates are those of what was stored; failures are counted beside."""
        figures = ProduceFigures(1 << 20, duration_s=2.0)
        figures.latencies.add(0.004, 10)
        figures.failed("no")
        found = json.loads(figures.as_json())
        self.assertEqual(found["messages_per_s"], 5)
        self.assertEqual(found["mib_per_s"], 5)
        self.assertEqual(found["failed"], 1)
        self.assertEqual(found["latency_ms"]["max"], 4)
        self.assertEqual(
            set(found["latency_ms"]), {"p50", "p95", "p99", "p99.9", "max"}
        )
        self.assertIn("10 messages in 2.0 s, 5 messages/s", figures.as_text())

    def test_nothing(self) -> None:
        """Without messages and time nothing is divided by zero."""
        self.assertIn("? messages/s", ConsumeFigures().as_text())
        found = json.loads(ProduceFigures(5).as_json())
        self.assertEqual((found["messages_per_s"], found["messages"]), (None, 0))
        self.assertIn("max ?", ProduceFigures(5).as_text())


class PaceTest(SynchronousTestCase):
    """At most so many a second."""

    def setUp(self) -> None:
        """A clock of our own."""
        self.clock = Clock()

    def test_rate(self) -> None:
        """As many pass in a while as the rate says."""
        pace = Pace(self.clock, 10)
        self.clock.advance(5)
        for _ in range(20):
            self.clock.advance(pace.pause_s())
        self.assertAlmostEqual(self.clock.seconds(), 7)

    def test_high_rates_go_in_lots(self) -> None:
        """Pauses too short for a timer are put together."""
        pace = Pace(self.clock, 10_000)
        pauses = [pace.pause_s() for _ in range(40)]
        self.assertEqual(pauses[:10], [0] * 10)
        self.assertAlmostEqual(pauses[-1], 0.004)

    def test_what_was_lost_stays_lost(self) -> None:
        """After a long wait for something else there is no burst of more than a
        second's worth."""
        pace = Pace(self.clock, 10)
        pace.pause_s()
        self.clock.advance(100)
        self.assertAlmostEqual(pace.pause_s(), 0.1)

    def test_no_limit(self) -> None:
        """Without a rate nothing waits."""
        pace = Pace(self.clock, None)
        self.assertEqual((pace.pause_s(10**9), pace.is_limited), (0, False))

    def test_stop_ends_a_pause(self) -> None:
        """A stop does not wait for the pause to end."""
        stop, pace = Stop(), Pace(self.clock, 0.001)
        waiting = Deferred.fromCoroutine(pace.wait(stop))
        self.assertNoResult(waiting)
        stop.ask(signal.SIGINT)
        self.failureResultOf(waiting, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class StopTest(SynchronousTestCase):
    """What a signal ends."""

    def test_ends(self) -> None:
        """Waits under way and later ones are cancelled, those that are over are not."""
        stop = Stop()
        over: Deferred[int] = stop.ends(Deferred())
        over.callback(1)
        waiting: Deferred[int] = stop.ends(Deferred())
        stop.ask(signal.SIGTERM)
        stop.ask(signal.SIGINT)
        self.assertEqual(self.successResultOf(over), 1)
        self.failureResultOf(waiting, CancelledError)
        later: Deferred[int] = Deferred()
        self.failureResultOf(stop.ends(later), CancelledError)
        self.assertEqual(stop.signal_number, signal.SIGTERM)


class EndingTest(SynchronousTestCase):
    """Exit codes of what goes wrong."""

    def check(
        self, error: BaseException, code: int, *words: str, by: Any = None
    ) -> None:
        """It means that code, with these words in its sentence."""
        ending = ending_of(error, by)
        self.assertEqual(ending.code, code)
        for word in words:
            self.assertIn(word, ending.problem or "")

    def test_codes(self) -> None:
        """Each kind of failure has its exit code and says what there is to know."""
        tried = (Attempt("a:1", "refused"), Attempt("b:2", "timed out"))
        self.check(NotConnected("none", tried), 3, "a:1: refused", "b:2: timed out")
        self.check(ClientError("no"), 1, "no")
        self.check(ToolError("\x1b[1m"), 1, "\\x1b[1m")
        self.check(OSError(28, "No space left", "out"), 1, "out: No space left")
        self.check(RuntimeError("bug"), 1, "RuntimeError: bug")
        self.assertIsNone(ending_of(CancelledError(), signal.SIGINT).problem)
        self.check(CancelledError(), 130, by=signal.SIGINT)
        self.check(CancelledError(), 143, by=signal.SIGTERM)
        self.check(ClientError("late"), 1, "late", by=signal.SIGINT)

    def test_no_partition(self) -> None:
        """A partition that was the broker's choice is not named; others are."""
        anywhere = Where("meta://a:1", "t", PartitionName(0, -1))
        self.assertEqual(
            words_of(ClientError("no", anywhere)), "no (broker meta://a:1, topic t)"
        )
        somewhere = Where(partition=PartitionName(0, 3))
        self.assertEqual(words_of(ClientError("no", somewhere)), "no (partition 0-3)")
