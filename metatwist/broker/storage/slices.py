"""What a read of a partition can answer (spec storage 11.2)."""

from __future__ import annotations

from typing import NamedTuple

from metatwist.broker.storage.segment import Segment


class FileSlice(NamedTuple):
    """`size` bytes at `position` of a segment's file."""

    segment: Segment
    position: int
    size: int


class OffsetMoved(NamedTuple):
    """Nothing can be read at the offset asked for; go on at `offset`."""

    offset: int


class NothingThere(NamedTuple):
    """The offset is at the end (`beyond` False) or past it."""

    beyond: bool


Slice = FileSlice | OffsetMoved | NothingThere
