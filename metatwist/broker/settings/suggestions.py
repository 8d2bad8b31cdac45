"""Finding the word that somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The entry of `known` nearest to `word` whatever the case, or None.

    `likeness` from 0 to 1 is how near it must be (difflib's ratio).
    """
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, 1, likeness)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean X?)`, or an empty text when nothing is near."""
    found = closest(word, known)
    return f" (did you mean {found}?)" if found else ""
