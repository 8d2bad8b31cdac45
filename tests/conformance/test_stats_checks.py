"""Checks 83 to 94: stats, on brokers that are fresh where it matters."""

from __future__ import annotations

import re

from tests.conformance.conformance_case import FIXTURE_INI, ConformanceCase

HELLO = b"put test 0 5 0 907060870 2\r\nhello"
GENERAL = [
    *("pid", "broker_id", "port", "uptime", "version", "slave", "curr_connections"),
    *("threads", "cmd_put", "cmd_get", "cmd_offset", "tx_begin", "tx_xa_begin"),
    *("tx_commit", "tx_rollback", "get_miss", "put_failed", "total_messages"),
    *("topics", "config_checksum"),
]


def lines_of(reply: bytes) -> list[str]:
    """The lines of a body."""
    text = reply.partition(b"\r\n")[2].decode()
    assert text.endswith("\r\n"), text
    return text.split("\r\n")[:-1]


class FreshBrokerChecks(ConformanceCase):
    """A broker that has stored nothing; no check here changes that."""

    ini = FIXTURE_INI

    def test_083_general(self) -> None:
        """The general form has 22 lines, each with its key."""
        reply = self.check("83")
        self.assert_result(reply, 200, 1, rb"STATS\r\npid .*")
        lines = lines_of(reply)
        self.assertEqual((len(lines), lines[0], lines[-1]), (22, "STATS", "END"))
        self.assertEqual([line.split(" ")[0] for line in lines[1:-1]], GENERAL)
        self.assertTrue(re.fullmatch("config_checksum [0-9]+", lines[-2]))

    def test_084_default_opaque(self) -> None:
        """Without item and opaque the general form comes with the largest opaque."""
        reply = self.check("84a")
        self.assert_result(reply, 200, 2147483647, rb"STATS\r\npid .*")
        self.assertEqual(len(lines_of(reply)), 22)
        self.assert_closes("84b")

    def test_085_item_comes_first(self) -> None:
        """A lone number is an item, here a topic that nobody knows."""
        reply = self.check("85")
        self.assert_result(reply, 200, 2147483647, rb"STATS\r\n5\r\n.*")
        self.assertEqual(lines_of(reply)[2], "resultCode 1")

    def test_086_help(self) -> None:
        """The help has eight lines, in the words of the original."""
        reply = self.check("86")
        self.assertTrue(reply.startswith(b"result 200 252 5\r\n"))
        lines = lines_of(reply)
        self.assertEqual((len(lines), lines[0], lines[-1]), (8, "STATS", "END"))

    def test_087_reset(self) -> None:
        """A reset is confirmed."""
        text = b"result 200 22 9\r\nSTATS\r\nreset ok\r\nEND\r\n"
        self.assertEqual(self.check("87"), text)

    def test_088_offsets(self) -> None:
        """There are no partitions yet."""
        self.assertEqual(self.check("88"), b"result 200 12 3\r\nSTATS\r\nEND\r\n")

    def test_089_realtime(self) -> None:
        """Every kind of event is null before its first."""
        lines = lines_of(self.check("89"))
        events = ["put", "get", "offset", "get_miss", "put_failed", "message_size"]
        self.assertEqual(lines[1:-1], [f"realtime_{event} null" for event in events])

    def test_091_result_codes_without_store(self) -> None:
        """The code tells configured topics from unknown ones."""
        self.assertEqual(lines_of(self.check("91a"))[2], "resultCode 2")
        self.assertEqual(lines_of(self.check("91b"))[2], "resultCode 1")

    def test_092_topics(self) -> None:
        """Configured topics without a store are listed in order."""
        lines = lines_of(self.check("92"))
        names = ["lazy", "nostat", "test", "wild*"]
        self.assertEqual(lines[1:-1], [f"{name} *Empty*" for name in names])

    def test_093_config(self) -> None:
        """The configuration comes back byte for byte, and again when asked again."""
        text = self.broker.ini_path.read_bytes()
        whole = b"result 200 %d 11\r\n" % len(text) + text
        peer = self.peer()
        self.assertEqual(self.check("93", peer), whole)
        self.assertEqual(self.check("93", peer), whole)


class CountingChecks(ConformanceCase):
    """Stats that follow what is done."""

    def general(self) -> dict[str, int]:
        """The numbers of the general form."""
        lines = lines_of(self.ask(b"stats  1\r\n"))[1:-1]
        pairs = (line.split(" ") for line in lines)
        return {key: int(value) for key, value in pairs if value.isdigit()}

    def test_090_after_a_reset(self) -> None:
        """A reset zeroes counts and duration, and forgets no kind of event."""
        self.ask(HELLO)
        peer = self.peer()
        peer.send(b"stats reset 1\r\nstats realtime 2\r\n")
        peer.reply()
        zero = "Count=0,Value=0,Value/Count=invalid,Count/Duration=invalid,Duration=0"
        self.assertEqual(lines_of(peer.reply())[1], f"realtime_put {zero}")

    def test_091_result_code_with_store(self) -> None:
        """A topic with a store has code 0."""
        self.ask(HELLO)
        self.assertEqual(lines_of(self.check("91c"))[2], "resultCode 0")

    def test_094_closed_partition_is_no_failure(self) -> None:
        """A put answered 403 counts as a put, and not as a failed one."""
        self.close_partition(2)
        before = self.general()
        self.ask(b"put test 2 5 0 907060870 8\r\nhello")
        after = self.general()
        self.assertEqual(after["cmd_put"], before["cmd_put"] + 1)
        self.assertEqual(after["put_failed"], before["put_failed"])
