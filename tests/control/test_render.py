"""JSON values as text for people, and times as people type them."""

from __future__ import annotations

import contextlib
import io
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from metatwist.cli.render import (
    MOST_DRAWN_ROWS,
    Grid,
    cell,
    label,
    layout,
    plain,
    printable,
    show,
)
from metatwist.cli.time_argument import parse_time_ms
from metatwist.cli.views import (
    closed_view,
    coordination_view,
    number_ranges,
    recovery_view,
    status_view,
)


class Terminal(io.StringIO):
    """Output that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class LayoutTests(SynchronousTestCase):
    """The shape of a value decides how it is laid out."""

    def test_object(self) -> None:
        """An object lists its plain names first; nested values follow, titled."""
        value = {"pid": 7, "failures": [], "recovery": {"cut": {"a": 1}}, "ok": True}
        flat, nested = layout(value)
        rows = (("pid", "7"), ("failures", "none"), ("ok", "yes"))
        self.assertEqual(flat, Grid("", (), rows))
        self.assertEqual(nested, Grid("recovery", ("", "a"), (("cut", "1"),)))

    def test_list_of_objects(self) -> None:
        """A list of objects is a table with every name that occurs."""
        (table,) = layout([{"a": 1}, {"b": None}, "odd"])
        rows = (("1", "-", "-"), ("-", "-", "-"), ("-", "-", "odd"))
        self.assertEqual(table, Grid("", ("a", "b", ""), rows))

    def test_object_of_objects(self) -> None:
        """An object of objects is a table with its names first."""
        (table,) = layout({"news-0": {"end": 5}, "news-1": {"end": 6}})
        rows = (("news-0", "5"), ("news-1", "6"))
        self.assertEqual(table, Grid("", ("", "end"), rows))

    def test_texts(self) -> None:
        """Texts, lists of texts, numbers and nothing print as themselves."""
        for value, text in (
            ("a\r\nb\r\n", "a\nb"),
            (["x", 1], "x\n1"),
            (5, "5"),
            (None, "done"),
            ([], "none"),
            ({}, "none"),
        ):
            self.assertEqual(list(layout(value)), [text])

    def test_plain(self) -> None:
        """In a pipe columns are aligned, without lines or trailing blanks."""
        grid = Grid("marks", ("name", "end"), (("news-0", "5"), ("x", "")))
        self.assertEqual(plain(grid), "marks:\nname    end\nnews-0  5\nx")

    def test_terminal(self) -> None:
        """On a terminal the same values print as tables, whatever they contain."""
        screen = Terminal()
        value = {"note": "[bold]", "marks": [{"name": "a", "end": 5}], "seen": ["x"]}
        with (
            contextlib.redirect_stdout(screen),
            mock.patch.dict("os.environ", {"TERM": "xterm"}),
        ):
            show(value, as_json=False)
        for text in ("[bold]", "marks", "name", "5", "seen:"):
            self.assertIn(text, screen.getvalue())

    def test_large_table_on_a_terminal(self) -> None:
        """Of very many rows a terminal gets the columns of a pipe, which cost little,
        all of them and uncut."""
        screen = Terminal()
        rows = [
            {"name": f"news-{number}", "note": "x" * 200}
            for number in range(MOST_DRAWN_ROWS + 1)
        ]
        with (
            contextlib.redirect_stdout(screen),
            mock.patch.dict("os.environ", {"TERM": "xterm"}),
        ):
            show(rows, as_json=False)
        (block,) = layout(rows)
        self.assertEqual(screen.getvalue(), plain(block) + "\n")


class CellTests(SynchronousTestCase):
    """Single values."""

    def test_units(self) -> None:
        """The unit in a name decides how a number reads, and leaves the label."""
        for name, value, text in (
            ("size_bytes", 512, "512 B"),
            ("size_bytes", 1536, "1.5 KiB"),
            ("size_bytes", 3 << 40, "3.0 TiB"),
            ("uptime_s", 5.25, "5.25 s"),
            ("p99_s", 0.005, "5 ms"),
            ("p50_s", 0.00025, "0.25 ms"),
            ("p50_s", 0, "0 s"),
            ("uptime_s", 125, "2 min 5 s"),
            ("uptime_s", 7260, "2 h 1 min"),
            ("uptime_s", 180000, "2 d 2 h"),
            ("offset", 1536, "1536"),
            ("rate", 0.5, "0.5"),
        ):
            self.assertEqual(cell(name, value), text)
        self.assertEqual(label("size_bytes"), "size")
        self.assertEqual(label("last_flush_time_ms"), "last flush time")
        self.assertEqual(label("latency_ms"), "latency ms")

    def test_time(self) -> None:
        """A time reads as local date and time."""
        moment = datetime(2026, 1, 31, 10, 0, 0, 250000)
        text = cell("first_time_ms", round(moment.timestamp() * 1000))
        self.assertEqual(text, "2026-01-31 10:00:00.250")

    def test_hostile_name(self) -> None:
        """Names from the network cannot steer the terminal."""
        self.assertEqual(cell("topic", "a\x1b[2Jb\nc"), "a\\x1b[2Jb c")
        self.assertEqual(printable("新闻 é"), "新闻 é")
        self.assertNotIn("\x1b", label("\x1b[2J"))


class ViewTests(SynchronousTestCase):
    """Results of single verbs, prepared for people."""

    def test_ranges(self) -> None:
        """Numbers in a row are a range, in any order and without repeats."""
        for numbers, text in (
            ([], ""),
            ([5], "5"),
            ([2, 0, 1, 1, 5, 7, 8], "0 to 2, 5, 7 to 8"),
        ):
            self.assertEqual(number_ranges(numbers), text)

    def test_closed(self) -> None:
        """Closed partitions are ranges, of one topic or of all."""
        found = closed_view({"topic": "a-b", "closed": [0, 1, 2]})
        self.assertEqual(found, {"topic": "a-b", "closed": "0 to 2"})
        found = closed_view({"topic": "a-b", "closed": []})
        self.assertEqual(found, {"topic": "a-b", "closed": "none"})
        found = status_view({"pid": 7, "closed": ["a-b-0", "a-b-1", "c-3"]})
        self.assertEqual(found, {"pid": 7, "closed": ["a-b 0 to 1", "c 3"]})

    def test_problem_first(self) -> None:
        """What keeps clients away stands before anything else; the block on
        coordination does not repeat it."""
        problem = "ZooKeeper zk1:2181 is connecting: nothing can be registered now"
        found: Any = status_view(
            {
                "pid": 7,
                "closed": [],
                "coordination": {
                    "kind": "ensemble",
                    "problem": problem,
                    "warnings": [],
                },
            }
        )
        self.assertEqual(next(iter(found.items())), ("problem", problem))
        self.assertEqual(found["coordination"], {"kind": "ensemble"})
        healthy = status_view({"pid": 7, "coordination": {"problem": None}})
        self.assertEqual(healthy, {"pid": 7, "coordination": {}})

    def test_coordination(self) -> None:
        """Only what there is to say: repairs that were made, others that are there."""
        nothing = {"missing": 0, "unwanted": 0}
        quiet = {
            "kind": "embedded",
            "enabled": True,
            "registered_nodes": 6,
            "duplicate": None,
            "repairs": nothing,
            "other_brokers": {},
        }
        self.assertEqual(
            coordination_view(quiet),
            {
                "kind": "embedded",
                "registered_nodes": 6,
                "repairs": "none",
                "other_brokers": "none",
            },
        )
        busy = {
            **quiet,
            "enabled": False,
            "duplicate": "meta://b:8123",
            "repairs": {**nothing, "missing": 3, "wrong data": 1},
            "other_brokers": {"9": "meta://nine:8123"},
        }
        self.assertEqual(
            coordination_view(busy),
            {
                "kind": "embedded",
                "registered_nodes": "none, since zk.zkEnable=false",
                "duplicate": "meta://b:8123",
                "repairs": "missing 3, wrong data 1",
                "other_brokers": "9 meta://nine:8123",
            },
        )

    def test_many_other_brokers(self) -> None:
        """Other brokers that are not named are counted."""
        found = {"kind": "ensemble", "other_brokers": {"8": "meta://e:1"}}
        for count, text in ((1, "8 meta://e:1"), (2981, "8 meta://e:1, and 2980 more")):
            shown: Any = coordination_view({**found, "other_brokers_count": count})
            self.assertEqual(shown, {"kind": "ensemble", "other_brokers": text})

    def test_no_coordination(self) -> None:
        """Without a coordinator one line says what that means."""
        found: Any = status_view({"coordination": {"kind": "none", "problem": None}})
        text = "none: clients must know the address"
        self.assertEqual(found, {"coordination": text})

    def test_recovery(self) -> None:
        """Each partition is one line with what happened, and nothing that did not."""
        quiet = {"cut_bytes": 0, "cut_at": None, "bad": [], "problems": []}
        usable = {**quiet, "usable": True}
        bad = [[n * 10, n * 10 + 5] for n in range(7)]
        rows = [
            {**usable, "partition": "a-0", "cut_bytes": 5, "cut_at": 20},
            {**usable, "partition": "a-1", "bad": bad[:2], "problems": ["odd file"]},
            {**usable, "partition": "a-2", "bad": bad},
            {**quiet, "partition": "a-3", "usable": False, "problems": ["no x"]},
        ]
        found = recovery_view({"summary": {"clean": 1}, "partitions": rows})
        self.assertEqual(
            found,
            {
                "clean": 1,
                "findings": [
                    "a-0: cut 5 bytes from offset 20 on",
                    "a-1: damaged bytes that stay, offsets 0 to 5, 10 to 15; odd file",
                    "a-2: damaged bytes that stay, offsets 0 to 5, 10 to 15, 20 to 25, "
                    "30 to 35, 40 to 45 and 2 more",
                    "a-3: cannot be used; no x",
                ],
            },
        )

    def test_other_shapes(self) -> None:
        """What has not the expected shape is left alone."""
        for view in (closed_view, status_view, recovery_view):
            for result in (None, [], {}, "text"):
                self.assertEqual(view(result), result)


class TimeTests(SynchronousTestCase):
    """Points in time on the command line."""

    now = datetime(2026, 3, 5, 15, 30)

    def check(self, text: str, moment: datetime) -> None:
        expected = round(moment.timestamp() * 1000)
        self.assertEqual(parse_time_ms(text, self.now), expected)

    def test_local(self) -> None:
        """Dates and times without an offset are local; a time alone is today's."""
        self.check("2026-01-31T10:00", datetime(2026, 1, 31, 10))
        self.check("2026-01-31 10:00:05", datetime(2026, 1, 31, 10, 0, 5))
        self.check("2026-01-31", datetime(2026, 1, 31))
        self.check("10:00", datetime(2026, 3, 5, 10))

    def test_offset(self) -> None:
        """Times may name their offset."""
        zone = timezone(timedelta(hours=8))
        self.check("2026-01-31T10:00+08:00", datetime(2026, 1, 31, 10, tzinfo=zone))
        self.check("2026-01-31T10:00Z", datetime(2026, 1, 31, 10, tzinfo=timezone.utc))

    def test_epoch(self) -> None:
        """A number is milliseconds since 1970."""
        self.assertEqual(parse_time_ms("1769853600000", self.now), 1769853600000)
        self.assertEqual(parse_time_ms("0", self.now), 0)

    def test_refused(self) -> None:
        """Anything else is refused with a sentence, seconds with one of their own."""
        for text in ("", "noon", "25:00", "2026-13-01", "-5", "9" * 5000 + "x"):
            with self.assertRaisesRegex(ValueError, "is no time"):
                parse_time_ms(text, self.now)
        with self.assertRaisesRegex(ValueError, "looks like seconds"):
            parse_time_ms("1769853600", self.now)
