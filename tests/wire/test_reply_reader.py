"""The client's half of the codec reads what the broker's half writes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.errors import ProtocolViolation
from metatwist.wire.commands import Message, ResultReply, ValueReply
from metatwist.wire.reply_reader import PutStored, ReplyReader, ValueChunks

OPAQUES = st.integers(-(2**31), 2**31 - 1)
STORED = st.builds(
    PutStored,
    OPAQUES,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 99999),
    st.integers(-1, 2**63 - 1),
)
RESULTS = st.builds(
    ResultReply, st.sampled_from([301, 403, 404, 500, 503]), OPAQUES, st.binary()
)
VALUES = st.builds(ValueReply, OPAQUES, st.binary())


def encode(answer: PutStored | Message) -> bytes:
    if isinstance(answer, PutStored):
        opaque, message_id, partition, offset = answer
        text = f"{message_id} {partition} {offset}".encode()
        return ResultReply(200, opaque, text).encode()
    return answer.encode()


def plain(answers: list[Any]) -> list[Any]:
    """With bodies in one piece, to be compared."""
    return [
        ValueReply(one.opaque, one.body) if isinstance(one, ValueChunks) else one
        for one in answers
    ]


class Reading(SynchronousTestCase):
    """Bytes to answers."""

    @settings(max_examples=150, deadline=None)
    @given(
        answers=st.lists(st.one_of(STORED, RESULTS, VALUES), max_size=6),
        cuts=st.lists(st.integers(0, 400), max_size=8),
    )
    def test_any_split(
        self, answers: list[PutStored | Message], cuts: list[int]
    ) -> None:
        """Answers are read whole and in order, however they are cut."""
        data = b"".join(map(encode, answers))
        edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        reader = ReplyReader(1 << 20)
        read: list[PutStored | Message] = []
        for start, end in pairwise(edges):
            read += reader.feed(data[start:end])
        self.assertEqual(plain(read), answers)

    def test_every_position(self) -> None:
        """Two answers are read at every split position."""
        answers = [
            PutStored(-5, -(2**63), 0, -1),
            ValueReply(3, b"record"),
            ResultReply(404, 7, b"no\r\n"),
        ]
        data = b"".join(map(encode, answers))
        for at in range(len(data) + 1):
            reader = ReplyReader(1 << 20)
            read = reader.feed(data[:at]) + reader.feed(data[at:])
            self.assertEqual(plain(read), answers)

    def test_not_quite_stored(self) -> None:
        """A 200 with any other body than three numbers is a plain result."""
        for body in (b"", b"1 2", b"1 2 3 4", b"1.4.6.2", b"1 2 3\r\n"):
            data = ResultReply(200, 1, body).encode()
            self.assertEqual(ReplyReader(99).feed(data), [ResultReply(200, 1, body)])

    def test_loose_forms(self) -> None:
        """Forms that the grammar allows beside the usual ones are read too."""
        self.assertEqual(
            ReplyReader(99).feed(b"result +200 0 1 \r\n"), [ResultReply(200, 1)]
        )

    def test_requests(self) -> None:
        """What only a client says is no answer."""
        for word in (b"version 3\r\n", b"quit\r\n", b"get t g 0 0 9 1\r\n"):
            with self.assertRaises(ProtocolViolation):
                ReplyReader(99).feed(word)

    def test_too_large(self) -> None:
        """A body above the limit is refused before it has come."""
        with self.assertRaises(ProtocolViolation):
            ReplyReader(99).feed(b"value 100 1\r\n")

    def test_endless_header(self) -> None:
        """A header without end is refused."""
        reader = ReplyReader(99)
        with self.assertRaises(ProtocolViolation):
            for _ in range(100):
                reader.feed(b"x" * 100)

    def test_garbage(self) -> None:
        """What is no command is refused."""
        with self.assertRaises(ProtocolViolation):
            ReplyReader(99).feed(b"HTTP/1.1 200 OK\r\n")
