"""Walking damaged segments: every whole record is found, no damaged one is taken."""

from __future__ import annotations

import random
from collections.abc import Callable

from attrs import frozen
from hypothesis import assume, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.scan import IdBounds, Scan, is_record, scan
from metatwist.wire.records import encode, pack_header
from tests.storage.log_tools import payload, wall_id

STEP_BYTES = 256 * 1024


def reader(data: bytes) -> Callable[[int, int], bytes]:
    """A file with this content."""
    return lambda position, size: data[position : position + size]


def walk(data: bytes, begin: int = 0) -> Scan:
    """A scan of a file with this content."""
    return scan(reader(data), begin, len(data), STEP_BYTES)


def record(number: int, size: int) -> bytes:
    """A record with a payload of random bytes."""
    return encode(wall_id(1_700_000_000_000 + number), 0, payload(number, size))


@frozen
class Damaged:
    """Records of a file, and which of them are damaged."""

    pieces: list[bytes]
    damaged: list[bool]

    @property
    def data(self) -> bytes:
        """The file."""
        return b"".join(self.pieces)

    def good_ranges(self) -> list[tuple[int, int]]:
        """The runs of undamaged records."""
        found: list[tuple[int, int]] = []
        position = 0
        for piece, damaged in zip(self.pieces, self.damaged, strict=True):
            end = position + len(piece)
            if not damaged:
                if found and found[-1][1] == position:
                    found[-1] = found[-1][0], end
                else:
                    found.append((position, end))
            position = end
        return found


def found_ranges(found: Scan) -> list[tuple[int, int]]:
    """What a scan leaves readable."""
    position, ranges = 0, []
    for begin, end in found.bad:
        if begin > position:
            ranges.append((position, begin))
        position = end
    if found.end > position:
        ranges.append((position, found.end))
    return ranges


@st.composite
def damaged_files(draw: st.DrawFn) -> Damaged:
    """Records with payloads, some of which have bytes of length or payload changed.

    Zeros and a torn record are not drawn together: eight zero bytes and twelve of a
    torn header are an empty message, and nothing in the format says that they are not.
    """
    kinds = "flip", "garble", "length", draw(st.sampled_from(("zero", "torn")))
    sizes = draw(st.lists(st.integers(1, 400), min_size=1, max_size=30))
    pieces = [record(number, size) for number, size in enumerate(sizes)]
    damaged = [draw(st.booleans()) for _ in pieces]
    rest = b""
    for number in reversed(range(len(pieces))):
        if damaged[number]:
            how = draw(st.sampled_from(kinds))
            pieces[number] = hurt(draw, pieces[number], how, rest)
        rest = pieces[number] + rest
    return Damaged(pieces, damaged)


def hurt(draw: st.DrawFn, whole: bytes, how: str, rest: bytes) -> bytes:
    """Flip, zero, or garble a part that the checksum covers, or the length.

    `rest` is what follows in the file.
    """
    data = bytearray(whole)
    at = draw(st.integers(20, len(data) - 1))
    if how == "flip":
        data[at] ^= 1 << draw(st.integers(0, 7))
    elif how == "zero":
        data[:] = bytes(len(data))
    elif how == "garble":
        data[:] = random.Random(at).randbytes(len(data))
    elif how == "length":
        data[draw(st.integers(0, 3))] ^= 1 << draw(st.integers(0, 7))
    else:
        del data[draw(st.sampled_from(torn_places(whole, rest))) :]
    return bytes(data)


def torn_places(whole: bytes, rest: bytes) -> list[int]:
    """Where a record can be cut off and stay torn, whatever `rest` begins with.

    Fewer than 8 bytes may be nothing but the zeros at the front of a length. And when
    what follows happens to continue the payload as it was, the record is whole again:
    id and flag are in no checksum, so for a short payload one byte is enough.
    """
    return [
        at
        for at in range(8, len(whole))
        if (whole[:at] + rest)[20 : len(whole)] != whole[20:]
    ]


