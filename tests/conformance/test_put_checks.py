"""Checks 31 to 58, and 112: puts."""

from __future__ import annotations

from tests.conformance.conformance_case import ConformanceCase
from tests.conformance.requests import CHECKS, TAGGED

STORED = rb"([0-9]+) ([0-9]+) ([0-9]+)"
BAD_SUM = rb".*Detail:Checksum failure,message may be corrupted when transfering on "


class AcceptedChecks(ConformanceCase):
    """Puts that are stored."""

    def test_031_put_with_checksum(self) -> None:
        """The first put to a partition is answered with offset 0."""
        self.assert_result(self.check("31"), 200, 2, rb"[0-9]+ 0 0")

    def test_032_put_of_six_tokens(self) -> None:
        """The put of old clients, without checksum, is stored."""
        self.assert_result(self.check("32"), 200, 1, rb"[0-9]+ 0 0")

    def test_033_offsets_and_ids(self) -> None:
        """Offsets follow the records, and ids rise."""
        replies = [self.check("31") for _ in range(3)]
        stored = [self.assert_result(reply, 200, 2, STORED) for reply in replies]
        self.assertEqual([match[3] for match in stored], [b"0", b"25", b"50"])
        ids = [int(match[1]) for match in stored]
        self.assertEqual(ids, sorted(set(ids)))

    def test_034_no_checksum(self) -> None:
        """A checksum of -1 is not verified."""
        self.assert_result(self.check("34"), 200, 3, STORED)

    def test_039_any_partition(self) -> None:
        """For partition -1 the broker chooses one, and names it."""
        stored = self.assert_result(self.check("39"), 200, 5, STORED)
        self.assertIn(stored[2], (b"0", b"1", b"2"))

    def test_043_wildcard_topic(self) -> None:
        """A topic that matches a pattern is accepted and listed."""
        self.assert_result(self.check("43"), 200, 8, STORED)
        listed = self.ask(b"stats topics 1\r\n")
        line = b"\r\nwildcat partitions 1 message_count 1 message_bytes 21 "
        self.assertIn(line, listed)

    def test_045_empty_message(self) -> None:
        """An empty message is a record of 20 bytes."""
        self.assert_result(self.check("45"), 200, 9, STORED)
        header, _, record = self.ask(b"get test g 0 0 100 1\r\n").partition(b"\r\n")
        self.assertEqual(header, b"value 20 1")
        self.assertEqual((len(record), record[:8]), (20, bytes(8)))

    def test_046_attribute(self) -> None:
        """A message with an attribute comes back as it was sent."""
        self.assert_result(self.check("46"), 200, 13, STORED)
        record = self.ask(b"get test g 0 0 100 1\r\n").partition(b"\r\n")[2]
        self.assertEqual(record[16:], b"\0\0\0\1" + TAGGED)

    def test_047_negative_flag(self) -> None:
        """All bits of a flag are kept."""
        self.assert_result(self.check("47"), 200, 13, STORED)
        record = self.ask(b"get test g 0 0 100 1\r\n").partition(b"\r\n")[2]
        self.assertEqual(record[16:20], b"\x80\0\0\0")

    def test_058_pipelined(self) -> None:
        """A hundred puts at once get a hundred answers with different offsets."""
        peer = self.peer()
        topic = self.topic.encode()
        peer.send(
            b"".join(b"put %s 0 1 0 %d\r\nx" % (topic, opaque) for opaque in range(100))
        )
        replies = [peer.reply() for _ in range(100)]
        opaques = {int(reply.split(b"\r\n")[0].split()[3]) for reply in replies}
        offsets = {int(reply.split()[-1]) for reply in replies}
        self.assertEqual(opaques, set(range(100)))
        self.assertEqual(offsets, set(range(0, 2100, 21)))


