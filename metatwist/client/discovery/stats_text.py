"""What brokers answer to `stats` (spec client 19): lines, each a word and the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from attrs import frozen

from metatwist.client.errors import UnexpectedReply

Line = tuple[str, str]
_NUMBER = re.compile("[0-9]{1,9}")


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
            number = _number(words[1])
            if number is not None:
                found.add(number)
    return tuple(sorted(found))


@frozen
class Offered:
    """How many partitions of a topic, from 0 on, take messages and can be read."""

    writable: int
    readable: int


def offered_topics(lines: Iterable[Line]) -> Mapping[str, Offered] | None:
    """What a broker's lines of `extensions` offer, by topic (docs/protocol.md); None if
    it cannot tell, as those of the original."""
    lines = list(lines)
    if not any(
        word == "extensions" and "partitions" in rest.split() for word, rest in lines
    ):
        return None
    writable, readable = _counts(lines, "partitions"), _counts(lines, "readable")
    return {
        topic: Offered(count, readable.get(topic, count))
        for topic, count in writable.items()
    }


def _counts(lines: Iterable[Line], wanted: str) -> dict[str, int]:
    found = {}
    for word, rest in lines:
        topic, _, text = rest.rpartition(" ")
        number = _number(text)
        # `partitions 4` is of a topic `extensions`, and has no name.
        if word == wanted and topic and number is not None:
            found[topic] = number
    return found


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def broker_id_of(lines: Iterable[Line]) -> int | None:
    """The `broker_id` of the general lines, None if it is missing or no number."""
    for word, rest in lines:
        if word == "broker_id" and _NUMBER.fullmatch(rest):
            return int(rest)
    return None
