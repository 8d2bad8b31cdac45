"""The text of statistics."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.discovery.stats_text import (
    Offered,
    broker_id_of,
    offered_topics,
    read_stats,
    stored_partitions,
)
from metatwist.client.errors import UnexpectedReply

OFFSETS = (
    b"STATS\r\nt part 10 min_offset 0 max_offset 8\r\nt part 2 min_offset 0"
    b" max_offset 7\r\nu part 0 min_offset 0 max_offset 0\r\nt part x\r\nEND\r\n"
)


class StatsTextTests(SynchronousTestCase):
    """Lines and what is taken from them."""

    def test_lines(self) -> None:
        """Words, what follows them, and words alone, in order."""
        body = b"STATS\r\npid 7\r\nt\r\nreset ok now\r\nEND\r\n"
        expected = [("pid", "7"), ("t", ""), ("reset", "ok now")]
        self.assertEqual(read_stats(body), expected)
        self.assertEqual(read_stats(b"STATS\r\nEND\r\n"), [])

    def test_repeated(self) -> None:
        """Repeated words are kept (W31)."""
        words = [word for word, _ in read_stats(OFFSETS)]
        self.assertEqual(words, ["t", "t", "u", "t"])

    def test_names_like_frames(self) -> None:
        """A topic may be called END."""
        self.assertEqual(read_stats(b"STATS\r\nEND\r\nEND\r\n"), [("END", "")])

    def test_garbage(self) -> None:
        """What is not framed is an unexpected reply."""
        for body in (b"", b"STATS", b"END\r\n", b"STATS\r\npid 7\r\n", b"\xff\n"):
            with self.assertRaises(UnexpectedReply):
                read_stats(body)

    @given(st.binary())
    def test_any_bytes(self, body: bytes) -> None:
        """Bytes between the frames are lines, others are refused; nothing else."""
        read_stats(b"STATS\r\n" + body + b"\r\nEND\r\n")

    def test_partitions(self) -> None:
        """The partitions of one topic, ascending."""
        lines = read_stats(OFFSETS)
        self.assertEqual(stored_partitions(lines, "t"), (2, 10))
        self.assertEqual(stored_partitions(lines, "none"), ())

    def test_numbers(self) -> None:
        """A number too long to be one is none."""
        self.assertEqual(stored_partitions([("t", "part " + "9" * 5000)], "t"), ())
        self.assertIsNone(broker_id_of([("broker_id", "9" * 5000)]))

    def test_offered(self) -> None:
        """Counts of topics; readable are as many as take messages, unless said."""
        lines = read_stats(
            b"STATS\r\nextensions poll partitions later\r\npartitions t 4\r\n"
            b"partitions u 0\r\nreadable u 3\r\npartitions with blank 2\r\n"
            b"partitions v x\r\npartitions w\r\nwhatever t 7\r\n"
            b"extensions\r\nresultCode 0\r\npartitions 9\r\nEND\r\n"
        )
        expected = {"t": (4, 4), "u": (0, 3), "with blank": (2, 2)}
        found = {topic: Offered(*counts) for topic, counts in expected.items()}
        self.assertEqual(offered_topics(lines), found)

    def test_not_offered(self) -> None:
        """Brokers without the extension are told from those that offer nothing."""
        self.assertEqual(offered_topics([("extensions", "poll partitions")]), {})
        self.assertIsNone(offered_topics([("extensions", "poll")]))
        java = [("extensions", ""), ("resultCode", "0"), ("partitions", "9")]
        self.assertIsNone(offered_topics(java))

    def test_broker_id(self) -> None:
        """The id, if there is one that is a number."""
        self.assertEqual(broker_id_of([("pid", "1"), ("broker_id", "7")]), 7)
        self.assertIsNone(broker_id_of([("broker_id", "-1")]))
        self.assertIsNone(broker_id_of([]))
