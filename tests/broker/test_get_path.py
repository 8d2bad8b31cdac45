"""Gets and offsets: which bytes, which code, and that files are given back."""

from __future__ import annotations

import errno
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.files import FileOps
from tests.support.broker_parts import INI, BrokerParts, get, opaques, put

LARGEST = 9223372036854775807
SMALL_TRANSFER = {
    "METATWIST_SYSTEM_maxTransferSize": "100",
    "METATWIST_METATWIST_maxMessageBytes": "300",
}


class FailingDisk(FileOps):
    """A disk whose reads or read-ahead fail when told so."""

    failing = ""

    def _check(self, call: str) -> None:
        if self.failing == call:
            raise OSError(errno.EIO, "Input/output error")

    def read(self, fd: int, position: int, size: int) -> bytes:
        """See FileOps."""
        self._check("read")
        return super().read(fd, position, size)

    def will_need(self, fd: int, position: int, size: int) -> None:
        """See FileOps."""
        self._check("will_need")
        super().will_need(fd, position, size)


class GetCase(SynchronousTestCase):
    """A broker with three messages of 25 bytes each in test-0."""

    environ: dict[str, str] = {}

    def setUp(self) -> None:
        """Store them."""
        self.files = FailingDisk()
        self.parts = BrokerParts(self, environ=self.environ, files=self.files)
        self.peer = self.parts.connect()
        self.peer.ask(*(put(b"hello") for _ in range(3)))

    def answer(self, offset: int, size: int = 1000) -> bytes:
        """What a get is answered, with opaque 1."""
        return self.peer.ask(get(offset, size=size))

    def value(self, offset: int, size: int = 1000) -> bytes:
        """The bytes that a get is answered with."""
        header, _, body = self.answer(offset, size).partition(b"\r\n")
        self.assertEqual(header, b"value %d 1" % len(body))
        return body


class RangeTests(GetCase):
    """Which bytes come."""

    def test_slices(self) -> None:
        """Every offset and size give that slice of the partition."""
        whole = self.value(0)
        self.assertEqual(len(whole), 75)
        for offset in range(0, 75, 7):
            for size in (1, 19, 25, 60, 1000):
                expected = whole[offset : offset + size]
                self.assertEqual(self.value(offset, size), expected)

    def test_codes_around_the_log(self) -> None:
        """Before the start 301, at and past the end 404, and the end on demand."""
        for offset, begin in (
            (-1, b"result 301 1 1\r\n0"),
            (-LARGEST - 1, b"result 301 1 1\r\n0"),
            (75, b"result 404 "),
            (76, b"result 404 "),
            (LARGEST - 1, b"result 404 "),
            (LARGEST, b"result 301 2 1\r\n75"),
        ):
            self.assertTrue(self.answer(offset).startswith(begin), offset)

    def test_sizes_that_are_none(self) -> None:
        """A size of 0 or less is 400."""
        for size in (0, -1, -(1 << 31)):
            self.assertTrue(self.answer(0, size).startswith(b"result 400 "))

    def test_busy_partition(self) -> None:
        """A partition that is being moved away is missing for the time."""
        self.parts.topics.busy["test", 0] = "moving"
        self.assertTrue(self.answer(0).startswith(b"result 404 "))

    def test_counts(self) -> None:
        """Gets, misses, moves and bytes are counted."""
        for offset in (0, 75, -1, LARGEST):
            self.answer(offset)
        self.peer.ask(get(0, topic="nope"))
        numbers = self.parts.numbers
        self.assertEqual((numbers.cmd_get, numbers.get_miss), (5, 4))
        self.assertEqual((numbers.cmd_offset, numbers.bytes_out), (2, 75))
        self.assertEqual(numbers.partition("test", 0).gets, 1)
        self.assertNotIn("nope", numbers.topics)


class UpdatingTests(GetCase):
    """With updateConsumerOffsets."""

    environ = {"METATWIST_SYSTEM_updateConsumerOffsets": "true"}

    def test_past_the_end(self) -> None:
        """Past the end, not at it, a consumer is sent to the end."""
        self.assertTrue(self.answer(75).startswith(b"result 404 "))
        self.assertEqual(self.answer(76), b"result 301 2 1\r\n75")


