"""Records and replies against the stored bytes of the specification."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.wire import records
from metatwist.wire.commands import ResultReply, ValueReply
from tests.wire.splitting import assert_reads_at_every_split

FIRST_ID = 1661382015569645568
RECORD_A = bytes.fromhex("00000005 3610a686 170e6a240a405000 00000000 68656c6c6f")
RECORD_B = bytes.fromhex(
    "0000000b 6f79e13b 170e6a240a405001 00000001 00000003 746167 626f6479"
)
RECORD_C = bytes.fromhex("00000000 00000000 170e6a240a405002 00000000")
NEGATIVE_ID = -5468931261059805184
RECORD_NEGATIVE = bytes.fromhex(
    "00000005 3610a686 b41a73fe63805000 00000000 68656c6c6f"
)


class ChecksumTests(SynchronousTestCase):
    """CRC-32 with the top bit cleared (spec wire-protocol 2.3)."""

    def test_stored_values(self) -> None:
        """The checksums are those of the specification."""
        for payload, expected in (
            (b"", 0),
            (b"x", 215750275),
            (b"hello", 907060870),
            (b"test", 1484750348),
            (b"123456789", 1274296614),
            (b"\0\0\0\3tagbody", 1870258491),
            (b"\0\0\0\0emptyattr", 2135807561),
        ):
            self.assertEqual(records.checksum(payload), expected, payload)


class LayoutTests(SynchronousTestCase):
    """The worked records (spec wire-protocol 2.5)."""

    def test_encode(self) -> None:
        """Records are written byte for byte as in the specification."""
        tagged = b"\0\0\0\3tagbody"
        for message_id, flag, payload, expected in (
            (FIRST_ID, 0, b"hello", RECORD_A),
            (FIRST_ID + 1, 1, tagged, RECORD_B),
            (FIRST_ID + 2, 0, b"", RECORD_C),
            (NEGATIVE_ID, 0, b"hello", RECORD_NEGATIVE),
        ):
            self.assertEqual(records.encode(message_id, flag, payload), expected)

    def test_whole_records(self) -> None:
        """A slice gives its complete records, with their places in it."""
        data = RECORD_A + RECORD_B + RECORD_C + RECORD_NEGATIVE
        found = list(records.whole_records(data))
        self.assertEqual([one.offset for one in found], [0, 25, 56, 76])
        self.assertEqual(
            [one.message_id for one in found],
            [FIRST_ID, FIRST_ID + 1, FIRST_ID + 2, NEGATIVE_ID],
        )
        self.assertTrue(all(records.is_intact(one) for one in found))

    def test_incomplete_tail(self) -> None:
        """A tail that is cut anywhere is left out."""
        for size in range(len(RECORD_A), len(RECORD_A + RECORD_B)):
            found = list(records.whole_records((RECORD_A + RECORD_B)[:size]))
            self.assertEqual([one.payload for one in found], [b"hello"])

    def test_impossible_length(self) -> None:
        """A negative length ends the walk."""
        data = RECORD_A + b"\xff\xff\xff\xff" + bytes(40)
        self.assertEqual(len(list(records.whole_records(data))), 1)

    def test_damage(self) -> None:
        """A changed payload no longer matches its checksum."""
        (damaged,) = records.whole_records(RECORD_A[:-1] + b"p")
        self.assertFalse(records.is_intact(damaged))


class AttributeTests(SynchronousTestCase):
    """Flag bit 0 and what it says (spec wire-protocol 2.2)."""

    def test_split(self) -> None:
        """An attribute comes off the payload; an empty one is not the same as none."""
        (record,) = records.whole_records(RECORD_B)
        self.assertEqual((record.attribute, record.body), ("tag", b"body"))
        self.assertEqual(records.split_payload(1, bytes(4) + b"x"), ("", b"x"))
        self.assertEqual(records.split_payload(2, b"x"), (None, b"x"))

    def test_join(self) -> None:
        """What is joined splits again."""
        for attribute in (None, "", "tag", "\u6587"):
            flag, payload = records.join_payload(attribute, b"body")
            self.assertEqual(records.split_payload(flag, payload), (attribute, b"body"))

    def test_wrong_length(self) -> None:
        """An attribute that does not fit the payload is an error of its own."""
        for payload in (b"", b"\0\0\0", b"\0\0\0\5tag", b"\xff\xff\xff\xff"):
            self.assertRaises(ValueError, records.split_payload, 1, payload)


class ReplyTests(SynchronousTestCase):
    """Replies (spec wire-protocol 1.8, 2.6)."""

    def test_worked_result(self) -> None:
        """The reply of the worked example is read and written as it stands."""
        wire = bytes.fromhex(
            "726573756c742032303020323420320d0a"
            "313636313338323031353536393634353536382030203235"
        )
        reply = ResultReply(200, 2, b"1661382015569645568 0 25")
        self.assertEqual(reply.encode(), wire)
        assert_reads_at_every_split(self, wire, [reply])

    def test_worked_value(self) -> None:
        """A `value` of 40 bytes holds a record and a part of the next."""
        reply = ValueReply(21, (RECORD_A + RECORD_B)[:40])
        wire = bytes.fromhex("76616c75652034302032310d0a") + reply.body
        self.assertEqual(reply.encode(), wire)
        assert_reads_at_every_split(self, wire, [reply])

    def test_empty_bodies(self) -> None:
        """A length of 0 has no body, and the next reply follows at once."""
        wire = b"result 200 0 1\r\nvalue 0 2\r\n"
        expected = [ResultReply(200, 1, b""), ValueReply(2, b"")]
        assert_reads_at_every_split(self, wire, expected)

    def test_extra_tokens(self) -> None:
        """Extra tokens of a reply are ignored."""
        wire = b"result 200 1 1 x\r\nav 5\r\n"
        messages, violates = [ResultReply(200, 1, b"a")], False
        assert_reads_at_every_split(self, wire[:19], messages, violates)
