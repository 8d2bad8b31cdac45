"""What is true of a broker on the wire, of the real one as of the fake one: framing,
puts, gets. Mixins of statements; `test_contract` puts them to both.
"""

from __future__ import annotations

from tests.support.wire_client import (
    ASK_FOR_END,
    HEADER,
    checksum,
    put_request,
    whole_records,
)
from tests.testing.broker_case import (
    MAX_TRANSFER_BYTES,
    PARTITIONS,
    SEGMENT_BYTES,
    BrokerCase,
)
from tests.testing.conversations import Answer

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
DEFAULT_OPAQUE = INT_MAX


class FramingContract(BrokerCase):
    """Requests, their opaques, and the end of a connection."""

    def test_version(self) -> None:
        """`version` is answered 200 with a text, and the connection stays open."""
        peer = self.connect()
        answer = self.ask(b"version 7\r\n", peer)
        self.assertEqual((answer.code, answer.opaque), (200, 7))
        self.assertTrue(answer.body)
        self.assertTrue(peer.is_silent())

    def test_default_opaque(self) -> None:
        """`version` and `stats` without an opaque have the largest one."""
        self.assertEqual(self.ask(b"version\r\n").opaque, DEFAULT_OPAQUE)
        self.assertEqual(self.ask(b"stats help\r\n").opaque, DEFAULT_OPAQUE)

    def test_extreme_opaques(self) -> None:
        """Every opaque of 32 bits comes back, on puts and gets as well."""
        for opaque in (INT_MIN, -1, 0, INT_MAX):
            asked = put_request(self.topic, 0, b"x", opaque)
            self.assertEqual(self.ask(asked).opaque, opaque)
            asked = b"get %s g 0 0 9 %d\r\n" % (self.topic.encode(), opaque)
            self.assertEqual(self.ask(asked).opaque, opaque)

    def test_garbage(self) -> None:
        """What breaks the grammar closes the connection without a byte."""
        name = self.topic.encode()
        for garbage in (
            b"\r\n",
            b" version 7\r\n",
            b"foo 1 2\r\n",
            b"VERSION 7\r\n",
            b"version 2147483648\r\n",
            b"get %s g 0 1e3 100 5\r\n" % name,
            b"get %s g 0 0 100\r\n" % name,
            b"poll %s g 0 0 100 5\r\n" % name,
            b"offset %s g 0 0\r\n" % name,
            b"put %s 0 -1 0 5\r\n" % name,
            b"put %s 0 1 0 1 GARBAGE 5\r\nx" % name,
            b"transaction TX:s:1 s begin 5\r\n",
            b"value -1 1\r\n",
        ):
            peer = self.connect()
            peer.send(garbage)
            self.assertEqual(peer.until_closed(), b"", garbage)

    def test_before_garbage(self) -> None:
        """What was asked before the garbage is answered, what comes behind it not."""
        peer = self.connect()
        put = put_request(self.topic, 0, b"x", 1)
        peer.send(put + b"foo\r\nversion 2\r\n")
        self.assertEqual(Answer.of(peer.until_closed())[:2], (200, 1))

    def test_quit(self) -> None:
        """`quit` has no answer; the connection closes behind the answers before it."""
        peer = self.connect()
        peer.send(put_request(self.topic, 0, b"x", 1) + b"quit\r\nversion 2\r\n")
        self.assertEqual(Answer.of(peer.until_closed())[:2], (200, 1))

    def test_pieces(self) -> None:
        """A request that comes byte by byte is answered as one that comes at once."""
        peer = self.connect()
        request = put_request(self.topic, 0, b"hello", 3)
        for at in range(len(request)):
            peer.send(request[at : at + 1])
        answer = Answer.of(peer.reply())
        self.assertEqual((answer.code, answer.opaque), (200, 3))

    def test_body_first(self) -> None:
        """A put of too few fields is refused once its body is there."""
        peer = self.connect()
        peer.send(b"put %s 0 1 0\r\n" % self.topic.encode())
        self.assertTrue(peer.is_silent())
        peer.send(b"x")
        self.assertEqual(peer.until_closed(), b"")

    def test_stray_replies(self) -> None:
        """Replies that a client sends are ignored."""
        peer = self.connect()
        peer.send(b"value 3 1\r\nabcresult 200 3 1\r\nabcversion 2\r\n")
        self.assertEqual(Answer.of(peer.reply()).opaque, 2)

    def test_order(self) -> None:
        """Puts and gets of one connection are answered in their order, a get with the
        put before it."""
        peer, name = self.connect(), self.topic.encode()
        peer.send(
            put_request(self.topic, 0, b"one", 1)
            + b"get %s g 0 0 23 2\r\n" % name
            + put_request(self.topic, 0, b"two", 3)
            + b"offset %s g 0 %d 4\r\n" % (name, ASK_FOR_END)
        )
        answers = [Answer.of(peer.reply()) for _ in range(4)]
        self.assertEqual([answer.opaque for answer in answers], [1, 2, 3, 4])
        self.assertEqual(answers[1].body[20:], b"one")
        self.assertEqual(answers[3].body, b"46")

    def test_pipelined_puts(self) -> None:
        """A hundred puts at once get a hundred answers with offsets that rise."""
        peer = self.connect()
        requests = [put_request(self.topic, 1, b"x", number) for number in range(100)]
        peer.send(b"".join(requests))
        answers = [Answer.of(peer.reply()) for _ in range(100)]
        self.assertEqual([answer.opaque for answer in answers], list(range(100)))
        offsets = [int(answer.body.split(b" ")[2]) for answer in answers]
        self.assertEqual(offsets, list(range(0, 2100, 21)))


