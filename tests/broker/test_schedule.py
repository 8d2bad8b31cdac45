"""When retention runs: Quartz expressions, local time, and the service."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import datetime

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.quartz import QuartzSchedule
from metatwist.broker.schedule import MAX_SLEEP_S, RetentionSchedule
from metatwist.errors import SettingsError

NEW_YORK = "EST5EDT,M3.2.0,M11.1.0"
"""Clocks go forward on 2026-03-08 at 02:00, back on 2026-11-01 at 02:00."""


class LocalTimeCase(SynchronousTestCase):
    """Runs in a time zone of its own and puts the process' zone back."""

    zone = "UTC"

    def setUp(self) -> None:
        before = os.environ.get("TZ")
        self.addCleanup(self.enter_zone, before)
        self.enter_zone(self.zone)

    def enter_zone(self, zone: str | None) -> None:
        if zone is None:
            os.environ.pop("TZ", None)
        else:
            os.environ["TZ"] = zone
        time.tzset()

    def times(self, expression: str, after: str, count: int) -> list[str]:
        """The next times of an expression, as local text with the UTC offset."""
        schedule = QuartzSchedule(expression)
        due_s: float | None = datetime.fromisoformat(after).timestamp()
        texts = []
        for _ in range(count):
            due_s = schedule.next_after(due_s) if due_s is not None else None
            if due_s is not None:
                shown = time.localtime(due_s)
                texts.append(time.strftime("%Y-%m-%d %H:%M:%S %z", shown))
        return texts

    def days(self, expression: str, count: int = 3) -> list[str]:
        """The next days on which an expression runs, from July 2026 (a Wednesday)."""
        return [text[:10] for text in self.times(expression, "2026-07-01", count)]


