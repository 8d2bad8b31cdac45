"""The reader: every input of the conformance checks, split anywhere, and its limits."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.wire import grammar
from metatwist.wire.commands import (
    GetCommand,
    PollCommand,
    PutCommand,
    QuitCommand,
    TransactionCommand,
    VersionCommand,
)
from metatwist.wire.reader import MessageReader
from tests.conformance.requests import CHECKS
from tests.wire.splitting import assert_reads_at_every_split, cut, read

PUT = PutCommand("test", 0, 0, 907060870, None, 2, b"hello")


class CheckTests(SynchronousTestCase):
    """What the checks of spec wire-protocol 8 send."""

    def test_every_check(self) -> None:
        """Each request is read alike whole, byte by byte and cut anywhere."""
        for key, sent in CHECKS.items():
            with self.subTest(check=key):
                assert_reads_at_every_split(self, sent.data, sent.reads, sent.violates)

    def test_all_good_requests_in_one_stream(self) -> None:
        """Requests follow each other without anything in between."""
        good = [
            sent
            for key, sent in CHECKS.items()
            if not sent.violates and sent.reads[-1] != QuitCommand() and key != "26"
        ]
        wire = b"".join(sent.data for sent in good)
        messages = [message for sent in good for message in sent.reads]
        assert_reads_at_every_split(self, wire, messages)

    def test_worked_example(self) -> None:
        """The put of 33 bytes in the specification is read and written as it stands."""
        wire = bytes.fromhex(
            "7075742074657374203020352030203930373036303837302032 0d0a 68656c6c6f"
        )
        assert_reads_at_every_split(self, wire, [PUT])
        self.assertEqual(PUT.encode(), wire)


class GrammarTests(SynchronousTestCase):
    """Forms that no check has."""

    def test_bytes_that_are_not_utf8(self) -> None:
        """A malformed sequence in a string becomes U+FFFD, in gets and in puts."""
        get = GetCommand("a\ufffd\ufffd", "g", 0, 0, 1, 1)
        assert_reads_at_every_split(self, b"get a\xff\xfe g 0 0 1 1\r\n", [get])
        put = PutCommand("a\ufffd\ufffd", 0, 0, -1, None, 1, b"x")
        assert_reads_at_every_split(self, b"put a\xff\xfe 0 1 0 -1 1\r\nx", [put])

    def test_both_ways_to_read_a_put_agree(self) -> None:
        """Signs, zeros, spaces and long topics make no difference to a put."""
        for head, topic in (
            (b"put test 0 5 0 907060870 2\r\n", "test"),
            (b"put test 00 05 0 907060870 002\r\n", "test"),
            (b"put test +0 +5 +0 907060870 +2\r\n", "test"),
            (b"put test 0 5 0 907060870 2   \r\n", "test"),
            (b"put test -0 5 -0 907060870 2\r\n", "test"),
            (b"put %s 0 5 0 907060870 2\r\n" % (b"t" * 300), "t" * 300),
            (b"put %s 0 5 0 907060870 2\r\n" % (b"t" * 255), "t" * 255),
        ):
            put = PUT._replace(topic=topic)
            assert_reads_at_every_split(self, head + b"hello", [put])

    def test_bounds_of_numbers(self) -> None:
        """The first number past each end of 32 bits closes, the last one does not."""
        low, high = -(1 << 31), (1 << 31) - 1
        for partition, flag, checksum, opaque in (
            (low, low, low, low),
            (high, high, high, high),
        ):
            put = PutCommand("t", partition, flag, checksum, None, opaque, b"")
            assert_reads_at_every_split(self, put.encode(), [put])
        for field in ("partition", "flag", "checksum", "opaque"):
            for number in (low - 1, high + 1):
                put = PutCommand("t", 0, 0, 0, None, 0, b"")._replace(**{field: number})
                assert_reads_at_every_split(self, put.encode(), [], violates=True)

    def test_only_ascii_digits(self) -> None:
        """Other decimal digits of Unicode are no numbers here."""
        wire = "version \u0667\r\n".encode()
        assert_reads_at_every_split(self, wire, [], violates=True)

    def test_very_long_number(self) -> None:
        """A number of thousands of digits is refused before it is computed."""
        wire = b"version " + b"9" * 5000 + b"\r\n"
        assert_reads_at_every_split(self, wire, [], violates=True)

    def test_body_that_looks_like_a_header(self) -> None:
        """A body is opaque, line ends and commands in it too."""
        body = b"\r\nquit\r\nversion 1\r\n"
        put = PUT._replace(body=body, checksum=-1)
        wire = put.encode() + b"version 2\r\n"
        assert_reads_at_every_split(self, wire, [put, VersionCommand(2)])

    def test_nothing_is_read_behind_quit(self) -> None:
        """What follows `quit` is ignored, malformed or not."""
        quitting = [QuitCommand()]
        assert_reads_at_every_split(self, b"quit\r\n\r\nversion 1\r\n", quitting)

    def test_polls(self) -> None:
        """A poll has the fields of a get and a time; less, or no numbers, close."""
        for line, command in (
            (b"poll test g 0 75 1000 5000 9", ("test", "g", 0, 75, 1000, 5000, 9)),
            (b"poll test  -1 -1 -1 -1 -1", ("test", "", -1, -1, -1, -1, -1)),
            (b"poll t g 00 +7 1 2147483647 0 more", ("t", "g", 0, 7, 1, 2147483647, 0)),
        ):
            wire = line + b"\r\n" + b"version 2\r\n"
            expected = [PollCommand(*command), VersionCommand(2)]
            assert_reads_at_every_split(self, wire, expected)
        for line in (
            b"poll",
            b"poll test g 0 75 1000 9",
            b"poll test g x 75 1000 5000 9",
            b"poll test g 0 9223372036854775808 1000 5000 9",
            b"poll test g 0 75 1e3 5000 9",
            b"poll test g 0 75 1000 2147483648 9",
            b"poll test g 0 75 1000  9",
            b"poll test g 0 75 1000 5000 z",
            b"pollx test g 0 75 1000 5000 9",
            b"Poll test g 0 75 1000 5000 9",
        ):
            assert_reads_at_every_split(self, line + b"\r\n", [], violates=True)

    def test_get_of_a_poll(self) -> None:
        """A poll without its time is a get."""
        poll = PollCommand("t", "g", 1, 2, 3, 4, 5)
        self.assertEqual(poll.get, GetCommand("t", "g", 1, 2, 3, 5))

    def test_transactions(self) -> None:
        """A transaction's optional fields are told apart by their digits."""
        head = "transaction TX:s:1 s BEGIN"
        for middle, timeout_s, unique in (
            ("", None, None),
            (" 10", 10, None),
            (" -1", None, "-1"),
            (" uq", None, "uq"),
            (" -1 uq", -1, "uq"),
            (" 10 uq", 10, "uq"),
        ):
            command = TransactionCommand("TX:s:1", "s", "BEGIN", timeout_s, unique, 5)
            wire = f"{head}{middle} 5\r\n".encode()
            assert_reads_at_every_split(self, wire, [command])
        for wire in (b"begin 23", b"BEGIN", b"BEGIN 1 uq x 5", b"BEGIN  5"):
            line = b"transaction TX:s:1 s " + wire + b"\r\n"
            assert_reads_at_every_split(self, line, [], violates=True)

    def test_transaction_keys(self) -> None:
        """Keys come back in canonical form; malformed ones close."""
        for text, key in (
            ("null", "null"),
            ("TX:s:007", "TX:s:7"),
            ("TX::1::", "TX::1"),
            ("XID:-7:0F:ff:uq1", "XID:-7:0f:ff:uq1"),
            ("XID:1:0ab::", "XID:1:0a::"),
        ):
            command = TransactionCommand(key, "s", "RECOVER", None, None, 5)
            wire = f"transaction {text} s RECOVER 5\r\n".encode()
            assert_reads_at_every_split(self, wire, [command])
        for text in (
            "FOO",
            "TX:1",
            "TX:a:b:1",
            "TX:s:4294967296",
            "TX:s:1x",
            "XID:1:01:02",
            "XID:1:0g:02:u",
            "XID:2147483648:01:02:u",
            "XID:1:01:02:u:v",
        ):
            wire = f"transaction {text} s RECOVER 5\r\n".encode()
            assert_reads_at_every_split(self, wire, [], violates=True)

    def test_length_must_be_a_number_of_32_bits(self) -> None:
        """A length is looked at before the body comes."""
        for wire in (b"put t 0 2147483648 0 1\r\n", b"sync t 0\r\n", b"value\r\n"):
            assert_reads_at_every_split(self, wire, [], violates=True)