class PutContract(BrokerCase):
    """Messages come in."""

    def test_stored(self) -> None:
        """200 says id, partition and offset: ids rise, offsets follow the records."""
        stored = [self.stored(b"hello", 1) for _ in range(3)]
        self.assertEqual([one[1:] for one in stored], [[1, 0], [1, 25], [1, 50]])
        ids = [one[0] for one in stored]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertGreater(ids[0], 0)

    def test_old_form(self) -> None:
        """A put without a checksum, and one with -1, are stored unchecked."""
        name = self.topic.encode()
        self.assertEqual(self.ask(b"put %s 0 1 0 5\r\nx" % name).code, 200)
        self.assertEqual(self.ask(b"put %s 0 1 0 -1 5\r\nx" % name).code, 200)

    def test_wrong_checksum(self) -> None:
        """A wrong checksum is answered 500, and nothing is stored."""
        text = (
            "Checksum failure,message may be corrupted when transfering on networking."
        )
        for wrong in (1, -2):
            asked = b"put %s 0 1 0 %d 9\r\nx" % (self.topic.encode(), wrong)
            self.assertEqual(self.ask(asked), Answer(500, 9, self.failed(0, text)))
        self.assertEqual(self.offset(ASK_FOR_END).body, b"0")

    def test_any_partition(self) -> None:
        """For partition -1 the broker takes an open one, and names it."""
        self.close_partition(1)
        numbers = {self.stored(b"x", -1)[1] for _ in range(20)}
        self.assertEqual(numbers - {0, 2}, set())
        self.assertEqual(len(self.get(0, 1000, numbers.pop()).body) % 21, 0)

    def test_no_open_partition(self) -> None:
        """Partition -1 of a topic whose partitions are all closed is answered 403."""
        for partition in range(PARTITIONS):
            self.close_partition(partition)
        text = self.failed(-1, "partition[5--1] has been closed")
        self.assertEqual(self.put(b"x", -1), Answer(403, 1, text))

    def test_wrong_partition(self) -> None:
        """A partition that the topic does not have is answered 500."""
        for partition in (PARTITIONS, -2):
            text = self.failed(partition, f"wrong partition {partition}")
            self.assertEqual(self.put(b"x", partition), Answer(500, 1, text))

    def test_unknown_topic(self) -> None:
        """A topic that is not configured is answered 500, whatever the partition."""
        for partition in (0, -1, -2):
            detail = "The server do not accept topic nope"
            text = self.failed(partition, detail, "nope")
            answer = self.ask(put_request("nope", partition, b"x"))
            self.assertEqual(answer, Answer(500, 1, text))

    def test_closed(self) -> None:
        """A closed partition is answered 403, and nothing is stored."""
        self.close_partition(2)
        text = self.failed(2, "partition[5-2] has been closed")
        self.assertEqual(self.put(b"x", 2), Answer(403, 1, text))
        self.assertEqual(self.offset(0, 2), self.missing(2))

    def test_byte_for_byte(self) -> None:
        """Flag, attribute and body come back as they were sent."""
        payloads = [
            (1, b"\0\0\0\3tagbody"),
            (1, b"\0\0\0\0no attribute"),
            (1, b"a wrong attribute"),
            (INT_MIN, bytes(range(256))),
            (-1, b"\r\nput x 0\r\n"),
        ]
        for flag, payload in payloads:
            self.stored(payload, flag=flag)
        read = list(whole_records(self.get(0, 4000).body, 0))
        self.assertEqual([(one.flag, one.payload) for one in read], payloads)

    def test_empty_body(self) -> None:
        """A message without a body is a record of 20 bytes with the checksum 0."""
        message_id = self.stored(b"")[0]
        self.assertEqual(self.get(0, 1000).body, HEADER.pack(0, 0, message_id, 0))

    def test_record(self) -> None:
        """A record has length, checksum, the id that was answered, flag and payload."""
        message_id = self.stored(b"hello", flag=6)[0]
        head = HEADER.pack(5, checksum(b"hello"), message_id, 6)
        self.assertEqual(self.get(0, 1000).body, head + b"hello")

    def test_transactions(self) -> None:
        """A put within a transaction finds that it has not been started."""
        for key, kind in (("TX:s1:1", "Local"), ("XID:1:0a:0b:uq", "XA")):
            request = f"put {self.topic} 0 1 0 {key} 9\r\nx"
            text = f"{kind} transaction '{key}' has not been started."
            self.assertEqual(self.ask(request.encode()), Answer(500, 9, text.encode()))
        self.assertEqual(self.offset(0), self.missing(0))

    def test_unsupported(self) -> None:
        """Verbs of transactions are answered 500, END not at all, `sync` 503."""
        peer = self.connect()
        for kind, verb in (
            ("BEGIN", b"beginTransaction"),
            ("PREPARE", b"prepareTransaction"),
            ("COMMIT_ONE_PHASE", b"commitTransaction"),
            ("COMMIT_TWO_PHASE", b"commitTransaction"),
            ("ROLLBACK", b"rollbackTransaction"),
            ("RECOVER", b"getPreparedTransactions"),
            ("FORGET", b"forgetTransaction"),
        ):
            request = f"transaction TX:s1:1 s1 {kind} 9\r\n".encode()
            text = b"Unsupported " + verb
            self.assertEqual(self.ask(request, peer), Answer(500, 9, text))
        peer.send(b"transaction TX:s1:1 s1 END 8\r\n")
        self.assertTrue(peer.is_silent())
        sync = b"sync %s 0 1 0 123 -1 5\r\nx" % self.topic.encode()
        self.assertEqual(self.ask(sync)[:2], (503, 5))


