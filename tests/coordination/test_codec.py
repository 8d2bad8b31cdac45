"""ZooKeeper's records, byte by byte (spec layout 7.2)."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded import codec
from metatwist.coordination.embedded.acl import OPEN
from metatwist.coordination.embedded.codec import ConnectRequest, RecordReader
from metatwist.coordination.embedded.tree import Node
from metatwist.coordination.errors import Marshalling
from metatwist.coordination.interface import EventKind
from tests.coordination.tree_model import Person

Read = Callable[[RecordReader], Any]
ANYONE = b"\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone"
READS: list[tuple[bytes, Read, Any]] = [
    (b"\0\0\0\7", RecordReader.number, 7),
    (b"\xff\xff\xff\xfe", RecordReader.number, -2),
    (b"\0\0\0\1\0\0\0\2", RecordReader.long_number, (1 << 32) + 2),
    (b"\xff" * 8, RecordReader.long_number, -1),
    (b"\0", RecordReader.flag, False),
    (b"\1", RecordReader.flag, True),
    (b"\0\0\0\0", RecordReader.buffer, b""),
    (b"\0\0\0\3\0\1\xff", RecordReader.buffer, b"\0\1\xff"),
    (b"\xff\xff\xff\xff", RecordReader.buffer, None),
    (b"\0\0\0\2\xc3\xa9", RecordReader.string, "\u00e9"),
    (b"\xff\xff\xff\xff", RecordReader.string, None),
    (b"\xff\xff\xff\xff", RecordReader.path, ""),
    (b"\0\0\0\2/a", RecordReader.path, "/a"),
    (b"\0\0\0\0", RecordReader.strings, []),
    (b"\xff\xff\xff\xff", RecordReader.strings, []),
    (b"\0\0\0\2\0\0\0\1a\0\0\0\0", RecordReader.strings, ["a", ""]),
    (b"\0\0\0\1" + ANYONE, RecordReader.acl, [(31, "world", "anyone")]),
    (b"\0\0\0\0", RecordReader.acl, []),
]
MALFORMED: list[tuple[bytes, Read]] = [
    (b"\xff\xff\xff\xfe", RecordReader.buffer),
    (b"\x80\0\0\0", RecordReader.buffer),
    (b"\x7f\xff\xff\xffxx", RecordReader.buffer),
    (b"\0\0\0\3ab", RecordReader.string),
    (b"\0\0\0\1\xff", RecordReader.string),
    (b"\0\0\0\3\xed\xa0\x80", RecordReader.string),
    (b"\x7f\xff\xff\xff", RecordReader.strings),
    (b"\0\0\0\5\0\0\0\0", RecordReader.strings),
    (b"\x7f\xff\xff\xff" + ANYONE, RecordReader.acl),
    (b"\0\0\0\2" + ANYONE, RecordReader.acl),
]


class ReaderTests(SynchronousTestCase):
    """`RecordReader`."""

    def test_values(self) -> None:
        """Each type is read as the protocol writes it, and to its last byte."""
        for data, read, expected in READS:
            reader = RecordReader(b"skipped" + data, 7)
            self.assertEqual(read(reader), expected, data)
            self.assertTrue(reader.exhausted)

    def test_truncated(self) -> None:
        """A value cut at any byte is malformed."""
        for data, read, _ in READS:
            for length in range(len(data)):
                with self.assertRaises(Marshalling, msg=f"{data!r} to {length}"):
                    read(RecordReader(data[:length]))

    def test_malformed(self) -> None:
        """Lengths and counts that lead out of the frame, and text that is no UTF-8, are
        malformed; no memory is taken for what is not there."""
        for data, read in MALFORMED:
            with self.assertRaises(Marshalling, msg=repr(data)):
                read(RecordReader(data))

    @given(st.binary(max_size=60), st.lists(st.sampled_from([one[1] for one in READS])))
    def test_garbage(self, data: bytes, reads: list[Read]) -> None:
        """Any bytes are read, or malformed; nothing else happens."""
        reader = RecordReader(data)
        with contextlib.suppress(Marshalling):
            for read in reads:
                read(reader)

    def test_in_a_row(self) -> None:
        """Values follow each other without a gap."""
        reader = RecordReader(b"\0\0\0\2/a\1\0\0\0\5")
        self.assertEqual(
            (reader.path(), reader.flag(), reader.exhausted, reader.number()),
            ("/a", True, False, 5),
        )


class WriterTests(SynchronousTestCase):
    """What the server writes."""

    def test_values(self) -> None:
        """Each type is written as the protocol has it."""
        for written, expected in (
            (codec.buffer(None), b"\xff\xff\xff\xff"),
            (codec.buffer(b""), b"\0\0\0\0"),
            (codec.buffer(b"\0x"), b"\0\0\0\2\0x"),
            (codec.string("\u00e9"), b"\0\0\0\2\xc3\xa9"),
            (codec.strings({"a": None, "bc": None}), b"\0\0\0\2\0\0\0\1a\0\0\0\2bc"),
            (codec.strings([]), b"\0\0\0\0"),
            (codec.acl(OPEN), b"\0\0\0\1" + ANYONE),
            (codec.number(-8), b"\xff\xff\xff\xf8"),
            (codec.result_header(-1, True, -1), b"\xff" * 4 + b"\1" + b"\xff" * 4),
        ):
            self.assertEqual(written, expected)

    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
    def test_strings_round_trip(self, texts: list[str]) -> None:
        """Lists of any text are read as they were written."""
        self.assertEqual(RecordReader(codec.strings(texts)).strings(), texts)

    @given(st.lists(st.tuples(st.integers(0, 31), st.text("ab:"), st.text("xy"))))
    def test_acl_round_trip(self, entries: list[tuple[int, str, str]]) -> None:
        """ACLs are read as they were written."""
        self.assertEqual(RecordReader(codec.acl(entries)).acl(), entries)

    def test_stat(self) -> None:
        """A stat is 68 bytes: eleven numbers in ZooKeeper's order."""
        node = Node(b"data", OPEN, 1 << 32, 1_800_000_000_000)
        node.mzxid, node.pzxid = 2 << 32, 3 << 32
        node.mtime = node.ctime + 5
        node.version, node.aversion, node.creates = 7, 8, 9
        node.children = {"a": None, "b": None}
        node.owner = Person(0x1234567890ABCDEF)
        stat = codec.stat(node)
        self.assertEqual(len(stat), 68)
        self.assertEqual(
            struct.unpack(">qqqqiiiqiiq", stat),
            (
                1 << 32,
                2 << 32,
                1_800_000_000_000,
                1_800_000_000_005,
                7,
                16,
                8,
                0x1234567890ABCDEF,
                4,
                2,
                3 << 32,
            ),
        )

    def test_stat_of_little(self) -> None:
        """No data has length 0, and no owner is session 0."""
        fields = struct.unpack(">qqqqiiiqiiq", codec.stat(Node(None, OPEN, 1, 2)))
        self.assertEqual(fields, (1, 1, 2, 2, 0, 0, 0, 0, 0, 0, 1))

    def test_reply(self) -> None:
        """A reply is a frame of xid, zxid, error and body."""
        self.assertEqual(
            codec.reply(3, 258, -101),
            b"\0\0\0\x10\0\0\0\3\0\0\0\0\0\0\1\2\xff\xff\xff\x9b",
        )
        self.assertEqual(
            codec.reply(-2, 1, 0, b"body"),
            b"\0\0\0\x14\xff\xff\xff\xfe\0\0\0\0\0\0\0\1\0\0\0\0body",
        )

    def test_event(self) -> None:
        """An event is a reply with xid and zxid -1: kind, state 3 and path."""
        self.assertEqual(
            codec.event(EventKind.CHILDREN, "/a"),
            b"\0\0\0\x1e" + b"\xff" * 12 + b"\0\0\0\0\0\0\0\4\0\0\0\3\0\0\0\2/a",
        )


