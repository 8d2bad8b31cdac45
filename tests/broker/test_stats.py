"""The texts of `stats`, with a clock and numbers of the test's own."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.stats import ratio
from tests.support.broker_parts import INI, BrokerParts, get, put


class RatioTests(SynchronousTestCase):
    """How ratios are written."""

    def test_forms(self) -> None:
        """Two decimals at most, half to even, no zeros at the end."""
        for value, count, text in (
            (54, 175, "0.31"),
            (35, 175, "0.2"),
            (54, 54, "1"),
            (7689, 47, "163.6"),
            (0, 3, "0"),
            (100, 1, "100"),
            (1, 8, "0.12"),
            (3, 8, "0.38"),
            (1, 0, "invalid"),
            (1234567, 1, "1234567"),
        ):
            self.assertEqual(ratio(value, count), text)


class StatsCase(SynchronousTestCase):
    """A broker and one peer."""

    def setUp(self) -> None:
        """Connect."""
        self.parts = BrokerParts(self)
        self.peer = self.parts.connect()

    def lines(self, item: str) -> list[str]:
        """The lines between STATS and END."""
        code, body = self.parts.stats.answer(item)
        lines = body.decode().split("\r\n")
        self.assertEqual((code, lines[0], lines[-2:]), (200, "STATS", ["END", ""]))
        return lines[1:-2]


class TotalTests(StatsCase):
    """Totals and lists."""

    def test_item_that_is_no_text(self) -> None:
        """An item with half a surrogate pair is an unknown topic like any other."""
        self.assertEqual(self.lines("\ud800")[:2], ["?", "resultCode 1"])

    def general(self) -> dict[str, str]:
        """The general form."""
        return dict(line.split(" ") for line in self.lines(""))

    def test_general(self) -> None:
        """The general form counts what was done since the start."""
        self.peer.ask(put(b"x"), put(b"x"), get(0), get(99), put(b"x", topic="nope"))
        self.parts.clock.advance(61.9)
        found = self.general()
        for key, value in {
            "broker_id": 5,
            "port": 8123,
            "uptime": 61,
            "slave": "false",
            "curr_connections": 1,
            "cmd_put": 3,
            "cmd_get": 2,
            "get_miss": 1,
            "put_failed": 1,
            "total_messages": 2,
            "topics": 4,
            "config_checksum": self.parts.settings.config_checksum,
        }.items():
            self.assertEqual(found[key], str(value), key)

    def test_topics_counts_patterns_and_their_topics(self) -> None:
        """A pattern counts as one, and each topic that it let in as one more."""
        self.peer.ask(put(b"x", topic="wilder"), put(b"x", topic="wildest"))
        self.assertEqual(self.general()["topics"], "6")

    def test_offsets(self) -> None:
        """A line of seven fields for each partition, with what is readable."""
        self.peer.ask(put(b"hello"), put(b"hello", partition=2))
        self.peer.send(put(b"unacknowledged"))
        self.parts.turn()
        self.assertEqual(
            self.lines("offsets"),
            [
                "test part 0 min_offset 0 max_offset 25",
                "test part 2 min_offset 0 max_offset 25",
            ],
        )

    def test_topics(self) -> None:
        """Topics with a store come first, then the empty ones by name."""
        self.peer.ask(put(b"hello"), put(b"x", partition=1))
        self.assertEqual(
            self.lines("topics"),
            [
                "test partitions 2 message_count 2 message_bytes 46"
                " accept_publish true accept_subscribe true",
                "lazy *Empty*",
                "quiet *Empty*",
                "wild* *Empty*",
            ],
        )

    def test_one_topic(self) -> None:
        """A topic's own form has its code and its totals."""
        self.peer.ask(put(b"hello"))
        self.assertEqual(
            self.lines("test")[:5],
            ["test", "resultCode 0", "partitions 1", "message_count 1", "bytes 25"],
        )
        self.assertEqual(self.lines("quiet")[1], "resultCode 2")
        self.assertEqual(self.lines("wild*")[1], "resultCode 2")
        self.assertEqual(self.lines("unknown")[1], "resultCode 1")

    def test_config(self) -> None:
        """The configuration comes as it was read, overrides not in it."""
        expected = 200, self.parts.settings.text
        self.assertEqual(self.parts.stats.answer("config"), expected)