class QuartzScheduleTests(LocalTimeCase):
    """The Quartz dialect, where it differs from cron most of all."""

    def test_default(self) -> None:
        """The default of `deleteWhen` is 06:00 and 18:00 every day."""
        self.assertEqual(
            self.times("0 0 6,18 * * ?", "2026-07-01 12:00", 3),
            [
                "2026-07-01 18:00:00 +0000",
                "2026-07-02 06:00:00 +0000",
                "2026-07-02 18:00:00 +0000",
            ],
        )

    def test_strictly_after(self) -> None:
        """The answer is later than the time asked for, by as little as it takes."""
        schedule = QuartzSchedule("0/2 * * * * ?")
        self.assertEqual(schedule.next_after(100.0), 102.0)
        self.assertEqual(schedule.next_after(101.9999999), 102.0)
        self.assertEqual(schedule.next_after(102.0000001), 104.0)

    def test_days_of_week_count_from_sunday(self) -> None:
        """Day 1 is Sunday and 7 Saturday, as the names say."""
        for number, name, day in ((1, "SUN", "05"), (2, "mon", "06"), (7, "SAT", "04")):
            expected = [f"2026-07-{day}"]
            self.assertEqual(self.days(f"0 0 6 ? * {number}", 1), expected)
            self.assertEqual(self.days(f"0 0 6 ? * {name}", 1), expected)

    def test_range_over_the_end(self) -> None:
        """A range may run over the end of its cycle, with a step too."""
        self.assertEqual(
            self.days("0 0 6 ? * FRI-SUN", 4),
            ["2026-07-03", "2026-07-04", "2026-07-05", "2026-07-10"],
        )
        hours = self.times("0 0 22-4/2 * * ?", "2026-07-01 21:00", 5)
        self.assertEqual(
            [text[11:13] for text in hours], ["22", "00", "02", "04", "22"]
        )

    def test_range_of_one(self) -> None:
        """A range from a number to itself is that number."""
        minutes = self.times("0 5-5 * * * ?", "2026-07-01", 2)
        self.assertEqual([text[11:16] for text in minutes], ["00:05", "01:05"])

    def test_steps(self) -> None:
        """A step begins at its start and ends with the field."""
        for item, expected in (
            ("50/5", ["50", "55", "50"]),
            ("/25", ["25", "50", "00"]),
            ("*/25", ["25", "50", "00"]),
            ("59/15", ["59", "59", "59"]),
            ("10-30/10", ["10", "20", "30"]),
        ):
            texts = self.times(f"0 {item} * * * ?", "2026-07-01", 3)
            self.assertEqual([text[14:16] for text in texts], expected, item)

    def test_last_day_of_month(self) -> None:
        """`L` is the last day of the month, also beside other days."""
        self.assertEqual(
            self.days("0 0 6 L * ?"), ["2026-07-31", "2026-08-31", "2026-09-30"]
        )
        self.assertEqual(
            self.days("0 0 6 2,L * ?"), ["2026-07-02", "2026-07-31", "2026-08-02"]
        )

    def test_last_and_nth_day_of_week(self) -> None:
        """`6L` is the last Friday, `6#3` the third, and `L` alone Saturday."""
        self.assertEqual(self.days("0 0 6 ? * 6L", 2), ["2026-07-31", "2026-08-28"])
        self.assertEqual(self.days("0 0 6 ? * FRI#3", 2), ["2026-07-17", "2026-08-21"])
        self.assertEqual(self.days("0 0 6 ? * 6#3", 2), ["2026-07-17", "2026-08-21"])
        self.assertEqual(self.days("0 0 6 ? * L", 2), ["2026-07-04", "2026-07-11"])

    def test_nearest_weekday(self) -> None:
        """`15W` is the weekday nearest to the 15th."""
        self.assertEqual(self.days("0 0 6 15W * ?", 2), ["2026-07-15", "2026-08-14"])

    def test_months_and_years(self) -> None:
        """Months go by name or number; a year bounds it, however far away."""
        self.assertEqual(
            self.days("0 0 6 1 sep-OCT ?", 2), ["2026-09-01", "2026-10-01"]
        )
        self.assertEqual(self.days("0 0 6 1 1 ? 2099"), ["2099-01-01"])

    def test_never_again(self) -> None:
        """A year that is over, and a day that no month has, never come."""
        self.assertEqual(self.days("0 0 6 * * ? 2020"), [])
        self.assertEqual(self.days("0 0 6 30 2 ?"), [])

    def test_expression_kept(self) -> None:
        """The schedule knows the text it was made from."""
        self.assertEqual(QuartzSchedule("0 0 6 ? * MON").expression, "0 0 6 ? * MON")

    def test_faults(self) -> None:
        """What cannot be followed is an error with the expression and the part."""
        for expression, part in (
            ("", "0 fields"),
            ("0 6 * * *", "5 fields"),
            ("@daily", "1 fields"),
            ("60 0 6 * * ?", "second '60'"),
            ("0 0 25 * * ?", "hour '25'"),
            ("0 -5 6 * * ?", "minute '-5'"),
            ("0 1,,2 6 * * ?", "minute '1,,2'"),
            ("0 0/0 6 * * ?", "minute '0/0'"),
            ("0 0/60 6 * * ?", "minute '0/60'"),
            ("R 0 6 * * ?", "second 'R'"),
            ("0 0 H(1-3) * * ?", "hour 'H(1-3)'"),
            ("0 0 ? * * ?", "hour '?'"),
            ("0 0 6 0 * ?", "day of month '0'"),
            ("0 0 6 LW * ?", "day of month 'LW'"),
            ("0 0 6 L-3 * ?", "day of month 'L-3'"),
            ("0 0 6 1W,2 * ?", "day of month '1W,2'"),
            ("0 0 6 ? FOO *", "month 'FOO'"),
            ("0 0 6 ? * 8", "day of week '8'"),
            ("0 0 6 ? * 0", "day of week '0'"),
            ("0 0 6 ? * 6#6", "day of week '6#6'"),
            ("0 0 6 ? * MON,6L", "day of week 'MON,6L'"),
            ("0 0 6 1 * MON", "day of month '1' and day of week 'MON'"),
            ("0 0 6 * * ? 2030-2020", "year '2030-2020'"),
            ("0 0 6 * * ? 1969", "year '1969'"),
        ):
            error = self.assertRaises(SettingsError, QuartzSchedule, expression)
            [problem] = error.problems
            self.assertIn(repr(expression), problem)
            self.assertIn(part, problem)


