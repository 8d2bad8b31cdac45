"""Checks 59 to 82: gets and offsets."""

from __future__ import annotations

from typing import ClassVar

from tests.conformance.conformance_case import ConformanceCase
from tests.conformance.requests import CHECKS

HELLO = b"put test 0 5 0 907060870 2\r\nhello"
NOT_THERE = b"Could not find message at position "


def result(code: int, opaque: int, body: bytes) -> bytes:
    """A whole `result`."""
    return b"result %d %d %d\r\n%s" % (code, len(body), opaque, body)


class HelloCase(ConformanceCase):
    """Three `hello` in partition 0, which then ends at 75."""

    def setUp(self) -> None:
        """Store them."""
        super().setUp()
        for _ in range(3):
            self.ask(HELLO)

    def value(self, key: str, opaque: int) -> bytes:
        """The body of the `value` that answers a check."""
        header, _, body = self.check(key).partition(b"\r\n")
        self.assertEqual(header, b"value %d %d" % (len(body), opaque))
        return body


class ValueChecks(HelloCase):
    """Gets that are answered with bytes."""

    def test_059_all_records(self) -> None:
        """All three records come in one `value`."""
        body = self.value("59", 20)
        records = [body[at : at + 25] for at in (0, 25, 50)]
        self.assertEqual(len(body), 75)
        for record in records:
            self.assertEqual(record[:8].hex(), "000000053610a686")
            self.assertEqual(record[16:], b"\0\0\0\0hello")

    def test_060_second_record(self) -> None:
        """An offset and a size can name one record."""
        whole = self.value("59", 20)
        self.assertEqual(self.value("60", 20), whole[25:50])

    def test_061_cut_record(self) -> None:
        """A `value` may end inside a record."""
        whole = self.value("59", 20)
        self.assertEqual(self.value("61", 21), whole[:40])

    def test_062_one_byte(self) -> None:
        """A `value` may be a single byte."""
        self.assertEqual(self.value("62", 21), b"\0")

    def test_063_start_inside_a_record(self) -> None:
        """A `value` may start inside a record."""
        body = self.value("63", 23)
        self.assertEqual((len(body), body[:1]), (40, b"\5"))

    def test_082_empty_group(self) -> None:
        """An empty group is a group."""
        self.assertEqual(self.check("82"), self.ask(b"get test g 0 0 100 5\r\n"))


class NothingThereChecks(HelloCase):
    """Gets that are answered with a code."""

    def test_064_at_the_end(self) -> None:
        """At the end there is nothing yet."""
        self.assertEqual(self.check("64"), result(404, 25, NOT_THERE + b"75"))

    def test_065_past_the_end(self) -> None:
        """Past the end there is nothing."""
        self.assertEqual(self.check("65"), result(404, 25, NOT_THERE + b"76"))

    def test_066_largest_offset(self) -> None:
        """The largest offset asks for the end."""
        self.assertEqual(self.check("66"), b"result 301 2 25\r\n75")

    def test_067_before_the_start(self) -> None:
        """Before the start a consumer is sent to it."""
        self.assertEqual(self.check("67"), b"result 301 1 23\r\n0")

    def test_068_no_size(self) -> None:
        """A size of 0 is a bad request."""
        text = b"result 400 30 22\r\nBad request,invalid max size:0"
        self.assertEqual(self.check("68"), text)

    def test_069_unknown_topic(self) -> None:
        """An unknown topic is answered 404."""
        text = b"result 404 47 1\r\nThe topic `nope` in partition `0` is not exists"
        self.assertEqual(self.check("69"), text)

    def test_070_no_store_wins_over_size(self) -> None:
        """A partition without messages is 404 even where the size is wrong."""
        text = b"The topic `test` in partition `1` is not exists"
        self.assertEqual(self.check("70"), result(404, 1, text))

    def test_071_negative_partition(self) -> None:
        """A get does not choose a partition."""
        text = b"The topic `test` in partition `-1` is not exists"
        self.assertEqual(self.check("71"), result(404, 1, text))

    def test_072_closed_partition(self) -> None:
        """A closed partition is answered 403."""
        self.close_partition(2)
        text = b"result 403 30 1\r\nPartition[5-2] has been closed"
        self.assertEqual(self.check("72"), text)

    def test_075_offset_at_both_ends(self) -> None:
        """`offset` answers the start and the end."""
        self.assertEqual(self.check("75a"), b"result 200 1 24\r\n0")
        self.assertEqual(self.check("75b"), b"result 200 2 24\r\n75")

    def test_076_offset_without_store(self) -> None:
        """`offset` is 404 without a store, and answers on a closed partition."""
        text = b"The topic `nope` in partition `0` is not exists"
        self.assertEqual(self.check("76"), result(404, 9, text))
        self.put(b"hello", partition=2)
        self.close_partition(2)
        reply = self.ask(b"offset test g 2 0 9\r\n")
        self.assertEqual(reply, b"result 200 1 9\r\n0")