class ConnectTests(SynchronousTestCase):
    """The first frames of a connection."""

    def setUp(self) -> None:
        self.password = bytes(range(16))
        self.frame = struct.pack(">iqiq", 0, 99, 30_000, 0x1122334455667788)
        self.frame += codec.buffer(self.password) + b"\0"

    def test_request(self) -> None:
        """A request of 45 bytes is read, and so is that of an old client, of 44."""
        self.assertEqual(len(self.frame), 45)
        for frame, has_read_only in ((self.frame, True), (self.frame[:-1], False)):
            self.assertEqual(
                ConnectRequest.read(frame),
                ConnectRequest(
                    30_000, 0x1122334455667788, self.password, has_read_only
                ),
            )

    def test_no_password(self) -> None:
        """A null password reads as an empty one."""
        frame = self.frame[:24] + codec.buffer(None)
        self.assertEqual(ConnectRequest.read(frame).password, b"")

    def test_truncated(self) -> None:
        """A request cut at any byte of what must be there is malformed."""
        for length in range(44):
            with self.assertRaises(Marshalling, msg=str(length)):
                ConnectRequest.read(self.frame[:length])

    def test_answer(self) -> None:
        """An answer has 37 bytes with the read-only flag, 36 for those who do not know
        it."""
        for frame, expected in ((self.frame, 37), (self.frame[:-1], 36)):
            answer = ConnectRequest.read(frame).answer(4000, 5, self.password)
            body = struct.pack(">iiq", 0, 4000, 5) + codec.buffer(self.password)
            self.assertEqual(answer, codec.buffer((body + b"\0")[:expected]))

    def test_refusal(self) -> None:
        """A refusal is all zeros, with a password of 16 bytes."""
        self.assertEqual(
            ConnectRequest.read(self.frame).refusal(),
            b"\0\0\0\x25" + bytes(16) + b"\0\0\0\x10" + bytes(17),
        )
