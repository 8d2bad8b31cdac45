"""Quartz cron expressions, as `deleteWhen` is written (spec storage 13.3).

croniter finds the times; each field is read here first and spelled out for it, since
Quartz counts weekdays from one, wraps ranges and has letters that croniter lacks.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from datetime import datetime, timedelta

from attrs import frozen
from croniter import CroniterBadDateError, CroniterError, croniter

from metatwist.errors import SettingsError

_DAY_S = 86_400
_YEARS_AHEAD = 130
"""How far croniter looks: enough to reach any year of a Quartz expression."""

_EPOCH = datetime(1970, 1, 1)
_SPAN = re.compile(r"(?:\*|(\w+)(?:-(\w+))?|(?=/))(?:/(\d+))?", re.ASCII)
_NEAR_DAY = re.compile(r"(\d+)W", re.ASCII)
_NTH_DAY = re.compile(r"(\w+)#([1-5])", re.ASCII)
_LAST_DAY = re.compile(r"(\w+)L", re.ASCII)


@frozen
class _Field:
    """One field of an expression: what it is called and which numbers it takes."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    cyclic: bool = True

    def number(self, text: str) -> int:
        if text in self.names:
            return self.low + self.names.index(text)
        if not text.isdecimal() or not self.low <= int(text) <= self.high:
            raise ValueError(f"{text} is not in {self.low}-{self.high}")
        return int(text)

    def span(self, item: str) -> list[int]:
        """Return the numbers of `*`, `5`, `5-9`, `5/2`, `/2` or `5-9/2`, in turn."""
        match = _SPAN.fullmatch(item)
        if match is None:
            raise ValueError(f"{item!r} is not supported")
        first, last, step = match.groups()
        start = self.low if first is None else self.number(first)
        end = self.number(last) if last else start
        if first is None or (step and not last):
            end = self.high
        if not 1 <= int(step or 1) <= self.high:
            raise ValueError(f"step {step} is not in 1-{self.high}")
        spanned = [*range(start, end + 1)]
        if end < start:  # 22-2 and FRI-MON go on past the end of their cycle.
            if not self.cyclic:
                raise ValueError(f"{item} runs backwards")
            spanned = [*range(start, self.high + 1), *range(self.low, end + 1)]
        return spanned[:: int(step or 1)]

    def spelled(self, items: Iterable[str], shift: int = 0) -> str:
        """Write the numbers of all items for croniter, or `*` for every one."""
        chosen = {number for item in items for number in self.span(item)}
        if len(chosen) == self.high - self.low + 1:
            return "*"
        return ",".join(str(number + shift) for number in sorted(chosen))


