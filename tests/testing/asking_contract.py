"""What is true of a broker on the wire, continued: polls, and what it says of
itself."""

from __future__ import annotations

from tests.support.wire_client import ASK_FOR_END, put_request
from tests.testing.broker_case import BROKER_ID, BrokerCase
from tests.testing.conversations import Answer

LONG_WAIT_MS = 30_000  # longer than a Conversation waits for a reply
KEYS = (
    "pid broker_id port uptime version slave curr_connections threads cmd_put cmd_get"
    " cmd_offset tx_begin tx_xa_begin tx_commit tx_rollback get_miss put_failed"
    " total_messages topics config_checksum"
)
COUNTERS = "cmd_put cmd_get cmd_offset get_miss put_failed total_messages"


class PollContract(BrokerCase):
    """A get that waits."""

    def test_data(self) -> None:
        """A poll where there is data is answered at once, as a get is."""
        self.stored(b"hello")
        self.assertEqual(self.ask(self.poll(0, LONG_WAIT_MS)), self.get(0, 1000))

    def test_no_wait(self) -> None:
        """A poll that may not wait is a get."""
        self.stored(b"hello")
        for wait_ms in (0, -1):
            answer = self.ask(self.poll(25, wait_ms))
            self.assertEqual(answer, self.get(25, 1000))

    def test_nothing_to_wait_for(self) -> None:
        """A poll does not wait for what will not be mended by time."""
        self.stored(b"hello")
        self.assertEqual(self.ask(self.poll(26, LONG_WAIT_MS)).code, 404)
        self.assertEqual(self.ask(self.poll(-1, LONG_WAIT_MS)).code, 301)
        request = f"poll nope g 0 0 1000 {LONG_WAIT_MS} 9\r\n".encode()
        self.assertEqual(self.ask(request), self.missing(0, "nope"))
        request = f"poll {self.topic} g -1 0 1000 {LONG_WAIT_MS} 9\r\n".encode()
        self.assertEqual(self.ask(request), self.missing(-1))
        request = f"poll {self.topic} g 0 25 0 {LONG_WAIT_MS} 9\r\n".encode()
        self.assertEqual(self.ask(request).code, 400)

    def test_woken(self) -> None:
        """A waiting poll is answered when a message is stored, also the first one."""
        for begin in (0, 25):
            peer = self.connect()
            peer.send(self.poll(begin, LONG_WAIT_MS))
            self.assertTrue(peer.is_silent())
            self.stored(b"hello")
            self.assertEqual(Answer.of(peer.reply()), self.get(begin, 25))

    def test_time_over(self) -> None:
        """When its wait is over a poll is answered as a get that finds nothing."""
        self.stored(b"hello")
        peer = self.connect()
        peer.send(self.poll(25, 400))
        self.assertEqual(Answer.of(peer.reply()), self.get(25, 1000))

    def test_overtaken(self) -> None:
        """What is asked behind a waiting poll is answered before it."""
        peer = self.connect()
        peer.send(self.poll(0, LONG_WAIT_MS, 1) + b"version 2\r\n")
        self.assertEqual(Answer.of(peer.reply()).opaque, 2)
        stored = self.ask(put_request(self.topic, 0, b"x", 3), peer)
        self.assertEqual((stored.code, stored.opaque), (200, 3))
        self.assertEqual(Answer.of(peer.reply())[:2], (0, 1))

    def test_closed(self) -> None:
        """A poll that waits is answered 403 when its partition is closed."""
        peer = self.connect()
        peer.send(self.poll(0, LONG_WAIT_MS))
        self.assertTrue(peer.is_silent())
        self.close_partition(0)
        self.assertEqual(Answer.of(peer.reply()).code, 403)

    def test_quit(self) -> None:
        """A poll that waits is answered when its connection is to end."""
        peer = self.connect()
        peer.send(self.poll(0, LONG_WAIT_MS) + b"quit\r\n")
        self.assertEqual(Answer.of(peer.until_closed()), self.missing(0))


class StatsContract(BrokerCase):
    """What a client may ask a broker about itself."""

    def lines(self, item: str) -> list[str]:
        """The lines of an item, between STATS and END."""
        answer = self.ask(f"stats {item} 9\r\n".encode())
        self.assertEqual((answer.code, answer.opaque), (200, 9))
        first, *lines, last, rest = answer.body.decode().split("\r\n")
        self.assertEqual((first, last, rest), ("STATS", "END", ""))
        return lines

    def general(self) -> dict[str, str]:
        """The general form, by key."""
        return dict(line.split(" ", 1) for line in self.lines(""))

    def test_keys(self) -> None:
        """The general form has its twenty keys in their order."""
        self.assertEqual(list(self.general()), KEYS.split())
        self.assertEqual(self.general()["broker_id"], str(BROKER_ID))
        self.assertEqual(self.general()["slave"], "false")

    def test_counters(self) -> None:
        """Each request is counted as what it is and what came of it."""
        before = self.general()
        self.close_partition(2)
        self.stored(b"x")
        self.put(b"x", 9)
        self.put(b"x", 2)
        self.get(0, 100)
        self.get(-1, 100)
        self.get(21, 100)
        self.get(ASK_FOR_END, 100)
        self.get(0, 100, 1)
        self.get(0, 0)
        self.offset(0)
        self.offset(0, 1)
        after = self.general()
        keys = COUNTERS.split()
        counted = [int(after[key]) - int(before[key]) for key in keys]
        self.assertEqual(counted, [3, 6, 4, 4, 1, 1])

    def test_topics(self) -> None:
        """`topics` and a topic's name tell of its partitions, messages and bytes."""
        self.stored(b"hello")
        self.stored(b"x", 2)
        line = (
            f"{self.topic} partitions 2 message_count 2 message_bytes 46"
            " accept_publish true accept_subscribe true"
        )
        self.assertIn(line, self.lines("topics"))
        self.assertIn("idle *Empty*", self.lines("topics"))
        self.assertEqual(
            self.lines(self.topic)[:5],
            [self.topic, "resultCode 0", "partitions 2", "message_count 2", "bytes 46"],
        )

    def test_topics_without_messages(self) -> None:
        """The result code tells an empty topic from an unknown one."""
        self.assertEqual(self.lines("idle")[:2], ["idle", "resultCode 2"])
        self.assertEqual(self.lines("nope")[:2], ["nope", "resultCode 1"])
        self.assertEqual(len(self.lines("nope")), 11)

    def test_offsets(self) -> None:
        """`offsets` tells where each partition begins and ends."""
        self.stored(b"hello", 1)
        line = f"{self.topic} part 1 min_offset 0 max_offset 25"
        self.assertIn(line, self.lines("offsets"))

    def test_extensions(self) -> None:
        """`extensions` names what this broker can do beyond the protocol, and the
        partitions of its topics."""
        self.stored(b"x")
        first, *offered = self.lines("extensions")
        self.assertEqual(first, "extensions poll partitions")
        self.assertIn(f"partitions {self.topic} 3", offered)

    def test_texts(self) -> None:
        """`help`, `reset` and `realtime` have their lines."""
        self.assertEqual(len(self.lines("help")), 6)
        self.assertEqual(self.lines("reset"), ["reset ok"])
        realtime = [line.split(" ")[0] for line in self.lines("realtime")]
        kinds = ("put", "get", "offset", "get_miss", "put_failed", "message_size")
        self.assertEqual(realtime, [f"realtime_{kind}" for kind in kinds])