class RealTimeTests(StatsCase):
    """Counts since the last reset."""

    def reading(self, event: str, item: str = "realtime") -> str:
        """The text of one kind of event."""
        prefix = "realtime_" if item == "realtime" else "topic_realtime_"
        return next(
            line.removeprefix(f"{prefix}{event} ")
            for line in self.lines(item)
            if line.startswith(f"{prefix}{event} ")
        )

    def test_counts(self) -> None:
        """Events and bytes are counted, with their rates."""
        self.peer.ask(put(b"hello"), put(b"x"), get(0), get(99))
        self.parts.clock.advance(8.5)
        self.assertEqual(
            self.reading("put"),
            "Count=2,Value=2,Value/Count=1,Count/Duration=0.25,Duration=8",
        )
        self.assertEqual(
            self.reading("message_size"),
            "Count=2,Value=6,Value/Count=3,Count/Duration=0.25,Duration=8",
        )
        self.assertTrue(self.reading("get").startswith("Count=2,"))
        self.assertTrue(self.reading("get_miss").startswith("Count=1,"))
        self.assertEqual(self.reading("put_failed"), "null")

    def test_topics_without_stat(self) -> None:
        """Topics whose `stat` is off are not counted."""
        self.peer.ask(put(b"x", topic="quiet"))
        self.assertEqual(self.reading("put"), "null")
        self.peer.ask(put(b"x"))
        self.assertTrue(self.reading("put").startswith("Count=1,"))
        self.assertEqual(self.reading("put", "quiet"), "Invalid keyTwo:quiet")
        self.assertTrue(self.reading("put", "test").startswith("Count=1,"))

    def test_reset(self) -> None:
        """A reset zeroes, keeps the kinds that were seen, and totals go on."""
        self.peer.ask(put(b"x"))
        self.parts.clock.advance(5)
        self.assertEqual(self.lines("reset"), ["reset ok"])
        zero = "Count=0,Value=0,Value/Count=invalid,Count/Duration=invalid,Duration=0"
        self.assertEqual(self.reading("put"), zero)
        self.peer.ask(put(b"x"))
        self.assertTrue(self.reading("put").startswith("Count=1,Value=1,"))
        self.assertEqual(self.parts.numbers.cmd_put, 2)

    def test_reset_of_every_half_hour(self) -> None:
        """After 30 minutes the counts begin anew by themselves."""
        self.peer.ask(put(b"x"))
        self.parts.clock.advance(1799)
        self.assertTrue(self.reading("put").startswith("Count=1,"))
        self.parts.clock.advance(1)
        self.assertTrue(self.reading("put").startswith("Count=0,"))


class ExtensionTests(StatsCase):
    """How clients ask for what is no part of the protocol."""

    def test_extensions(self) -> None:
        """One line names them, in the form of no other broker's answer; a line for each
        topic follows."""
        data = self.peer.ask(b"stats extensions 3\r\n")
        text = (
            b"STATS\r\nextensions poll partitions\r\npartitions lazy 3\r\n"
            b"partitions quiet 3\r\npartitions test 3\r\nEND\r\n"
        )
        self.assertEqual(data, b"result 200 %d 3\r\n%b" % (len(text), text))

    def test_wildcards(self) -> None:
        """A wildcard offers nothing, a topic that it let in all its partitions."""
        self.peer.ask(put(b"x", topic="wilder", partition=1))
        found = [line for line in self.lines("extensions") if "wild" in line]
        self.assertEqual(found, ["partitions wilder 3"])

    def offered(self, ini: str, change: str = "") -> list[str]:
        """What a broker says of topic `a`, with something in its partition 2, after
        `change` was put into its file."""
        parts = BrokerParts(self, ini)
        parts.connect().ask(put(b"x", topic="a", partition=2))
        if change:
            parts.topics.apply(BrokerParts(self, change).settings)
        lines = parts.stats.answer("extensions")[1].decode().split("\r\n")
        return [line for line in lines if line.split(" ")[1:2] == ["a"]]

    def test_stored(self) -> None:
        """Partitions that are stored beyond the configured ones can be read, also when
        the topic is configured no more."""
        ini = INI + "[topic=a]\n"
        self.assertEqual(self.offered(ini), ["partitions a 3"])
        fewer = ini + "numPartitions=2\n"
        self.assertEqual(self.offered(ini, fewer), ["partitions a 2", "readable a 3"])
        self.assertEqual(self.offered(ini, INI), ["partitions a 0", "readable a 3"])

    def test_switched_off(self) -> None:
        """What is not to be published, or not to be read, counts 0."""
        ini = INI + "[topic=a]\n"
        unpublished = ini + "acceptPublish=false\n"
        found = self.offered(ini, unpublished)
        self.assertEqual(found, ["partitions a 0", "readable a 3"])
        unread = ini + "acceptSubscribe=false\n"
        found = self.offered(ini, unread)
        self.assertEqual(found, ["partitions a 3", "readable a 0"])

    def test_topic_of_that_name(self) -> None:
        """A topic of that name follows, in the form of every topic."""
        ini = INI + "[topic=extensions]\nstat=true\n"
        parts = BrokerParts(self, ini)
        parts.connect().ask(put(b"x", topic="extensions"))
        lines = parts.stats.answer("extensions")[1].decode().split("\r\n")
        self.assertEqual(lines[1], "extensions poll partitions")
        self.assertEqual(lines[2], "partitions extensions 3")
        own = lines.index("extensions")
        self.assertEqual(lines[own + 1], "resultCode 0")
        self.assertTrue(all(line.startswith("partitions ") for line in lines[2:own]))
