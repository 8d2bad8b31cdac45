"""Generated commands survive encoding and any cut; garbage never raises."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.wire.commands import (
    GetCommand,
    Message,
    OffsetCommand,
    PollCommand,
    PutCommand,
    ResultReply,
    StatsCommand,
    SyncCommand,
    TransactionCommand,
    ValueReply,
    VersionCommand,
)
from metatwist.wire.reader import MessageReader
from tests.wire.splitting import cut, read

i32 = st.integers(-(1 << 31), (1 << 31) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
body = st.binary(max_size=60)
_letters = st.characters(exclude_characters=" \r\n", exclude_categories=["Cs"])
word = st.text(_letters, min_size=1, max_size=12)
_part = st.text("ab0-", max_size=5)
_hex = st.binary(max_size=3).map(bytes.hex)
key = st.one_of(
    st.just("null"),
    st.builds("TX:{}:{}".format, _part, i32),
    st.builds("XID:{}:{}:{}:{}".format, i32, _hex, _hex, _part),
)
kind = st.sampled_from(["BEGIN", "PREPARE", "COMMIT_TWO_PHASE", "RECOVER", "END"])
qualifier = word.filter(lambda text: not text.isdigit())

message: st.SearchStrategy[Message] = st.one_of(
    st.builds(PutCommand, word, i32, i32, i32, st.none() | key, i32, body),
    st.builds(SyncCommand, word, i32, i32, i64, i32, i32, body),
    st.builds(GetCommand, word, st.just("") | word, i32, i64, i32, i32),
    st.builds(PollCommand, word, st.just("") | word, i32, i64, i32, i32, i32),
    st.builds(OffsetCommand, word, word, i32, i64, i32),
    st.builds(VersionCommand, i32),
    st.builds(StatsCommand, st.just("") | word, i32),
    st.builds(
        TransactionCommand, key, _part, kind, st.none(), st.none() | qualifier, i32
    ),
    st.builds(TransactionCommand, key, _part, kind, i32, qualifier, i32),
    st.builds(ResultReply, i32, i32, body),
    st.builds(ValueReply, i32, body),
)
cuts = st.lists(st.integers(0, 400), max_size=12)
# Bytes that get further into the grammar than plain noise does.
_piece = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            *(
                b"put ",
                b"get ",
                b"poll ",
                b"value ",
                b"result ",
                b"sync ",
                b" ",
                b"\r\n",
            ),
            *(b"\r", b"\n", b"0", b"-1", b"+5", b"12", b"2147483648", b"t"),
            *(b"TX:s:1", b"version"),
        ]
    ),
    message.map(lambda one: one.encode()),
)
noise = st.lists(_piece, max_size=30).map(b"".join)


class RoundTripTests(SynchronousTestCase):
    """What is encoded is read."""

    @given(st.lists(message, max_size=6), cuts)
    def test_round_trip(self, messages: list[Message], at: list[int]) -> None:
        """Any messages are read as they were, wherever the bytes are cut."""
        wire = b"".join(one.encode() for one in messages)
        pieces = cut(wire, [place for place in at if place <= len(wire)])
        self.assertEqual(read(pieces), (messages, False))


class NoiseTests(SynchronousTestCase):
    """Whatever a peer sends."""

    @settings(max_examples=400)
    @given(noise, cuts)
    def test_cuts_make_no_difference(self, wire: bytes, at: list[int]) -> None:
        """Garbage is read alike whole and in pieces, and never raises."""
        pieces = cut(wire, [place for place in at if place <= len(wire)])
        self.assertEqual(read(pieces), read([wire]))

    @settings(max_examples=300)
    @given(noise, cuts)
    def test_memory_is_bounded(self, wire: bytes, at: list[int]) -> None:
        """A reader never keeps more than one header and one body."""
        reader = MessageReader(max_header_bytes=40, max_body_bytes=30)
        for piece in cut(wire, [place for place in at if place <= len(wire)]):
            reader.feed(piece)
            self.assertLessEqual(reader.buffered_bytes, 40 + len(b"\r\n") + 30)

    @given(noise)
    def test_nothing_follows_a_violation(self, wire: bytes) -> None:
        """After a violation nothing is read and nothing is kept."""
        reader = MessageReader()
        reader.feed(wire + b"\r\n\r\n\r\n")
        if reader.violation is not None:
            self.assertEqual(reader.feed(b"version 1\r\n"), [])
            self.assertEqual(reader.buffered_bytes, 0)