class ClockChangeTests(LocalTimeCase):
    """Daylight saving time, in New York."""

    zone = NEW_YORK

    def test_local_time(self) -> None:
        """An hour means local time, in winter and in summer."""
        self.assertEqual(
            self.times("0 0 6 * * ?", "2026-03-07 00:00", 2),
            ["2026-03-07 06:00:00 -0500", "2026-03-08 06:00:00 -0400"],
        )

    def test_time_in_the_gap(self) -> None:
        """A time that clocks jump over comes at the end of the gap, once."""
        self.assertEqual(
            self.times("0 15,45 2 * * ?", "2026-03-08 00:00", 2),
            ["2026-03-08 03:00:00 -0400", "2026-03-09 02:15:00 -0400"],
        )

    def test_gap_hides_nothing(self) -> None:
        """A time right behind the gap is not lost to a later one inside it."""
        self.assertEqual(
            self.times("0 45 2,3 * * ?", "2026-03-08 00:00", 2),
            ["2026-03-08 03:00:00 -0400", "2026-03-08 03:45:00 -0400"],
        )

    def test_every_half_hour_over_the_gap(self) -> None:
        """A schedule of every hour goes on at its pace when clocks go forward."""
        self.assertEqual(
            self.times("0 0/30 * * * ?", "2026-03-08 01:00", 3),
            [
                "2026-03-08 01:30:00 -0500",
                "2026-03-08 03:00:00 -0400",
                "2026-03-08 03:30:00 -0400",
            ],
        )

    def test_time_that_comes_twice(self) -> None:
        """A time in the hour that comes twice runs in its first pass only."""
        self.assertEqual(
            self.times("0 30 1 * * ?", "2026-11-01 00:00", 2),
            ["2026-11-01 01:30:00 -0400", "2026-11-02 01:30:00 -0500"],
        )

    def test_every_half_hour_when_clocks_go_back(self) -> None:
        """A schedule of every hour runs in both passes of the hour."""
        self.assertEqual(
            self.times("0 0/30 * * * ?", "2026-11-01 00:30", 5),
            [
                "2026-11-01 01:00:00 -0400",
                "2026-11-01 01:30:00 -0400",
                "2026-11-01 01:00:00 -0500",
                "2026-11-01 01:30:00 -0500",
                "2026-11-01 02:00:00 -0500",
            ],
        )


class HalfHourChangeTests(LocalTimeCase):
    """Daylight saving time on Lord Howe Island, half an hour of it."""

    zone = "LHST-10:30LHDT-11,M10.1.0,M4.1.0"

    def test_minute_after_the_change(self) -> None:
        """A schedule of every hour keeps its minute when clocks go back by half."""
        self.assertEqual(
            self.times("0 10 * * * ?", "2026-04-05 00:30", 3),
            [
                "2026-04-05 01:10:00 +1100",
                "2026-04-05 02:10:00 +1030",
                "2026-04-05 03:10:00 +1030",
            ],
        )


