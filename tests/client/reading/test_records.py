"""Records out of the bodies of answers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.reading.records import (
    SCANNED_BYTES,
    Ending,
    damaged_bytes,
    read_records,
)
from metatwist.wire.records import HEADER_BYTES, encode, pack_header
from metatwist.wire.reply_reader import ValueChunks
from tests.client.reading.fakes import log_of, partition, payloads

MOST = 1000
BODIES = (b"hello", b"", b"x" * 40)
LOG = log_of(*BODIES)
ENDS = (25, 45, 105)


def read(data: bytes, offset: int = 0, most: int = MOST):
    return read_records(ValueChunks.of(0, data), partition(), offset, most)


def in_chunks(data: bytes, cuts: list[int]) -> ValueChunks:
    """A body cut at these places, with something before and behind it."""
    edges = sorted({0, len(data), *(cut for cut in cuts if 0 < cut < len(data))})
    chunks = [data[start:end] for start, end in pairwise(edges)] or [b""]
    end = len(chunks[-1]) + (2 if len(chunks) == 1 else 0)
    chunks[0] = b"ab" + chunks[0]
    chunks[-1] += b"next"
    return ValueChunks(0, chunks, 2, end)


class ChunksTests(SynchronousTestCase):
    """Bodies that came in pieces."""

    @given(
        bodies=st.lists(st.binary(max_size=60), max_size=6),
        tail=st.binary(max_size=70),
        cuts=st.lists(st.integers(0, 500), max_size=12),
        most=st.sampled_from([10, 30, 1000]),
    )
    def test_any_pieces(
        self, bodies: list[bytes], tail: bytes, cuts: list[int], most: int
    ) -> None:
        """In whatever pieces a body came, it holds the same, tail and damage too."""
        data = log_of(*bodies) + tail
        cut = in_chunks(data, cuts)
        self.assertEqual((cut.body, cut.size_bytes), (data, len(data)))
        whole = read(data, 77, most)
        self.assertEqual(read_records(cut, partition(), 77, most), whole)

    @given(st.data())
    def test_damaged_pieces(self, draw: st.DataObject) -> None:
        """A flipped bit is found in the same place in pieces as in one."""
        at = draw.draw(st.integers(0, len(LOG) - 1))
        flipped = LOG[at] ^ (1 << draw.draw(st.integers(0, 7)))
        data = LOG[:at] + bytes([flipped]) + LOG[at + 1 :]
        cuts = draw.draw(st.lists(st.integers(0, len(LOG)), max_size=5))
        pieces = read_records(in_chunks(data, cuts), partition(), 0, MOST)
        self.assertEqual(pieces, read(data))


class WholeTests(SynchronousTestCase):
    """Bodies of which all can be read."""

    def test_messages(self) -> None:
        """Each message carries its place, id, flag and payload, absolutely."""
        data = encode(7, 0, b"one") + encode(-8, -2147483648, b"")
        first, second = read(data, 1000).messages
        self.assertEqual(first, (*partition(), 1000, 1023, 7, 0, b"one"))
        self.assertEqual(second, (*partition(), 1023, 1043, -8, -2147483648, b""))
        self.assertEqual(first.topic, "orders")
        self.assertIsNone(first.attribute)

    def test_complete(self) -> None:
        """A body of whole records ends complete, where its bytes end."""
        run = read(LOG, 500)
        self.assertEqual(payloads(run.messages), list(BODIES))
        self.assertEqual(run[1:], (605, Ending.COMPLETE, None))

    def test_empty(self) -> None:
        """Of no bytes there are no messages."""
        self.assertEqual(read(b"", 5), ([], 5, Ending.COMPLETE, None))


class CutTests(SynchronousTestCase):
    """Bodies that end within a record."""

    def test_every_cut(self) -> None:
        """Wherever a body is cut, the whole records in front come, and the rest is
        said to need what its header says."""
        for cut in range(len(LOG)):
            run = read(LOG[:cut], 100)
            whole = [end for end in ENDS if end <= cut]
            begin = whole[-1] if whole else 0
            self.assertEqual(payloads(run.messages), list(BODIES[: len(whole)]))
            self.assertEqual(run.next_offset, 100 + begin)
            if cut == begin:
                self.assertIs(run.ending, Ending.COMPLETE)
                continue
            self.assertIs(run.ending, Ending.PARTIAL)
            needed = ENDS[len(whole)] - begin if cut - begin >= HEADER_BYTES else None
            self.assertEqual(run.record_bytes, needed)

    def test_every_border(self) -> None:
        """Read in two fetches, cut anywhere, no message is lost or comes twice."""
        for cut in range(len(LOG)):
            first = read(LOG[:cut])
            second = read(LOG[first.next_offset :], first.next_offset)
            both = first.messages + second.messages
            self.assertEqual(both, read(LOG).messages)


class DamageTests(SynchronousTestCase):
    """Bodies with records that are not intact."""

    def test_checksum(self) -> None:
        """A record whose payload does not match ends the run in front of it."""
        bad = LOG[:-1] + b"y"
        run = read(bad, 10)
        self.assertEqual(payloads(run.messages), [b"hello", b""])
        self.assertEqual(run[1:3], (55, Ending.CORRUPT))

    def test_negative_length(self) -> None:
        """A negative length is no record."""
        data = LOG[:25] + pack_header(-1, 0, 1, 0) + b"more"
        self.assertEqual(read(data)[1:], (25, Ending.CORRUPT, None))

    def test_zeros(self) -> None:
        """Twenty zero bytes are no record, an empty message with an id is."""
        self.assertIs(read(bytes(20)).ending, Ending.CORRUPT)
        self.assertEqual(len(read(encode(1, 0, b"")).messages), 1)

    def test_too_large(self) -> None:
        """A payload over the bound is told by its header, there or not."""
        for body in (b"", b"z" * 1001):
            data = LOG[:25] + pack_header(1001, 0, 1, 0) + body
            self.assertEqual(read(data)[1:], (25, Ending.TOO_LARGE, 1021))

    def test_at_the_bound(self) -> None:
        """A payload of exactly the bound comes."""
        self.assertEqual(len(read(encode(1, 0, b"z" * MOST)).messages), 1)

    @example(bit=321)
    @given(st.integers(0, len(LOG) * 8 - 1))
    def test_flipped_bits(self, bit: int) -> None:
        """A flipped bit, but in id or flag, never lets a wrong payload through, and
        never touches the records in front of it. A header of zeros ends them."""
        data = bytearray(LOG)
        data[bit // 8] ^= 1 << bit % 8
        found = payloads(read(bytes(data)).messages)
        hit = sum(end <= bit // 8 for end in ENDS)
        begin = ENDS[hit - 1] if hit else 0
        in_id_or_flag = 8 <= bit // 8 - begin < HEADER_BYTES
        is_kept = in_id_or_flag and any(data[begin : begin + HEADER_BYTES])
        expected = list(BODIES) if is_kept else list(BODIES[:hit])
        self.assertEqual(found, expected)

    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        """Whatever comes, a run ends within it and says how."""
        run = read(data)
        self.assertLessEqual(run.next_offset, len(data))
        if run.ending is Ending.COMPLETE:
            self.assertEqual(run.next_offset, len(data))


class ResyncTests(SynchronousTestCase):
    """How much to pass over."""

    def test_own_length(self) -> None:
        """A record with a bad payload is passed over by its own length."""
        bad = encode(1, 0, b"payload")[:-1] + b"?"
        for behind in (b"", LOG, LOG[:7], LOG[-60:-10]):
            self.assertEqual(damaged_bytes(bad + behind, MOST), len(bad))

    def test_damaged_length(self) -> None:
        """With a damaged length the next intact record is searched for."""
        for length in (-5, 3, 9, MOST):
            bad = pack_header(length, 77, 5, 0) + b"payload"
            self.assertEqual(damaged_bytes(bad + LOG, MOST), len(bad))

    def test_nothing_intact(self) -> None:
        """Where nothing is intact, what was searched is passed over, and never more
        than the first half."""
        self.assertEqual(damaged_bytes(b"\xff" * 20, MOST), 1)
        self.assertEqual(damaged_bytes(bytes(100), MOST), 51)
        self.assertEqual(damaged_bytes(bytes(1 << 20), MOST), SCANNED_BYTES + 1)

    @given(st.binary(min_size=20, max_size=120), st.integers(1, 60))
    def test_never_past_an_intact_record(self, junk: bytes, fetch: int) -> None:
        """Over any junk, searched in pieces, the intact record behind it is found."""
        data = b"\xff\xff\xff\xff" + junk + encode(3, 0, b"found" * 5)
        position = 0
        while not (run := read(data[position:], position)).messages:
            if run.ending is not Ending.CORRUPT:
                return  # the junk looks like a larger record: not for the search
            position += damaged_bytes(data[position : position + 100 + fetch], MOST)
            self.assertLess(position, len(data))
