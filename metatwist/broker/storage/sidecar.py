"""The file beside each segment: time index, checkpoints, bad ranges.

`<start>.index` next to `<start>.meta`, ignored by the Java broker. It holds nothing
that a scan of the segment would not find again: where it is missing or wrong it is
rebuilt. Text, append-only, one fact a line, each line closed by its own CRC-32, so a
torn end costs a line and an operator can read it:

    segment <start>                        first line that is whole
    time <ms since 1970> <offset>          the record at <offset> was stored then
    bad <from> <to>                        bytes that are no records (spec storage 18)
    checkpoint <end> <messages> <last id> <bad ranges>
                              all before <end> is on disk, and whole but for bad ranges
    clean ...                 the same, written at an orderly stop
    sealed ...                the same, and the segment never grows again

Offsets are absolute in the partition. The last checkpoint, clean or sealed line wins;
a start reads only the tail of a sealed segment's sidecar unless that counts bad ranges.
"""

from __future__ import annotations

from zlib import crc32

from attrs import Factory, astuple, define, frozen

SUFFIX = ".index"
LONGEST_LINE_BYTES = 128


@frozen
class Checkpoint:
    """All bytes of the segment before `end` are on disk, and whole records.

    `last_id` is the id of the last message before `end`, in an empty newest segment
    that of the partition's newest message, 0 when there is none; `bad_ranges` counts
    the ranges before `end` that are no records.
    """

    kind: str
    end: int
    messages: int
    last_id: int
    bad_ranges: int = 0


@define
class SidecarFacts:
    """What a sidecar says: times and bad ranges ascending by offset."""

    checkpoint: Checkpoint | None = None
    times: list[tuple[int, int]] = Factory(list)
    bad: list[tuple[int, int]] = Factory(list)


def line(kind: str, *numbers: int) -> bytes:
    """One line with its checksum."""
    text = " ".join((kind, *map(str, numbers))).encode()
    return b"%b %08x\n" % (text, crc32(text))


def checkpoint_line(checkpoint: Checkpoint) -> bytes:
    """The line for a checkpoint of any kind."""
    kind, *numbers = astuple(checkpoint)
    return line(kind, *numbers)


def parse(text: bytes, start: int, size_bytes: int) -> SidecarFacts | None:
    """The facts of a whole sidecar; None when it is not one of this segment.

    Facts beyond the segment's end (`start + size_bytes`) or out of order are dropped:
    the segment was cut after they were written.
    """
    parsed = filter(None, map(_parse_line, text.splitlines()))
    if next(parsed, None) != ("segment", [start]):
        return None
    facts, end = SidecarFacts(), start + size_bytes
    for kind, numbers in parsed:
        _take(facts, kind, numbers, start, end)
    return facts


def last_checkpoint(tail: bytes, end: int) -> Checkpoint | None:
    """The newest checkpoint in the last bytes of a sidecar, at most at `end`."""
    for raw in reversed(tail.splitlines()):
        parsed = _parse_line(raw)
        if parsed and parsed[0] in _CHECKPOINTS and parsed[1][0] <= end:
            return Checkpoint(parsed[0], *parsed[1])
    return None


_FIELDS = {"segment": 1, "time": 2, "bad": 2, "checkpoint": 4, "clean": 4, "sealed": 4}
_LIMIT = 1 << 63
_CHECKPOINTS = ("checkpoint", "clean", "sealed")


def _parse_line(raw: bytes) -> tuple[str, list[int]] | None:
    text, _, check = raw.rpartition(b" ")
    try:
        if int(check, 16) != crc32(text):
            return None
        kind, *numbers = text.decode("ascii").split(" ")
        values = [int(number) for number in numbers]
    except ValueError:
        return None
    fits = all(-_LIMIT <= value < _LIMIT for value in values)
    return (kind, values) if fits and _FIELDS.get(kind) == len(values) else None


def _take(
    facts: SidecarFacts, kind: str, numbers: list[int], start: int, end: int
) -> None:
    if kind == "time" and _is_next(facts.times, numbers[1], start, end):
        facts.times.append((numbers[0], numbers[1]))
    elif kind == "bad" and _is_next_range(facts.bad, numbers, start, end):
        facts.bad.append((numbers[0], numbers[1]))
    elif kind in _CHECKPOINTS and start <= numbers[0] <= end:
        facts.checkpoint = Checkpoint(kind, *numbers)


def _is_next(times: list[tuple[int, int]], offset: int, start: int, end: int) -> bool:
    return start <= offset < end and (not times or offset > times[-1][1])


def _is_next_range(
    bad: list[tuple[int, int]], numbers: list[int], start: int, end: int
) -> bool:
    begin, behind = numbers
    lowest = bad[-1][1] if bad else start
    return lowest <= begin < behind <= end
