"""Whatever is asked in whatever order: the fake broker answers as the real one does."""

from __future__ import annotations

import re
from itertools import count
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from metatwist.testing import FakeBroker
from metatwist.wire import commands as wire
from metatwist.wire.records import HEADER_BYTES, checksum
from tests.support.wire_client import ASK_FOR_END
from tests.testing import broker_case as case
from tests.testing.conversations import Answer, Conversation, MemoryPeer
from tests.testing.test_contract import InProcess

TOPIC = "a-fake-topic"
_ID_AT = 8
_ADDRESS = re.compile(rb"meta://[^']*")
_numbers = count(1)

opaques = st.integers(-(1 << 31), (1 << 31) - 1)
topics = st.sampled_from([TOPIC, TOPIC, TOPIC, TOPIC, TOPIC, TOPIC, "nope"])
partitions = st.sampled_from([0, 0, 0, 1, 2, 3, -2])
offsets = st.one_of(
    st.integers(-2, 300),
    st.integers(4000, 9000),
    st.sampled_from([25, 50, 4096, ASK_FOR_END, -ASK_FOR_END - 1]),
)
sizes = st.one_of(
    st.integers(-1, 200), st.sampled_from([4096, 1 << 20, 1 << 21, (1 << 31) - 1])
)
bodies = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"hello", b"hello", bytes(1500), bytes(4076), bytes(5000)]),
)


@st.composite
def puts(draw: Any) -> wire.PutCommand:
    """Mostly good ones; never to -1, for there the broker is free."""
    body = draw(bodies)
    sums = [checksum(body), checksum(body), wire.NO_CHECKSUM, -2, 1]
    return wire.PutCommand(
        draw(topics),
        draw(partitions),
        draw(opaques),
        draw(st.sampled_from(sums)),
        draw(st.sampled_from([None, None, None, None, "TX:s:1"])),
        draw(opaques),
        body,
    )


gets = st.builds(
    wire.GetCommand, topics, st.just("g"), partitions, offsets, sizes, opaques
)
polls = st.builds(
    wire.PollCommand,
    topics,
    st.just("g"),
    partitions,
    offsets,
    sizes,
    st.integers(-1, 0),
    opaques,
)
asked_offsets = st.builds(
    wire.OffsetCommand, topics, st.just("g"), partitions, offsets, opaques
)
others = st.one_of(
    st.builds(wire.VersionCommand, opaques),
    st.builds(wire.StatsCommand, st.just("help"), opaques),
    st.builds(
        wire.TransactionCommand,
        st.just("TX:s:1"),
        st.just("s"),
        st.sampled_from(["BEGIN", "COMMIT_ONE_PHASE", "RECOVER"]),
        st.none(),
        st.none(),
        opaques,
    ),
    st.builds(
        wire.SyncCommand,
        topics,
        partitions,
        opaques,
        st.just(7),
        st.just(wire.NO_CHECKSUM),
        opaques,
        bodies,
    ),
)


class Begin(NamedTuple):
    """Where a record begins."""

    partition: int
    offset: int


class Told:
    """The answers of one broker, without what may differ: ids and its address."""

    def __init__(self, peer: Conversation, topic: str) -> None:
        self._peer = peer
        self._topic = topic
        self._records: dict[Begin, int] = {}

    def ask(self, command: Any) -> Answer:
        """Ask about the topic, and tell what came back."""
        if getattr(command, "topic", "") == TOPIC:
            command = command._replace(topic=self._topic)
        self._peer.send(command.encode())
        code, opaque, body = Answer.of(self._peer.reply())
        if code == 0:
            return Answer(0, opaque, self._without_ids(command, body))
        if code == 200 and isinstance(command, wire.PutCommand):
            return Answer(200, opaque, self._stored(body))
        body = _ADDRESS.sub(b"ADDRESS", body)
        return Answer(code, opaque, body.replace(self._topic.encode(), b"TOPIC"))

    def _stored(self, body: bytes) -> bytes:
        message_id, partition, offset = map(int, body.split(b" "))
        assert message_id > max(self._records.values(), default=0), "ids do not rise"
        self._records[Begin(partition, offset)] = message_id
        return b"ID %d %d" % (partition, offset)

    def _without_ids(self, command: Any, body: bytes) -> bytes:
        """Zeros for what is seen of ids, each of which must be the one told."""
        data = bytearray(HEADER_BYTES) + body + bytearray(HEADER_BYTES)
        for begin, message_id in self._records.items():
            at = begin.offset - command.offset + HEADER_BYTES + _ID_AT
            if begin.partition == command.partition and 0 <= at <= len(data) - 8:
                seen = slice(
                    max(at, HEADER_BYTES), min(at + 8, HEADER_BYTES + len(body))
                )
                told = message_id.to_bytes(8, "big")[seen.start - at : seen.stop - at]
                if seen.start < seen.stop:
                    assert data[seen] == told, "another id than the one told"
                    data[seen] = bytes(len(told))
        return bytes(data[HEADER_BYTES : HEADER_BYTES + len(body)])


class SameAnswersTests(InProcess):
    """One broker process beside many fake ones."""

    def brokers(self) -> tuple[Told, Told]:
        """A real and a fake one with an empty topic."""
        clock = Clock()
        fake = FakeBroker(
            clock,
            {TOPIC: case.PARTITIONS, "idle": 1},
            case.BROKER_ID,
            segment_bytes=case.SEGMENT_BYTES,
        )
        return (
            Told(self.connect(), f"test{next(_numbers)}"),
            Told(MemoryPeer(fake, clock), TOPIC),
        )

    @settings(max_examples=60)
    @given(
        st.lists(
            st.one_of(puts(), puts(), gets, gets, polls, asked_offsets, others),
            max_size=25,
        )
    )
    def test_sequences(self, asked: list[Any]) -> None:
        """Any commands one after the other have equal answers."""
        real, fake = self.brokers()
        for command in asked:
            self.assertEqual(fake.ask(command), real.ask(command), command)