class SegmentChecks(ConformanceCase):
    """Several segments, and records above the transfer limit."""

    def store_five(self) -> None:
        """Segments that start at 0, 4560 and 7600."""
        for _ in range(5):
            self.put(b"A" * 1500, partition=1)

    def test_073_value_ends_with_its_segment(self) -> None:
        """A `value` never crosses a segment's end."""
        self.store_five()
        for key, size in (("73a", 4560), ("73b", 10)):
            header, _, body = self.check(key).partition(b"\r\n")
            self.assertEqual((header, len(body)), (b"value %d 1" % size, size))

    def test_074_offset_answers_segment_starts(self) -> None:
        """`offset` answers the start of the segment that holds the offset."""
        self.store_five()
        self.assertEqual(self.check("74a"), b"result 200 1 24\r\n0")
        for offset, start in ((4560, 4560), (5000, 4560), (7600, 7600)):
            reply = self.ask(b"offset test g 1 %d 24\r\n" % offset)
            self.assertEqual(reply, result(200, 24, b"%d" % start))
        self.assertEqual(self.check("74b"), b"result 200 4 24\r\n7600")

    def test_077_large_record(self) -> None:
        """One record above maxTransferSize comes whole to who asks for that much."""
        message = b"A" * 1_200_000
        self.put(message)
        reply = self.ask(b"get test g 0 0 9999999 1\r\n")
        self.assertTrue(reply.startswith(b"value 1200020 1\r\n"))
        self.assertTrue(reply.endswith(message))

    def test_077b_large_record_in_parts(self) -> None:
        """Who asks for less gets what was asked for, up to maxTransferSize."""
        self.put(b"A" * 1_200_000)
        reply = self.ask(b"get test g 0 0 1048576 1\r\n")
        self.assertTrue(reply.startswith(b"value 1048576 1\r\n"))

    def test_078_unforced_message(self) -> None:
        """In direct mode an acknowledged message is readable at once."""
        stored = self.ask(b"put lazy 0 5 0 907060870 1\r\nhello")
        self.assert_result(stored, 200, 1, rb"[0-9]+ 0 0")
        reply = self.ask(b"get lazy g 0 0 100 2\r\n")
        self.assertTrue(reply.startswith(b"value 25 2\r\n"))
        self.assertEqual(self.ask(b"offset lazy g 0 100 3\r\n"), result(200, 3, b"25"))


class FilterChecks(ConformanceCase):
    """Consumer filters: the rule of spec wire-protocol 7.10."""

    def test_079_accepted_then_rejected(self) -> None:
        """The accepted run comes whole, and ends before the first rejected record."""
        self.put(b"Axx")
        self.put(b"Bxx")
        reply = self.ask(b"get test gf 0 0 1000 1\r\n")
        self.assertTrue(reply.startswith(b"value 23 1\r\n"))
        self.assertTrue(reply.endswith(b"Axx"))

    def test_080_only_rejected(self) -> None:
        """Rejected records are skipped with a 301."""
        self.put(b"Bxx")
        self.put(b"Bxx")
        reply = self.ask(b"get test gf 0 0 1000 1\r\n")
        self.assertEqual(reply, result(301, 1, b"46"))

    def test_081_raising_filter_and_small_size(self) -> None:
        """Less than one record is sent unfiltered; the consumer then asks for more."""
        self.put(b"Axx")
        reply = self.ask(b"get test gt 0 0 10 1\r\n")
        self.assertTrue(reply.startswith(b"value 10 1\r\n"))

    def test_081b_raising_filter(self) -> None:
        """A filter that raises rejects."""
        self.put(b"Axx")
        reply = self.ask(b"get test gt 0 0 100 1\r\n")
        self.assertEqual(reply, result(301, 1, b"23"))

    def test_081c_missing_filter(self) -> None:
        """A filter that cannot be loaded is answered 500, and other groups go on."""
        self.put(b"Axx")
        reply = self.ask(b"get test gx 0 0 100 1\r\n")
        self.assert_result(reply, 500, 1, rb".*conformance_filters\.missing.*")
        self.assertTrue(self.ask(b"get test g 0 0 99 1\r\n").startswith(b"value 23 1"))


class UpdateOffsetsChecks(ConformanceCase):
    """The second half of check 65."""

    environ: ClassVar = {"METATWIST_SYSTEM_updateConsumerOffsets": "true"}

    def test_065_past_the_end_with_update(self) -> None:
        """With updateConsumerOffsets a consumer past the end is sent back to it."""
        for _ in range(3):
            self.ask(HELLO)
        self.assertEqual(self.ask(CHECKS["65"].data), b"result 301 2 25\r\n75")