_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = (
    *("JAN", "FEB", "MAR", "APR", "MAY", "JUN"),
    *("JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
_DAY_OF_MONTH = _Field("day of month", 1, 31)
_DAY_OF_WEEK = _Field("day of week", 1, 7, _WEEKDAYS)
_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _DAY_OF_MONTH,
    _Field("month", 1, 12, _MONTHS),
    _DAY_OF_WEEK,
    _Field("year", 1970, 2099, cyclic=False),
)


class QuartzSchedule:
    """The times that a Quartz cron expression names, in the process' time zone.

    Six fields and an optional year, with `?`, `L`, `#`, `15W`, names, lists, ranges and
    steps. What cannot be followed (`LW`, `L-3`, both day fields restricted) raises
    `SettingsError`, as any fault does, with expression and field named.

    Where local clocks go forward, times in the gap fall together at its end. Where they
    go back, a schedule of every hour counts both passes, any other the first.
    """

    def __init__(self, expression: str) -> None:
        self.expression = expression
        texts = _croniter_fields(expression)
        self._every_hour = texts[2] == "*"
        try:
            self._cron = croniter(
                " ".join(texts),
                _EPOCH,
                max_years_between_matches=_YEARS_AHEAD,
                second_at_beginning=True,
            )
        except CroniterError as error:
            raise _wrong(expression, str(error)) from error

    def next_after(self, now_s: float) -> float | None:
        """Return the first time after `now_s` (epoch seconds), or None for never."""
        since_s = math.floor(now_s)
        if self._every_hour:
            due_s = self._next_at_offset(since_s, _utc_offset_s(since_s))
            if due_s is not None and due_s - since_s < _DAY_S:
                return self._across_change(since_s, due_s)
        wall = self._next_wall(datetime.fromtimestamp(since_s))
        while wall is not None:
            due_s = _instant_s(wall)
            if due_s > since_s:
                return due_s
            wall = self._next_wall(wall)
        return None

    def _across_change(self, now_s: float, due_s: float) -> float | None:
        """Keep `due_s`, or look again from a clock change that lies before it."""
        if _utc_offset_s(due_s) == _utc_offset_s(now_s):
            return due_s
        change_s = _clock_change_s(now_s, due_s)
        return self._next_at_offset(change_s - 1, _utc_offset_s(change_s))

    def _next_at_offset(self, now_s: float, offset_s: int) -> float | None:
        wall = self._next_wall(_EPOCH + timedelta(seconds=now_s + offset_s))
        return None if wall is None else (wall - _EPOCH).total_seconds() - offset_s

    def _next_wall(self, wall: datetime) -> datetime | None:
        try:
            return self._cron.get_next(datetime, start_time=wall)
        except CroniterBadDateError:
            return None


def _croniter_fields(expression: str) -> list[str]:
    """Spell the expression out, field by field in Quartz order, for croniter."""
    parts = expression.upper().split()
    if len(parts) not in (len(_FIELDS) - 1, len(_FIELDS)):
        raise _wrong(expression, f"{len(parts)} fields, not 6 or 7 (seconds first)")
    texts = []
    for kind, part in zip(_FIELDS, parts, strict=False):
        try:
            texts.append(_spelled(kind, part))
        except ValueError as error:
            raise _wrong(expression, f"{kind.name} {part!r}: {error}") from error
    if texts[3] != "*" and texts[5] != "*":
        days = f"day of month {parts[3]!r} and day of week {parts[5]!r}"
        raise _wrong(expression, f"{days} cannot be combined; use ? for one of them")
    return texts


def _spelled(kind: _Field, part: str) -> str:
    items = part.split(",")
    if kind is _DAY_OF_MONTH:
        return "*" if part == "?" else _days_of_month(items)
    if kind is _DAY_OF_WEEK:
        return "*" if part == "?" else _days_of_week(items)
    return kind.spelled(items)


def _days_of_month(items: list[str]) -> str:
    if len(items) == 1 and (near := _NEAR_DAY.fullmatch(items[0])):
        return f"{_DAY_OF_MONTH.number(near[1])}w"
    plain = _DAY_OF_MONTH.spelled(item for item in items if item != "L")
    if "L" not in items or plain == "*":
        return plain
    return f"{plain},l" if plain else "l"


def _days_of_week(items: list[str]) -> str:
    """Quartz counts from 1 for Sunday, croniter from 0; `L` alone is Saturday."""
    special = []
    for item in items:
        if nth := _NTH_DAY.fullmatch(item):
            special.append(f"{_DAY_OF_WEEK.number(nth[1]) - 1}#{nth[2]}")
        elif last := _LAST_DAY.fullmatch(item):
            special.append(f"l{_DAY_OF_WEEK.number(last[1]) - 1}")
    if special and len(special) < len(items):
        raise ValueError("days such as 6#3 or 6L cannot be mixed with plain ones")
    if special:
        return ",".join(special)
    plain = ["SAT" if item == "L" else item for item in items]
    return _DAY_OF_WEEK.spelled(plain, shift=-1)


def _wrong(expression: str, problem: str) -> SettingsError:
    return SettingsError([f"cron expression {expression!r}: {problem}"])


def _utc_offset_s(at_s: float) -> int:
    return time.localtime(at_s).tm_gmtoff


def _instant_s(wall: datetime) -> float:
    """Return when local clocks first show `wall`, or when they jump over it."""
    instant_s = wall.timestamp()
    if datetime.fromtimestamp(instant_s) == wall:
        return instant_s
    return _clock_change_s(wall.replace(fold=1).timestamp(), instant_s)


def _clock_change_s(before_s: float, after_s: float) -> float:
    """Find the second in between from which the UTC offset is that of `after_s`."""
    before, after = int(before_s), int(after_s)
    offset_s = _utc_offset_s(after)
    while after - before > 1:
        middle = (before + after) // 2
        if _utc_offset_s(middle) == offset_s:
            after = middle
        else:
            before = middle
    return float(after)