class LargeRecordTests(GetCase):
    """Records above maxTransferSize, which is 100 here, and below the bound, 300."""

    environ = SMALL_TRANSFER

    def setUp(self) -> None:
        """A record of 220 bytes from 75 to 295, and one more."""
        super().setUp()
        self.peer.ask(put(b"A" * 200), put(b"hello"))

    def test_many_small_records(self) -> None:
        """Small records are cut at the limit, whatever the consumer asks for."""
        self.assertEqual(len(self.value(0, 1000)), 100)

    def test_large_record_is_whole(self) -> None:
        """A large record comes whole, and alone, to who asks for enough."""
        self.assertEqual(self.value(75, 1000)[20:], b"A" * 200)
        self.assertEqual(len(self.value(75, 220)), 220)

    def test_consumer_that_asks_for_less(self) -> None:
        """Who asks for less gets no more than the limit."""
        self.assertEqual(len(self.value(75, 219)), 100)
        self.assertEqual(len(self.value(75, 50)), 50)

    def test_offset_inside_a_record(self) -> None:
        """Bytes inside a record are not taken for a length."""
        self.assertEqual(len(self.value(100, 1000)), 100)


class FailureTests(GetCase):
    """The disk fails under a get."""

    def assert_answered_500(self) -> None:
        """A 500 in the words of a put, as the original has it."""
        answer = self.answer(0)
        self.assertTrue(answer.startswith(b"result 500 "), answer)
        self.assertIn(b"[partition 'test-0'] failed.Detail:", answer)

    def test_file_cannot_be_opened(self) -> None:
        """A segment that cannot be opened is answered 500, and the next get works."""
        log = self.parts.catalog.logs["test", 0]
        with mock.patch.object(log, "open", side_effect=OSError("no such file")):
            self.assert_answered_500()
        self.assertEqual(len(self.value(0)), 75)
        self.assertEqual(self.parts.numbers.get_failed, 1)

    def test_file_cannot_be_read(self) -> None:
        """A read that fails on the way out is answered 500."""
        self.files.failing = "read"
        self.assert_answered_500()

    def test_files_are_given_back(self) -> None:
        """No get keeps a file, answered or failed."""
        log = self.parts.catalog.logs["test", 0]
        self.peer.ask(put(b"x" * 3000), put(b"x" * 3000), put(b"x" * 3000))
        file = log.open(log.segments[0])
        for failing in ("", "read", "will_need"):
            self.files.failing = failing
            self.answer(0, 100)
            self.answer(0, 30)
            self.assertEqual(file.holders, 1, failing)
        file.release()

    def test_partition_that_could_not_be_loaded(self) -> None:
        """It is answered 500 with the reason, which is not 404."""
        self.parts.catalog.failed["test", 0] = "the file is not readable"
        del self.parts.catalog.logs["test", 0]
        answer = self.answer(0)
        self.assertTrue(answer.startswith(b"result 500 "))
        self.assertTrue(answer.endswith(b"Detail:the file is not readable"))


class OffsetTests(GetCase):
    """The `offset` command."""

    def offset(self, offset: int, partition: int = 0, topic: str = "test") -> bytes:
        """What it is answered."""
        request = f"offset {topic} g {partition} {offset} 1\r\n"
        return self.peer.ask(request.encode())

    def test_ends(self) -> None:
        """Before the start the start, from the end on the end, between a start."""
        for offset, expected in ((-5, b"0"), (0, b"0"), (74, b"0"), (75, b"75")):
            self.assertTrue(self.offset(offset).endswith(b"\r\n" + expected))
        self.assertTrue(self.offset(LARGEST).endswith(b"\r\n75"))

    def test_missing(self) -> None:
        """Without a store it is 404."""
        self.assertTrue(self.offset(0, partition=1).startswith(b"result 404 "))
        self.assertTrue(self.offset(0, topic="nope").startswith(b"result 404 "))

    def test_unacknowledged_end(self) -> None:
        """Nothing beyond what is on disk is reported."""
        self.peer.send(put(b"hello"))
        self.parts.turn()
        other = self.parts.connect()
        other.send(b"offset test g 0 1000 1\r\n")
        self.assertTrue(other.taken().endswith(b"\r\n75"))

    def test_closed_partition(self) -> None:
        """A closed partition answers `offset`, and no get."""
        self.parts.topics.closed.add(("test", 0))
        self.assertTrue(self.offset(0).startswith(b"result 200 "))
        self.assertTrue(self.answer(0).startswith(b"result 403 "))


