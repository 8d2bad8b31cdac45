"""The sidecar's grammar: what is written is read, and nothing else is believed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.sidecar import (
    LONGEST_LINE_BYTES,
    Checkpoint,
    checkpoint_line,
    last_checkpoint,
    line,
    parse,
)
from tests.storage.log_tools import contents, open_log, records, store
from tests.support.faulty_files import FaultyFiles

START = 1000
FIRST = line("segment", START)

anywhere = st.integers(-(1 << 70), 1 << 70)
lines = st.one_of(
    st.builds(lambda a, b: line("time", a, b), anywhere, anywhere),
    st.builds(lambda a, b: line("bad", a, b), anywhere, anywhere),
    st.builds(
        lambda kind, numbers: line(kind, *numbers),
        st.sampled_from(("checkpoint", "clean", "sealed", "segment", "time", "what")),
        st.lists(anywhere, max_size=6),
    ),
    st.binary(max_size=60),
)


class RoundTripTests(SynchronousTestCase):
    """Lines that were written are read as they were meant."""

    def test_a_line_byte_for_byte(self) -> None:
        """A line is words, a CRC-32 of them in eight hex digits, and a line feed."""
        text = b"time 1700000000000 4096"
        self.assertEqual(
            line("time", 1_700_000_000_000, 4096), b"%b %08x\n" % (text, crc32(text))
        )

    @given(
        st.lists(st.tuples(st.integers(0, 1 << 60), st.integers(0, 999)), max_size=20),
        st.sampled_from(("checkpoint", "clean", "sealed")),
        st.integers(0, 1 << 40),
        st.integers(-(1 << 63), (1 << 63) - 1),
    )
    def test_facts(
        self, times: list[tuple[int, int]], kind: str, messages: int, last_id: int
    ) -> None:
        """Times in order of offset, bad ranges and the newest checkpoint come back."""
        ordered = sorted({at: (ms, START + at) for ms, at in times}.values(), key=str)
        ordered.sort(key=lambda pair: pair[1])
        checkpoint = Checkpoint(kind, START + 900, messages, last_id, 1)
        text = FIRST + b"".join(line("time", *pair) for pair in ordered)
        text += line("checkpoint", START + 10, 1, 1, 0)
        text += line("bad", START + 10, START + 40) + checkpoint_line(checkpoint)
        facts = parse(text, START, 1000)
        assert facts is not None
        self.assertEqual(facts.times, ordered)
        self.assertEqual(facts.bad, [(START + 10, START + 40)])
        self.assertEqual(facts.checkpoint, checkpoint)

    def test_longest_line(self) -> None:
        """The longest line that can be fits what a start reads of a sidecar's end."""
        most = (1 << 63) - 1
        longest = checkpoint_line(Checkpoint("checkpoint", most, most, -most, most))
        self.assertLess(len(longest), LONGEST_LINE_BYTES)


class DoubtTests(SynchronousTestCase):
    """What is torn, wrong, out of order or beyond the file is left out."""

    def test_torn_line(self) -> None:
        """A sidecar cut at any byte gives the facts of its whole lines."""
        whole = FIRST + line("time", 5, START) + line("checkpoint", START + 50, 2, 9, 0)
        for size in range(len(whole)):
            facts = parse(whole[:size], START, 100)
            if size < len(FIRST) - 1:
                self.assertIsNone(facts)
            else:
                assert facts is not None
                self.assertIsNone(facts.checkpoint if size < len(whole) - 1 else None)

    @given(st.integers(0, 200), st.integers(0, 7))
    def test_flipped_bit(self, at: int, bit: int) -> None:
        """A flipped bit costs the line it is in, or splits it; it adds no fact."""
        text = bytearray(FIRST + line("time", 5, START + 7) + line("bad", 1010, 1020))
        text[at % len(text)] ^= 1 << bit
        facts = parse(bytes(text), START, 100)
        if facts is not None:
            self.assertIn(facts.times, ([], [(5, START + 7)]))
            self.assertIn(facts.bad, ([], [(1010, 1020)]))

    def test_of_another_segment(self) -> None:
        """A sidecar whose first line names another start is not believed at all."""
        text = line("segment", START + 1) + line("clean", START + 50, 2, 9, 0)
        self.assertIsNone(parse(text, START, 100))

    def test_beyond_the_file(self) -> None:
        """What speaks of offsets that the file does not have is dropped."""
        text = FIRST + line("checkpoint", START + 50, 2, 9, 0)
        text += line("time", 5, START + 100) + line("bad", START + 90, START + 101)
        text += line("clean", START + 101, 3, 9, 0)
        facts = parse(text, START, 100)
        assert facts is not None
        self.assertEqual((facts.times, facts.bad), ([], []))
        self.assertEqual(facts.checkpoint, Checkpoint("checkpoint", START + 50, 2, 9))
        self.assertEqual(last_checkpoint(text, START + 100), facts.checkpoint)

    def test_tail_that_begins_inside_a_line(self) -> None:
        """The newest checkpoint is found wherever the tail that is read begins."""
        text = line("time", 5, START) + line("sealed", START + 100, 3, 9, 0)
        sealed = Checkpoint("sealed", START + 100, 3, 9)
        for cut in range(len(line("time", 5, START)) + 1):
            self.assertEqual(last_checkpoint(text[cut:], START + 100), sealed)

    @given(st.lists(lines, max_size=30))
    def test_anything(self, texts: list[bytes]) -> None:
        """Of arbitrary lines only facts that fit the segment are taken, in order."""
        facts = parse(FIRST + b"\n".join(texts), START, 500)
        assert facts is not None
        offsets = [offset for _, offset in facts.times]
        self.assertEqual(offsets, sorted(set(offsets)))
        self.assertTrue(all(START <= offset < START + 500 for offset in offsets))
        edges = [START, *(edge for pair in facts.bad for edge in pair), START + 500]
        self.assertEqual(edges, sorted(edges))
        if facts.checkpoint is not None:
            self.assertLessEqual(facts.checkpoint.end, START + 500)

    @given(st.lists(lines, max_size=12), st.booleans())
    def test_a_partition_with_anything_beside_it(
        self, texts: list[bytes], with_first: bool
    ) -> None:
        """Whatever lines without a checkpoint a sidecar holds, no message is lost."""
        batch = records(0, [50] * 6)
        garbage = [one for one in texts if not one.startswith((b"c", b"seal", b"bad"))]
        with tempfile.TemporaryDirectory() as root:
            directory, files = Path(root) / "t-0", FaultyFiles()
            store(open_log(directory, files), files, batch)
            sidecar = directory / f"{0:020d}.index"
            first = line("segment", 0) if with_first else b""
            sidecar.write_bytes(first + b"\n".join(garbage))
            self.assertEqual(contents(open_log(directory, files)), batch)