class DamageTests(SynchronousTestCase):
    """Any damage to any records."""

    @given(damaged_files())
    def test_all_good_records_and_no_other(self, file: Damaged) -> None:
        """Whatever happened to its neighbours, a whole record stays readable."""
        found = walk(file.data)
        self.assertEqual(found_ranges(found), file.good_ranges())
        self.assertEqual(found.messages, file.damaged.count(False))

    @given(damaged_files(), st.data())
    def test_from_any_record_on(self, file: Damaged, data: st.DataObject) -> None:
        """A walk from a good record finds what a walk from the start finds there."""
        assume(not all(file.damaged))
        begin, end = data.draw(st.sampled_from(file.good_ranges()))
        found = walk(file.data, begin)
        self.assertEqual(
            [one for one in found_ranges(found) if one[1] > end],
            [one for one in file.good_ranges() if one[1] > end],
        )

    @given(st.binary(max_size=2000))
    def test_any_bytes(self, data: bytes) -> None:
        """Arbitrary bytes never break a walk, and ranges are in order and disjoint."""
        found = walk(data)
        edges = [0, *(edge for pair in found.bad for edge in pair), found.end]
        self.assertEqual(edges, sorted(edges))
        self.assertLessEqual(found.end, len(data))

    @given(st.integers(0, 4000), st.integers(1, 50))
    def test_zeros_are_no_messages(self, zeros: int, size: int) -> None:
        """A tail of zeros is no record, however long (D-6)."""
        whole = record(1, size)
        found = walk(whole + bytes(zeros))
        self.assertEqual((found.end, found.messages), (len(whole), 1))

    def test_id_zero(self) -> None:
        """An empty record with id 0 is no message, whatever its flag: no broker gives
        that id."""
        whole = record(1, 5)
        found = walk(whole + encode(0, 7, b"") + record(2, 5))
        self.assertEqual((found.messages, len(found.bad)), (2, 1))
        self.assertEqual(walk(encode(0, 7, b"x")).messages, 1)

    @given(st.integers(20, 400), st.integers(1, 400))
    def test_zeros_in_the_middle(self, zeros: int, size: int) -> None:
        """Zeros between records are a bad range, and the record behind is found."""
        first, last = record(1, size), record(2, size)
        found = walk(first + bytes(zeros) + last)
        self.assertEqual(found.bad, [(len(first), len(first) + zeros)])
        self.assertEqual(found.messages, 2)