FILTERS = """\
class Starts:
    def __init__(self):
        self.groups = set()
    def accept(self, group, record):
        self.groups.add(group)
        return record.body.startswith(b"A") and group == "ga"

def tagged(group, record):
    return record.attribute == "tag"

class Broken:
    def __init__(self):
        raise RuntimeError("this filter cannot be made")

number = 5
"""
FILTER_INI = INI.replace(
    "[topic=lazy]",
    "group.ga=get_path_filters.Starts\ngroup.gt=get_path_filters.tagged\n"
    "group.gb=get_path_filters.Broken\ngroup.gn=get_path_filters.number\n"
    "group.gm=no_such_module.accept\n[topic=lazy]",
)


class FilterTests(SynchronousTestCase):
    """Filters between the log and a group (spec wire-protocol 7.10)."""

    def setUp(self) -> None:
        """Filters in the broker's own folder."""
        self.parts = BrokerParts(self, FILTER_INI)
        (self.parts.filter_dir / "get_path_filters.py").write_text(FILTERS)
        self.peer = self.parts.connect()

    def get(self, group: str, offset: int = 0, size: int = 1000) -> bytes:
        """What a get of a group is answered."""
        return self.peer.ask(f"get test {group} 0 {offset} {size} 1\r\n".encode())

    def test_offsets_add_up(self) -> None:
        """A consumer that follows the answers sees every accepted record once."""
        bodies = [b"B1", b"A1", b"A2", b"B2", b"B3", b"A3", b"B4"]
        self.peer.ask(*(put(body) for body in bodies))
        offset, seen = 0, b""
        for _ in range(10):
            header, _, body = self.get("ga", offset).partition(b"\r\n")
            if header.startswith(b"result 301 "):
                offset = int(body)
            elif header.startswith(b"value "):
                offset += len(body)
                seen += body
            else:
                break
        self.assertEqual(offset, 7 * 22)
        self.assertEqual([seen[20:22], seen[42:44], seen[64:66]], [b"A1", b"A2", b"A3"])
        self.assertEqual(len(seen), 66)

    def test_other_groups_are_not_filtered(self) -> None:
        """A group without a filter gets everything."""
        self.peer.ask(put(b"B1"))
        self.assertTrue(self.get("other").startswith(b"value 22 "))

    def test_attribute(self) -> None:
        """A filter sees attribute and body."""
        self.peer.ask(b"put test 0 8 1 -1 1\r\n\0\0\0\3tagx")
        self.assertTrue(self.get("gt").startswith(b"value 28 "))

    def test_less_than_a_record(self) -> None:
        """Less than one record is sent as it is, so that the consumer asks for more."""
        self.peer.ask(put(b"B1"))
        self.assertTrue(self.get("ga", size=21).startswith(b"value 21 "))

    def test_damaged_record(self) -> None:
        """Damage is answered 500 where it begins, and ends the run before it."""
        self.peer.ask(put(b"A1"), put(b"A2"))
        log = self.parts.catalog.logs["test", 0]
        with open(log.segments[0].path, "r+b") as file:
            file.seek(22 + 21)
            file.write(b"?")
        self.assertTrue(self.get("ga").startswith(b"value 22 "))
        self.assertTrue(self.get("ga", 22).startswith(b"result 500 "))

    def test_filters_that_cannot_be_used(self) -> None:
        """A filter that is missing, broken or no filter at all is answered 500."""
        self.peer.ask(put(b"A1"))
        for group, reason in (
            ("gm", b"no_such_module"),
            ("gb", b"this filter cannot be made"),
            ("gn", b"is not callable"),
        ):
            answer = self.get(group)
            self.assertTrue(answer.startswith(b"result 500 "), answer)
            self.assertIn(reason, answer)

    def test_broken_filter_behind_a_put(self) -> None:
        """A get that fails behind a put is answered too, and what follows it."""
        request = b"get test gb 0 0 1000 2\r\n"
        data = self.peer.ask(put(b"A1"), request, get(0, 3))
        self.assertEqual(opaques(data), [1, 2, 3])

    def test_no_folder(self) -> None:
        """Without a folder of filters none is active, as in the original."""
        parts = BrokerParts(
            self, FILTER_INI, {"METATWIST_SYSTEM_appClassPath": "/nowhere"}
        )
        peer = parts.connect()
        peer.ask(put(b"B1"))
        answer = peer.ask(b"get test ga 0 0 1000 1\r\n")
        self.assertTrue(answer.startswith(b"value 22 "))