class LimitTests(SynchronousTestCase):
    """Headers, bodies and memory are bounded."""

    def limited(self) -> MessageReader:
        """A reader that takes 60 bytes of header and 100 of body."""
        return MessageReader(max_header_bytes=60, max_body_bytes=100)

    def get(self, header_bytes: int) -> bytes:
        """A get whose header, without its end, is that long."""
        return b"get " + b"t" * (header_bytes - 14) + b" g 0 0 1 1\r\n"

    def test_longest_header(self) -> None:
        """A header of exactly the limit is read, one byte more closes."""
        for size, good in ((60, True), (61, False)):
            messages, violates = read([self.get(size)], self.limited())
            self.assertEqual((len(messages), violates), (int(good), not good))

    def test_longest_header_in_pieces(self) -> None:
        """The same holds wherever the header is cut."""
        for size, good in ((60, True), (61, False)):
            wire = self.get(size)
            for at in range(1, len(wire)):
                messages, violates = read(cut(wire, [at]), self.limited())
                outcome = len(messages), violates
                self.assertEqual(outcome, (int(good), not good), (size, at))

    def test_longest_header_of_a_put(self) -> None:
        """The same holds for puts, which are read in a way of their own."""
        for size, good in ((60, True), (61, False)):
            wire = b"put " + b"t" * (size - 15) + b" 0 1 0 -1 1\r\nx"
            for pieces in ([wire], cut(wire, [size - 1]), cut(wire, [size + 2])):
                messages, violates = read(pieces, self.limited())
                outcome = len(messages), violates
                self.assertEqual(outcome, (int(good), not good), pieces)

    def test_header_without_end(self) -> None:
        """A header that never ends closes once it is past the limit."""
        reader = self.limited()
        for _ in range(60):
            reader.feed(b"x")
        self.assertIsNone(reader.violation)
        reader.feed(b"xx")
        self.assertIsNotNone(reader.violation)

    def test_largest_body(self) -> None:
        """A body of exactly the limit is read, one byte more closes at its header."""
        for head in (b"put t 0 %d 0 -1 1\r\n", b"sync t 0 %d 0 1 1\r\n"):
            whole = head % 100 + bytes(100)
            self.assertEqual(len(read([whole], self.limited())[0]), 1)
            _, violates = read([head % 101], self.limited())
            self.assertTrue(violates)

    def test_messages_before_a_violation(self) -> None:
        """What was read before a violation is still returned, nothing after it."""
        reader = self.limited()
        messages = reader.feed(b"version 1\r\nnonsense\r\nversion 2\r\n")
        self.assertEqual(messages, [VersionCommand(1)])
        self.assertEqual(reader.feed(b"version 3\r\n"), [])
        self.assertEqual(reader.buffered_bytes, 0)

    def test_buffered_bytes(self) -> None:
        """Only what is incomplete is kept."""
        reader = self.limited()
        reader.feed(b"version 1\r\nput t 0 50 0 1\r\n" + bytes(20))
        self.assertEqual(reader.buffered_bytes, len(b"put t 0 50 0 1\r\n") + 20)
        reader.feed(bytes(30))
        self.assertEqual(reader.buffered_bytes, 0)

    def test_topics_are_remembered_up_to_a_bound(self) -> None:
        """Thousands of topic names are read rightly, remembered or not."""
        puts = [
            PutCommand(f"t{number}", 0, 0, -1, None, number, b"")
            for number in range(3000)
        ]
        wire = b"".join(put.encode() for put in puts)
        self.assertEqual(read([wire, wire]), (puts + puts, False))