class RetentionScheduleTests(LocalTimeCase):
    """The service, on a clock whose wall time can be stepped."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = Clock()
        self.step_s = 0.0
        self.topics: dict[str, str] = {}
        self.runs: list[tuple[float, tuple[str, ...]]] = []
        self.answer: Deferred[None] | None = None
        self.service = RetentionSchedule(
            self.clock, self.live_topics, self.run_retention, self.wall_s
        )

    def wall_s(self) -> float:
        return self.clock.seconds() + self.step_s

    def live_topics(self) -> Mapping[str, str]:
        return self.topics

    def run_retention(self, names: tuple[str, ...]) -> Deferred[None] | None:
        self.runs.append((self.wall_s(), names))
        return self.answer

    def start(self, **topics: str) -> None:
        self.topics.update(topics)
        self.service.startService()
        self.addCleanup(self.service.stopService)

    def pass_time(self, total_s: int, step_s: int = 10) -> None:
        self.clock.pump([step_s] * (total_s // step_s))

    def test_runs_when_due(self) -> None:
        """Each topic runs at the times of its expression and at no other."""
        self.start(a="0 0/5 * * * ?", b="0 0/10 * * * ?", c="0 0/5 * * * ?")
        self.assertEqual(self.runs, [])
        self.pass_time(600)
        self.assertEqual(self.runs, [(300, ("a", "c")), (600, ("a", "b", "c"))])

    def test_seconds(self) -> None:
        """It wakes to the second, also between its longest sleeps."""
        self.start(a="7 2 * * * ?")
        self.pass_time(126, step_s=1)
        self.assertEqual(self.runs, [])
        self.clock.advance(1)
        self.assertEqual(self.runs, [(127, ("a",))])

    def test_new_topic(self) -> None:
        """A topic that appeared, with an expression known or new, is covered."""
        self.start(a="0 0/5 * * * ?")
        self.clock.advance(30)
        self.topics |= {"b": "0 0/5 * * * ?", "c": "0 4 * * * ?"}
        self.pass_time(300)
        self.assertEqual(self.runs, [(240, ("c",)), (300, ("a", "b"))])

    def test_no_topics_at_first(self) -> None:
        """It looks for topics once a minute even when there is none."""
        self.start()
        self.clock.advance(1)
        self.topics["a"] = "0 2 * * * ?"
        self.pass_time(120)
        self.assertEqual([names for _, names in self.runs], [("a",)])

    def test_topic_gone(self) -> None:
        """A topic that is gone, or has another expression now, is left out."""
        self.start(a="0 5 * * * ?", b="0 5 * * * ?")
        del self.topics["a"]
        self.topics["b"] = "0 6 * * * ?"
        self.pass_time(600)
        self.assertEqual(self.runs, [(360, ("b",))])

    def test_no_overlap(self) -> None:
        """What falls due during a run is run once, right after it."""
        self.start(a="0 * * * * ?", b="0 2 * * * ?")
        self.answer = running = Deferred()
        self.pass_time(300)
        self.assertEqual(self.runs, [(60, ("a",))])
        self.answer = None
        running.callback(None)
        self.clock.advance(0)
        self.assertEqual(self.runs[1:], [(300, ("a", "b"))])
        self.pass_time(60)
        self.assertEqual(self.runs[2:], [(360, ("a",))])

    def test_no_busy_loop_during_a_run(self) -> None:
        """While a run goes on, what is due does not make it wake all the time."""
        self.start(a="* * * * * ?")
        self.answer = Deferred()
        self.pass_time(30, step_s=1)
        [timer] = self.clock.getDelayedCalls()
        self.assertEqual(timer.getTime(), 1 + MAX_SLEEP_S)

    def test_failed_run(self) -> None:
        """A run that fails is logged with its topics, and the next one comes."""
        self.start(a="0 * * * * ?")
        self.answer = failing = Deferred()
        self.pass_time(60)
        failing.errback(OSError("disk on fire"))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.pass_time(60)
        self.assertEqual(len(self.runs), 2)

    def test_run_that_raises(self) -> None:
        """A run that raises at once is logged too, and the next one comes."""
        self.start(a="0 * * * * ?")
        self.patch(self.service, "_run", lambda names: 1 // 0)
        self.pass_time(120)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_topics_that_raise(self) -> None:
        """When the topics cannot be told, those known before go on."""
        self.start(a="0 2 * * * ?")
        self.patch(self.service, "_topics", lambda: 1 // 0)
        self.pass_time(120)
        self.assertGreaterEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(self.runs, [(120, ("a",))])

    def test_faulty_expression(self) -> None:
        """An expression that cannot be read is logged once and stops no other."""
        self.start(a="0 * * * * ?", b="whenever")
        self.pass_time(180)
        self.assertEqual(len(self.flushLoggedErrors(SettingsError)), 1)
        self.assertEqual([names for _, names in self.runs], [("a",)] * 3)

    def test_never_again(self) -> None:
        """A schedule whose time is over keeps still."""
        self.step_s = 365 * 86_400 - 120
        self.start(a="0 * * * * ? 1970")
        self.pass_time(600)
        self.assertEqual(self.runs, [(365 * 86_400 - 60, ("a",))])

    def test_clock_steps_forward(self) -> None:
        """A time that the wall clock jumped over is run at the next look, once."""
        self.start(a="0 0 6 * * ?")
        self.step_s = 2 * 86_400
        self.pass_time(600)
        self.assertEqual(self.runs, [(self.step_s + 60, ("a",))])

    def test_clock_steps_back(self) -> None:
        """After a large step back the times count anew from there."""
        self.step_s = 7 * 86_400
        self.start(a="0 0 6 * * ?")
        self.step_s = 0
        self.pass_time(6 * 3600)
        self.assertEqual(self.runs, [(6 * 3600, ("a",))])

    def test_clock_steps_back_a_little(self) -> None:
        """A correction of the clock by a moment does not repeat a run."""
        self.start(a="0 5 * * * ?", often="0/2 * * * * ?")
        self.pass_time(300, step_s=1)
        self.step_s = -5
        self.pass_time(60, step_s=1)
        self.assertEqual(sum("a" in names for _, names in self.runs), 1)

    def test_stopped(self) -> None:
        """A stopped service holds no timer and runs nothing."""
        self.start(a="0 * * * * ?")
        self.assertIsNone(self.service.stopService())
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.service.startService()

    def test_stopped_from_within_a_run(self) -> None:
        """A run may stop the service that started it."""
        self.start(a="0 * * * * ?")
        self.patch(self.service, "_run", lambda _: self.service.stopService() and None)
        self.pass_time(60)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.service.startService()

    def test_stop_waits_for_the_run(self) -> None:
        """Stopping during a run is complete when the run is."""
        self.start(a="0 * * * * ?")
        self.answer = running = Deferred()
        self.pass_time(60)
        stopped = self.service.stopService()
        assert stopped is not None
        self.assertNoResult(stopped)
        running.errback(OSError("interrupted"))
        self.successResultOf(stopped)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.service.startService()

    def test_started_again(self) -> None:
        """A service started again does not make up for the time it was stopped."""
        self.start(a="0 5 * * * ?")
        self.service.stopService()
        self.pass_time(600)
        self.service.startService()
        self.pass_time(3600)
        self.assertEqual(self.runs, [(3900, ("a",))])
