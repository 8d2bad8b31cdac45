"""Turns the text of entries into values, and notes what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from metatwist.broker.quartz import QuartzSchedule
from metatwist.broker.settings.expressions import (
    INT_BITS,
    LONG_BITS,
    boolean,
    whole_number,
)
from metatwist.broker.settings.findings import Findings
from metatwist.broker.settings.ini import IniEntry
from metatwist.broker.settings.key import Key
from metatwist.broker.settings.model import RetentionPolicy
from metatwist.broker.settings.policy import parse_policy
from metatwist.broker.settings.suggestions import did_you_mean
from metatwist.errors import SettingsError

T = TypeVar("T")


class SectionReader:
    """Reads the values of one section by key name.

    Each method returns the value, or `otherwise` (by default what the key's row says)
    when the key is absent. A wrong value is noted as a problem, and reading goes on
    with the default, so that one look at the file finds every fault.
    """

    def __init__(
        self,
        keys: Iterable[Key],
        entries: Mapping[str, IniEntry],
        findings: Findings,
        home: Path,
    ) -> None:
        self._keys = {key.name: key for key in keys}
        self.entries = entries
        self._findings = findings
        self._home = home

    def plain_values(self) -> dict[str, Any]:
        """The values of numbers, flags, words and texts of this section, by field name.

        Without the keys of topics, and texts whose default depends on other things.
        """
        read: Mapping[str, Callable[[str], Any]] = {
            "int": self.number,
            "long": self.number,
            "bool": self.flag,
            "string": self.text,
            "choice": self.choice,
        }
        return {
            key.field: read[key.kind](key.name)
            for key in self._keys.values()
            if key.kind in read and key.fallback is not None and not key.per_topic
        }

    def has(self, name: str) -> bool:
        """Whether the key has a value of its own."""
        return name in self.entries

    def number(self, name: str, otherwise: int | None = None) -> int:
        """A whole number within the bounds of its key."""
        return self._read(name, bounded_number, otherwise)

    def flag(self, name: str, otherwise: bool | None = None) -> bool:
        """`true` or `false`."""
        return self._read(name, lambda _, text: boolean(text), otherwise)

    def text(self, name: str, otherwise: str | None = None) -> str:
        """The value as it stands."""
        return self._read(name, lambda _, text: text, otherwise)

    def choice(self, name: str, otherwise: str | None = None) -> str:
        """One of the words that the key's row lists."""
        return self._read(name, _one_of, otherwise)

    def path(self, name: str, otherwise: Path) -> Path:
        """An absolute path; `~` is the home directory, relative means from here."""
        return self._read(name, lambda _, text: self._absolute(text), otherwise)

    def policy(self, otherwise: RetentionPolicy | None = None) -> RetentionPolicy:
        """The value of `deletePolicy`."""
        return self._read("deletePolicy", lambda _, text: parse_policy(text), otherwise)

    def schedule(self, otherwise: str | None = None) -> str:
        """The value of `deleteWhen`, with single blanks between its fields."""
        return self._read("deleteWhen", _schedule, otherwise)

    def _read(
        self, name: str, convert: Callable[[Key, str], T], otherwise: T | None
    ) -> T:
        key = self._keys[name]
        entry = self.entries.get(name)
        if entry is not None:
            try:
                return convert(key, entry.value)
            except ValueError as error:
                self._findings.problems.append(entry.at(str(error)))
        if otherwise is not None:
            return otherwise
        assert key.fallback is not None, f"{name} has no default and none was given"
        return convert(key, key.fallback)

    def _absolute(self, text: str) -> Path:
        if "\0" in text:
            raise ValueError("no path has a NUL in it")
        if text == "~" or text.startswith("~/"):
            return self._home / text[2:]
        return Path(os.path.abspath(text))


def bounded_number(key: Key, text: str) -> int:
    """The value of an expression within the bounds of `key`; raises `ValueError`."""
    value = whole_number(text, LONG_BITS if key.kind == "long" else INT_BITS)
    low, high = key.least, key.most
    if low is not None and high is not None and not low <= value <= high:
        raise ValueError(f"{value} is not within {low} to {high}")
    if low is not None and value < low:
        raise ValueError(f"{value} is below {low}")
    return value


def _one_of(key: Key, text: str) -> str:
    if text not in key.choices:
        raise ValueError(
            f"`{text}` is not one of {', '.join(key.choices)}"
            f"{did_you_mean(text, key.choices)}"
        )
    return text


def _schedule(_: Key, text: str) -> str:
    try:
        QuartzSchedule(text)
    except SettingsError as error:
        raise ValueError(str(error)) from error
    return " ".join(text.split())