class _CountingReader(MessageReader):
    """Counts the bytes that are looked at."""

    looked_at_bytes = 0

    def _read_all(self, data: bytes, messages: list[grammar.Message]) -> int:
        self.looked_at_bytes += len(data)
        return super()._read_all(data, messages)


class SlowSenderTests(SynchronousTestCase):
    """Work is in proportion to what was received, however it is cut."""

    def looked_at(self, wire: bytes) -> int:
        """Bytes looked at when `wire` comes byte by byte."""
        reader = _CountingReader()
        read(cut(wire, range(1, len(wire))), reader)
        return reader.looked_at_bytes

    def test_slow_body(self) -> None:
        """A body is not looked at again with every byte of it."""
        for head in (b"put t 0 20000 0 -1 1\r\n", b"put t 0 20000 0 1\r\n"):
            wire = head + bytes(20_000)
            self.assertLess(self.looked_at(wire), 4 * len(wire))

    def test_slow_body_full_of_line_ends(self) -> None:
        """Line ends in a body change nothing about that."""
        wire = b"put t 0 20000 0 -1 1\r\n" + b"\n" * 20_000
        self.assertLess(self.looked_at(wire), 4 * len(wire))

    def test_slow_header(self) -> None:
        """A header is not looked at again with every byte of it."""
        wire = b"get " + b"t" * 20_000 + b" g 0 0 1 1\r\n"
        self.assertLess(self.looked_at(wire), 4 * len(wire))

    def test_slow_header_full_of_line_feeds(self) -> None:
        """Line feeds, which end no header, change nothing about that."""
        wire = b"get " + b"\n" * 20_000 + b" g 0 0 1 1\r\n"
        self.assertLess(self.looked_at(wire), 4 * len(wire))