class LimitTests(SynchronousTestCase):
    """What is not found again after damage, and what a walk costs."""

    broken = b"\xff" * 20

    def test_empty_record_behind_damage(self) -> None:
        """Right behind damage an empty record counts when a full one follows it, or
        seven more empty ones: eight zero bytes alone may be anything."""
        empty = record(1, 0)
        self.assertEqual(walk(self.broken + empty).messages, 0)
        self.assertEqual(walk(self.broken + empty + record(2, 1)).messages, 2)
        self.assertEqual(walk(self.broken + empty * 7).messages, 0)
        self.assertEqual(walk(self.broken + empty * 8).messages, 8)

    def test_empty_records_without_damage(self) -> None:
        """Empty messages are messages; thousands in a row as well."""
        self.assertEqual(walk(record(1, 0) * 5000).messages, 5000)
        self.assertEqual(walk(self.broken + record(1, 0) * 5000).messages, 5000)

    def test_large_record_behind_damage(self) -> None:
        """A record of more than 256 KiB is found behind damage when the file ends with
        it, or something like a header follows."""
        large = record(1, 300_000)
        self.assertEqual(walk(self.broken + large).messages, 1)
        self.assertEqual(walk(self.broken + large + record(2, 10)).messages, 2)
        self.assertEqual(walk(self.broken + large + self.broken).messages, 0)

    def test_too_large_record_behind_damage(self) -> None:
        """A record of 16 MiB is not looked for behind damage; the next one is found."""
        size = 1 << 24
        huge, small = record(1, size), record(2, 10)
        self.assertEqual(walk(huge + small).messages, 2)
        self.assertEqual(walk(self.broken + huge + small).messages, 1)

    def test_reading_stays_bounded(self) -> None:
        """Megabytes of random bytes make a walk read a few times as much, not thousands
        of times: each of them may be the start of a record."""
        data = random.Random(3).randbytes(8 << 20) + record(1, 10)
        asked = 0

        def read(position: int, size: int) -> bytes:
            nonlocal asked
            asked += size
            return data[position : position + size]

        found = scan(read, 0, len(data), STEP_BYTES)
        self.assertEqual(found.messages, 1)
        self.assertLess(asked, 8 * len(data))

    def test_a_flipped_id_is_not_seen(self) -> None:
        """Id and flag are in no checksum: the format cannot tell (spec 4)."""
        data = bytearray(record(1, 10))
        data[9] ^= 1
        self.assertEqual(walk(bytes(data)).messages, 1)

    def test_negative_length(self) -> None:
        """A length below zero is damage and moves nothing backwards."""
        data = pack_header(-5, 0, 1, 0) + record(1, 10)
        self.assertEqual(walk(data).bad, [(0, 20)])

    def test_pause_before_each_read(self) -> None:
        """A walk in the background gives way before each read of the disk."""
        pauses: list[int] = []
        data = record(1, 100_000) * 10
        scan(reader(data), 0, len(data), STEP_BYTES, lambda: pauses.append(1))
        self.assertGreaterEqual(len(pauses), len(data) // (256 * 1024))


class MarkTests(SynchronousTestCase):
    """What a walk notes for the time index."""

    def test_marks(self) -> None:
        """The first record and then one each step is marked, at its own start."""
        one = record(1, 100_000 - 20)
        found = walk(one * 10)
        self.assertEqual(
            [position for _, position in found.marks], [0, 300_000, 600_000, 900_000]
        )

    def test_is_record(self) -> None:
        """Only at the start of a whole record there is one."""
        data = record(1, 50) + record(2, 50)
        self.assertEqual(
            [at for at in range(len(data)) if is_record(reader(data), at, len(data))],
            [0, 70],
        )


class RecordInPayloadTests(SynchronousTestCase):
    """Messages may hold whole records: somebody ships a segment, for instance."""

    newest = 1661382015569645568

    def torn(self, inner_id: int) -> tuple[bytes, int]:
        """A good record and a torn one with a record inside; where the first ends."""
        first = encode(self.newest, 0, b"hello")
        payload = b"A" * 100 + encode(inner_id, 0, b"phantom") + b"B" * 1000
        outer = encode(self.newest + 1, 0, payload)
        return first + outer[:-500], len(first)

    def test_older_record_inside_a_torn_one(self) -> None:
        """A record within a torn payload is no message: its id is the older one."""
        for inner_id in (5, self.newest - 1, self.newest + 1):
            data, end = self.torn(inner_id)
            found = self.scan(data, highest=self.newest + 1)
            self.assertEqual((found.end, found.messages, found.bad), (end, 1, []))

    def test_an_id_from_the_future_counts_for_nothing(self) -> None:
        """A damaged id, later than the file, does not hide the good records behind."""
        good = encode(self.newest + 2, 0, b"after")
        cut = encode(self.newest + 1, 0, b"x" * 400)[:10] + b"\x7f" * 21
        for before in (encode(self.newest, 0, b"hello"), encode(1 << 62, 0, b"bent")):
            data = before + cut + good + b"\x7f" * 9
            found = self.scan(data, highest=self.newest + 2)
            self.assertEqual(found.bad, [(len(before), len(before) + len(cut))])
            self.assertEqual(found.messages, 2)

    def scan(self, data: bytes, last: int = 0, highest: int = 0) -> Scan:
        """Walk all of `data`."""
        ids = IdBounds(last, highest)
        return scan(reader(data), 0, len(data), STEP_BYTES, None, ids)

    def test_later_records_are_found(self) -> None:
        """What follows a damaged record has higher ids and stays readable."""
        data, end = self.torn(5)
        follower = encode(self.newest + 2, 0, b"after")
        data += follower
        found = self.scan(data, highest=self.newest + 2)
        self.assertEqual(found.bad, [(end, len(data) - len(follower))])
        self.assertEqual(found.last_id, self.newest + 2)

    def test_ids_before_the_walk_count(self) -> None:
        """The walk knows the newest id before its beginning."""
        data = b"\x01" * 30 + encode(self.newest - 1, 0, b"phantom")
        found = self.scan(data, last=self.newest)
        self.assertEqual((found.end, found.messages), (0, 0))
