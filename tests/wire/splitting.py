"""What every test of the reader does: feed the same bytes whole and in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from unittest import TestCase

from metatwist.wire.commands import Message
from metatwist.wire.reader import MessageReader

_MOST_SPLITS = 1500
Outcome = tuple[list[Message], bool]


def read(pieces: Iterable[bytes], reader: MessageReader | None = None) -> Outcome:
    """All messages in `pieces`, and whether they broke the grammar."""
    reader = reader or MessageReader()
    messages = [message for piece in pieces for message in reader.feed(piece)]
    return messages, reader.violation is not None


def cut(wire: bytes, at: Iterable[int]) -> list[bytes]:
    """`wire` cut at these positions."""
    edges = [0, *sorted(at), len(wire)]
    return [wire[begin:end] for begin, end in pairwise(edges)]


def assert_reads_at_every_split(
    case: TestCase, wire: bytes, messages: Sequence[Message], violates: bool = False
) -> None:
    """`wire` gives exactly `messages`: whole, byte by byte, and cut at any position.

    Of very long bytes an even choice of positions is tried.
    """
    expected = list(messages), violates
    case.assertEqual(read([wire]), expected, "whole")
    case.assertEqual(read(cut(wire, range(1, len(wire)))), expected, "byte by byte")
    for at in range(1, len(wire), len(wire) // _MOST_SPLITS + 1):
        case.assertEqual(read(cut(wire, [at])), expected, f"cut at {at}")
