"""What `produce` could not store, for the report at its end."""

from __future__ import annotations

from attrs import define, field

MOST_RANGES = 1000
_SHOWN_RANGES = 20
_SHOWN_REASONS = 5


@define
class _Numbers:
    """Numbers of lines that failed, as ranges in the order in which they failed; past
    MOST_RANGES they are counted only."""

    count: int = 0
    ranges: list[list[int]] = field(factory=list)
    is_cut: bool = False

    def add(self, number: int) -> None:
        self.count += 1
        last = self.ranges[-1] if self.ranges else None
        if last is not None and last[1] + 1 == number:
            last[1] = number
        elif len(self.ranges) < MOST_RANGES:
            self.ranges.append([number, number])
        else:
            self.is_cut = True

    def __str__(self) -> str:
        merged: list[list[int]] = []
        for first, last in sorted(self.ranges):
            if merged and merged[-1][1] + 1 == first:
                merged[-1][1] = last
            else:
                merged.append([first, last])
        spans = [
            str(first) if first == last else f"{first} to {last}"
            for first, last in merged[:_SHOWN_RANGES]
        ]
        more = " and more" if self.is_cut or len(merged) > _SHOWN_RANGES else ""
        return ", ".join(spans) + more


class Failures:
    """Counts and gathers; bounded, however many there are."""

    def __init__(self) -> None:
        self._unstored: dict[str, _Numbers] = {}
        self._unknown: dict[str, _Numbers] = {}
        self._reasons: dict[str, int] = {}
        self._other_reasons = 0

    @property
    def count(self) -> int:
        """All of them."""
        return _total(self._unstored) + _total(self._unknown)

    def add(self, source: str, number: int, reason: str, unknown: bool = False) -> None:
        """The message of a line was not stored, or, if `unknown`, perhaps not."""
        kind = self._unknown if unknown else self._unstored
        kind.setdefault(source, _Numbers()).add(number)
        if reason in self._reasons or len(self._reasons) < _SHOWN_REASONS:
            self._reasons[reason] = self._reasons.get(reason, 0) + 1
        else:
            self._other_reasons += 1

    def report(self) -> list[str]:
        """Lines of text; none when nothing failed."""
        found = [
            *_lines(self._unstored, "not stored"),
            *_lines(self._unknown, "stored or not, which is unknown"),
        ]
        found += [
            f"  {reason}" if count == 1 else f"  {count} times: {reason}"
            for reason, count in self._reasons.items()
        ]
        if self._other_reasons:
            found.append(f"  {self._other_reasons} times for other reasons")
        return found


def _total(kind: dict[str, _Numbers]) -> int:
    return sum(numbers.count for numbers in kind.values())


def _lines(kind: dict[str, _Numbers], what: str) -> list[str]:
    return [
        f"{numbers.count} {what}: {_place(source, numbers)}"
        for source, numbers in kind.items()
    ]


def _place(source: str, numbers: _Numbers) -> str:
    word = "line" if numbers.count == 1 else "lines"
    place = f"{word} {numbers}"
    return place if source == "-" else f"{source}, {place}"