class GetContract(BrokerCase):
    """Messages go out."""

    def hellos(self, count: int = 3) -> bytes:
        """Store so many messages of 25 bytes; the whole partition."""
        for _ in range(count):
            self.stored(b"hello")
        return self.get(0, 4000).body

    def test_several(self) -> None:
        """One answer carries all the records that fit, byte by byte those stored."""
        data = self.hellos()
        self.assertEqual(len(data), 75)
        self.assertEqual(self.get(25, 50).body, data[25:])

    def test_partial(self) -> None:
        """An answer ends at maxSize, in a record or even in its header."""
        data = self.hellos()
        for size in (1, 20, 40, 74):
            self.assertEqual(self.get(0, size), Answer(0, 9, data[:size]))

    def test_within_a_record(self) -> None:
        """A get may begin within a record."""
        data = self.hellos()
        self.assertEqual(self.get(3, 40).body, data[3:43])

    def test_at_the_end(self) -> None:
        """At the end and past it there is nothing: 404."""
        self.hellos()
        for offset in (75, 76, ASK_FOR_END - 1):
            text = b"Could not find message at position %d" % offset
            self.assertEqual(self.get(offset, 100), Answer(404, 9, text))

    def test_moved(self) -> None:
        """301 says where to go on from before the start, and where the end is."""
        self.hellos()
        self.assertEqual(self.get(-1, 100), Answer(301, 9, b"0"))
        self.assertEqual(self.get(ASK_FOR_END, 100), Answer(301, 9, b"75"))

    def test_max_size(self) -> None:
        """A maxSize of 0 or less is answered 400."""
        self.hellos(1)
        for size in (0, -7):
            text = b"Bad request,invalid max size:%d" % size
            self.assertEqual(self.get(0, size), Answer(400, 9, text))

    def test_missing(self) -> None:
        """404 where nothing is stored, whatever else is wrong."""
        self.hellos(1)
        self.assertEqual(self.get(0, 0, 1), self.missing(1))
        self.assertEqual(self.get(0, 100, -1), self.missing(-1))
        self.assertEqual(self.get(0, 100, 0, "nope"), self.missing(0, "nope"))

    def test_closed(self) -> None:
        """A closed partition is answered 403, empty or not; `offset` goes on."""
        self.hellos(1)
        self.close_partition(0)
        self.close_partition(1)
        text = b"Partition[5-%d] has been closed"
        self.assertEqual(self.get(0, 100), Answer(403, 9, text % 0))
        self.assertEqual(self.get(0, 100, 1), Answer(403, 9, text % 1))
        self.assertEqual(self.offset(99), Answer(200, 9, b"25"))

    def test_segments(self) -> None:
        """No answer goes past a segment's end, and `offset` says where one begins."""
        for _ in range(4):
            self.stored(bytes(1500))
        self.assertEqual(len(self.get(0, 100_000).body), 4560)
        self.assertEqual(len(self.get(4550, 100_000).body), 10)
        self.assertEqual(len(self.get(4560, 100_000).body), 1520)
        asked = (-1, 0, 4559, 4560, 5000, 6080, 99_999_999)
        answers = [int(self.offset(one).body) for one in asked]
        self.assertEqual(answers, [0, 0, 0, 4560, 4560, 6080, 6080])

    def test_full_segment(self) -> None:
        """A segment that is exactly full is followed by the next."""
        self.stored(bytes(SEGMENT_BYTES - HEADER.size))
        self.stored(b"x")
        self.assertEqual(len(self.get(0, 100_000).body), SEGMENT_BYTES)
        self.assertEqual(self.offset(SEGMENT_BYTES + 1).body, b"4096")

    def test_offset(self) -> None:
        """`offset` is answered 404 where nothing is stored."""
        self.hellos(1)
        self.assertEqual(self.offset(0, 1), self.missing(1))
        self.assertEqual(self.offset(0, 0, "nope"), self.missing(0, "nope"))

    def test_large(self) -> None:
        """A message above the limit of an answer comes whole to who asks for so much,
        and cut to others."""
        body = bytes(2_000_000)
        self.stored(body)
        self.assertEqual(self.get(0, 4_000_000).body[20:], body)
        self.assertEqual(len(self.get(0, 1_500_000).body), MAX_TRANSFER_BYTES)
        self.assertEqual(len(self.get(10, 1_500_000).body), MAX_TRANSFER_BYTES)
