"""What brokers answer to `stats` (spec client 19): lines, each a word and the rest."""

from __future__ import annotations

from collections.abc import Iterable

from metatwist.client.errors import UnexpectedReply

Line = tuple[str, str]


def read_stats(body: bytes) -> list[Line]:
    """The lines between STATS and END, in order, each as its first word and the rest,
    "" where there is none. Words may repeat (W31): `offsets` has one line a partition.

    Not for `config`, whose answer is the bytes of a file. Raises UnexpectedReply.
    """
    lines = body.decode("utf-8", "replace").split("\n")
    # Only so: other ends of lines may be a part of a name.
    lines = [line.removesuffix("\r") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) < 2 or lines[0] != "STATS" or lines[-1] != "END":
        raise UnexpectedReply(f"no statistics: {body[:100]!r}")
    return [_split(line) for line in lines[1:-1]]


def _split(line: str) -> Line:
    word, _, rest = line.partition(" ")
    return word, rest


def stored_partitions(lines: Iterable[Line], topic: str) -> tuple[int, ...]:
    """The partitions of a topic that have a log, by the lines of `offsets`, ascending:
    `<topic> part <partition> min_offset ...`."""
    found = set()
    for word, rest in lines:
        words = rest.split()
        if word == topic and words[:1] == ["part"] and words[1:2]:
            number = words[1]
            if number.isascii() and number.isdecimal():
                found.add(int(number))
    return tuple(sorted(found))


def broker_id_of(lines: Iterable[Line]) -> int | None:
    """The `broker_id` of the general lines, None if it is missing or no number."""
    for word, rest in lines:
        if word == "broker_id" and rest.isascii() and rest.isdecimal():
            return int(rest)
    return None