class RefusedChecks(ConformanceCase):
    """Puts that are answered, not stored."""

    def failed(self, topic_partition: bytes, detail: bytes) -> bytes:
        """The words of a refused put."""
        address = self.broker.address.encode()
        where = b"[broker '%s'] [partition '%s']" % (address, topic_partition)
        return b"Put message to %s failed.Detail:%s" % (where, detail)

    def assert_refused(self, key: str, code: int, opaque: int, body: bytes) -> None:
        """The whole answer."""
        header = b"result %d %d %d\r\n" % (code, len(body), opaque)
        self.assertEqual(self.check(key), header + body)

    def test_035_wrong_checksum(self) -> None:
        """A wrong checksum is answered 500."""
        self.assert_result(self.check("35"), 500, 4, BAD_SUM + rb"networking\.")

    def test_036_negative_checksum(self) -> None:
        """A negative checksum other than -1 never matches."""
        self.assert_result(self.check("36"), 500, 4, BAD_SUM + rb"networking\.")

    def test_040_partition_too_high(self) -> None:
        """A partition that the topic does not have is answered 500."""
        text = self.failed(b"test-3", b"wrong partition 3")
        self.assert_refused("40", 500, 6, text)

    def test_041_partition_negative(self) -> None:
        """Of the negative partitions only -1 has a meaning."""
        text = self.failed(b"test--2", b"wrong partition -2")
        self.assert_refused("41", 500, 6, text)

    def test_042_unknown_topic(self) -> None:
        """A topic that is not configured is answered 500."""
        text = self.failed(b"nope-0", b"The server do not accept topic nope")
        self.assert_refused("42", 500, 7, text)

    def test_044_closed_partition(self) -> None:
        """A closed partition is answered 403."""
        self.close_partition(2)
        text = self.failed(b"test-2", b"partition[5-2] has been closed")
        self.assert_refused("44", 403, 8, text)

    def test_055_unknown_local_transaction(self) -> None:
        """A put under a local key that has not begun is answered 500."""
        text = b"Local transaction 'TX:s1:1' has not been started."
        self.assert_refused("55", 500, 11, text)

    def test_056_unknown_local_transaction_old_form(self) -> None:
        """The same without a checksum."""
        text = b"Local transaction 'TX:s1:1' has not been started."
        self.assert_refused("56", 500, 11, text)

    def test_057_unknown_xa_transaction(self) -> None:
        """A put under an XA key that has not begun is answered 500."""
        text = b"XA transaction 'XID:1:0a:0b:uq' has not been started."
        self.assert_refused("57", 500, 12, text)

    def test_112_sync(self) -> None:
        """A broker that is no replica answers `sync` with 503 and stays open."""
        peer = self.peer()
        self.assert_result(self.check("112", peer), 503, 5, rb".*")
        self.assertTrue(peer.is_silent())


class ClosingChecks(ConformanceCase):
    """Puts that close the connection, and when."""

    def test_037_plus_sign(self) -> None:
        """`+1` is taken for a transaction key, and is none."""
        self.assert_closes("37")

    def test_038_empty_token(self) -> None:
        """An empty checksum closes."""
        self.assert_closes("38")

    def test_048_flag_out_of_range(self) -> None:
        """A flag past 32 bits closes."""
        self.assert_closes("48")

    def test_049_five_tokens(self) -> None:
        """A wrong number of tokens closes only after the body has come."""
        peer = self.peer()
        peer.send(self.own(CHECKS["49"].data[:-1]))
        self.assertTrue(peer.is_silent())
        peer.send(b"x")
        self.assertEqual(peer.until_closed(), b"")

    def test_050_nine_tokens(self) -> None:
        """Too many tokens close."""
        self.assert_closes("50")

    def test_051_bad_length(self) -> None:
        """A length that is negative or no number closes at once."""
        self.assert_closes("51a", "51b")

    def test_052_body_in_parts(self) -> None:
        """A put waits for the rest of its body."""
        peer = self.peer()
        peer.send(self.own(CHECKS["52"].data[:-3]))
        self.assertTrue(peer.is_silent())
        peer.send(b"llo")
        self.assert_result(peer.reply(), 200, 6, rb"[0-9]+ 0 0")

    def test_053_length_too_small(self) -> None:
        """What is behind the stated length is the next header, and closes."""
        peer = self.peer()
        peer.send(self.own(CHECKS["53"].data))
        peer.until_closed()
        reply = self.ask(b"get test g 0 0 100 1\r\n")
        self.assertTrue(reply.startswith(b"value 23 1\r\n"))
        self.assertTrue(reply.endswith(b"hel"))

    def test_054_bad_keys(self) -> None:
        """A malformed transaction key closes."""
        self.assert_closes("54a", "54b")
