"""Consumer groups as people read them: what is not known is `?`, and never 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from metatwist.cli.group_views import (
    MOST_OF_A_FINDING,
    MOST_OF_A_NAME,
    group_view,
    groups_view,
    lag_text,
)
from metatwist.cli.render import layout, plain

HOSTILE = "a\x1b[2J\u202eb\nc\ud800"
STEERING = ("\x1b", "\u202e", "\ud800")
NO_RECORD: dict[str, Any] = {
    "state": "absent",
    "record": None,
    "raw": None,
    "committed_ms": None,
    "log_start": None,
    "log_end": None,
    "lag_bytes": None,
    "skipped_bytes": 0,
}


def lag(total: int | None, known: int, unknown: int) -> dict[str, Any]:
    """A Lag as JSON."""
    return {
        "total_bytes": total,
        "known_bytes": known,
        "unknown_partitions": unknown,
    }


def summary(name: str, of_it: Mapping[str, Any]) -> dict[str, Any]:
    """A GroupSummary as JSON."""
    counts = {"members": 2, "topics": 1, "partitions": 4, "findings": 0}
    return {"name": name, **counts, "lag": of_it}


def partition(name: str, owner: str | None = None, **position: Any) -> dict[str, Any]:
    """A PartitionView as JSON, at an absent offset unless told otherwise."""
    return {
        "name": name,
        "broker_id": 0,
        "partition": 0,
        "registered": True,
        "owner": owner,
        "owner_is_member": None if owner is None else True,
        "position": {**NO_RECORD, **position},
    }


def member(name: str, *topics: str) -> dict[str, Any]:
    """A MemberView as JSON."""
    return {
        "id": name,
        "topics": list(topics),
        "since_ms": 1_700_000_000_000,
        "owned_partitions": 1,
        "problem": None,
    }


def topic(name: str, *partitions: dict[str, Any]) -> dict[str, Any]:
    """A TopicView as JSON, with an unknown lag."""
    return {
        "topic": name,
        "subscribers": [],
        "offered_by": ["0-m"],
        "partitions": list(partitions),
        "lag": lag(None, 0, len(partitions)),
    }


def group(*topics: dict[str, Any], **other: Any) -> dict[str, Any]:
    """A GroupView as JSON."""
    plain_group = {
        "name": "billing",
        "replication": False,
        "members": [],
        "topics": list(topics),
        "lag": lag(None, 0, 1),
        "findings": [],
    }
    return {**plain_group, **other}


def shown(result: object) -> str:
    """As it is printed in a pipe."""
    return "\n\n".join(plain(block) for block in layout(result))


class LagTests(SynchronousTestCase):
    """A sum of lags in one cell."""

    def test_known(self) -> None:
        """All that is known is a size; nothing to read is a known 0."""
        self.assertEqual(lag_text(lag(1536, 1536, 0)), "1.5 KiB")
        self.assertEqual(lag_text(lag(0, 0, 0)), "0 B")

    def test_partly_known(self) -> None:
        """A sum that leaves partitions out says so."""
        self.assertEqual(lag_text(lag(None, 512, 3)), "512 B and 3 unknown")

    def test_unknown(self) -> None:
        """Where nothing or not enough is known there is no number at all."""
        for of_it in (lag(None, 0, 4), lag(None, 0, 0), lag(None, 512, 0)):
            self.assertEqual(lag_text(of_it), "?")


class GroupsViewTests(SynchronousTestCase):
    """A line for each group."""

    def test_lines(self) -> None:
        """Names, counts and lag under their headers."""
        rows = [summary("a", lag(2048, 2048, 0)), summary("b", lag(None, 0, 4))]
        header, first, second = (
            [cell.strip() for cell in line.split()]
            for line in shown(groups_view(rows)).splitlines()
        )
        self.assertEqual(
            header, ["name", "members", "topics", "partitions", "findings", "lag"]
        )
        self.assertEqual(first, ["a", "2", "1", "4", "0", "2.0", "KiB"])
        self.assertEqual(second, ["b", "2", "1", "4", "0", "?"])

    def test_none(self) -> None:
        """Without groups a sentence says that there are none."""
        self.assertEqual(
            shown(groups_view([])), "no consumer group has ever registered"
        )

    def test_other_shapes(self) -> None:
        """What has not the expected shape is left alone, and can still be printed."""
        for result in (
            None,
            {},
            "text",
            7,
            ["a"],
            [None],
            [{"name": "a"}],
            [{"lag": lag(1, 1, 0)}],
            [{"name": "a", "lag": 5}],
            [summary("a", lag(1, 1, 0)), "odd"],
        ):
            self.assertEqual(groups_view(result), result)
            shown(result)

    def test_long_name(self) -> None:
        """A name without end does not widen the lines of the others."""
        rows = [summary("x" * 100_000, lag(1, 1, 0)), summary("b", lag(1, 1, 0))]
        text = shown(groups_view(rows))
        self.assertIn("x" * MOST_OF_A_NAME + "...", text)
        self.assertLess(max(map(len, text.splitlines())), MOST_OF_A_NAME + 80)

    def test_hostile_name(self) -> None:
        """A name from the tree neither steers the terminal nor breaks the line."""
        text = shown(groups_view([summary(HOSTILE, lag(1, 1, 0))]))
        self.assertEqual(len(text.splitlines()), 2)
        for one in STEERING:
            self.assertNotIn(one, text)


class GroupViewTests(SynchronousTestCase):
    """All about one group."""

    def rows(self, *partitions: dict[str, Any]) -> list[dict[str, Any]]:
        """The lines of the partitions of a topic `news`."""
        found: Any = group_view(group(topic("news", *partitions)))
        rows: list[dict[str, Any]] = found["partitions"]
        return rows

    def test_known(self) -> None:
        """Owner, committed offset, end, lag and state; the message id stays out."""
        record = {"offset": 100, "message_id": -77}
        (row,) = self.rows(
            partition(
                "0-1",
                owner="billing_host-1",
                state="within",
                record=record,
                log_end=1124,
                lag_bytes=1024,
            )
        )
        self.assertEqual(
            row,
            {
                "topic": "news",
                "partition": "0-1",
                "owner": "billing_host-1",
                "committed": 100,
                "log_end": 1124,
                "lag": "1.0 KiB",
                "state": "within",
            },
        )

    def test_zero_is_known(self) -> None:
        """A committed offset of 0, an end of 0 and no lag are shown as such."""
        record = {"offset": 0, "message_id": None}
        (row,) = self.rows(partition("0-0", record=record, log_end=0, lag_bytes=0))
        self.assertEqual((row["committed"], row["log_end"], row["lag"]), (0, 0, "0 B"))

    def test_unknown(self) -> None:
        """End and lag of another broker's partition are `?`, an absent offset and
        owner `-`; nothing is 0."""
        (row,) = self.rows(partition("7-0"))
        self.assertEqual((row["log_end"], row["lag"]), ("?", "?"))
        self.assertEqual((row["committed"], row["owner"]), ("-", "-"))
        (line,) = [one for one in shown([row]).splitlines() if "7-0" in one]
        self.assertNotIn("0 B", line)

    def test_unreadable(self) -> None:
        """Of an offset that nobody can read the text is shown."""
        (row,) = self.rows(partition("0-0", state="unreadable", raw="gar bage"))
        self.assertEqual((row["committed"], row["lag"]), ("gar bage", "?"))

    def test_members(self) -> None:
        """Members with what they own, since when, and what they subscribe to."""
        found: Any = group_view(group(members=[member("g_1", "a", "b"), member("g_2")]))
        first, second = found["members"]
        self.assertEqual((first["id"], first["owns"]), ("g_1", 1))
        self.assertEqual((first["topics"], second["topics"]), ("a, b", "-"))
        self.assertIn("2023-11-", shown(found))

    def test_empty(self) -> None:
        """A group with neither members nor partitions says so, and lists no
        findings."""
        text = shown(group_view(group()))
        self.assertIn("members     none", text)
        self.assertIn("partitions  none", text)
        self.assertNotIn("findings", text)

    def test_slaves(self) -> None:
        """Of a group of slave brokers it is told that they are."""
        self.assertIn("slave brokers", shown(group_view(group(replication=True))))
        self.assertNotIn("slave", shown(group_view(group())))

    def test_findings(self) -> None:
        """Each finding is a line, last of all."""
        trouble = {
            "trouble": "member owns nothing",
            "detail": "g_1 owns no partition; it subscribes to news",
            "topic": None,
            "partition": None,
            "member": "g_1",
        }
        text = shown(group_view(group(topic("news"), findings=[trouble, trouble])))
        line = "member owns nothing: g_1 owns no partition; it subscribes to news"
        self.assertTrue(text.endswith(f"findings:\n{line}\n{line}"), text)

    def test_long_findings(self) -> None:
        """A finding that quotes without end is cut, and stays a line."""
        trouble = {"trouble": "offset unreadable", "detail": HOSTILE + "x" * 100_000}
        text = shown(group_view(group(findings=[trouble, trouble])))
        *_, title, first, second = text.splitlines()
        self.assertEqual((title, first), ("findings:", second))
        self.assertTrue(first.endswith("xxx..."), first[-20:])
        self.assertLess(len(first), MOST_OF_A_FINDING + 40)

    def test_many_topics(self) -> None:
        """Of a member with very many topics some are named, the rest is counted."""
        names = [f"t{number}" for number in range(1000)]
        found: Any = group_view(group(members=[member("g_1", *names)]))
        text = "t0, t1, t2, t3, t4, and 995 more"
        self.assertEqual(found["members"][0]["topics"], text)

    def test_long_group(self) -> None:
        """The name of the group itself is cut as well."""
        found: Any = group_view(group(name="x" * 1000))
        self.assertEqual(found["group"], "x" * MOST_OF_A_NAME + "...")

    def test_other_shapes(self) -> None:
        """What has not the expected shape is left alone."""
        for result in (None, [], "text", {}, {"topics": []}, {"name": "g", "lag": 5}):
            self.assertEqual(group_view(result), result)

    def test_hostile_and_long(self) -> None:
        """Whatever members, topics, owners and offsets are called: it is printed, line
        by line, and no line is wider for one of them than the limit allows."""
        for name in (HOSTILE, "x" * 100_000):
            view = group_view(
                group(
                    topic(name, partition("0-1", owner=name, raw=name)),
                    topic("news", partition("0-0")),
                    members=[member(name, name, name), member("g_2", "news")],
                )
            )
            text = shown(view)
            for one in STEERING:
                self.assertNotIn(one, text)
            lines = text.splitlines()
            (short,) = [line for line in lines if line.startswith("news")]
            self.assertLess(len(short), 6 * MOST_OF_A_NAME)
            self.assertEqual(len(lines), 12)
