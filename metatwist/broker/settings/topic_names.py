"""Which texts may be topics, and the patterns of wildcard sections.

A topic's name becomes a directory, so names that mean something to the file system are
never legal, whatever a pattern says (spec wire-protocol 7, item 5).
"""

from __future__ import annotations

import re

MAX_NAME_BYTES = 200
WILDCARD = "*"
_UNSAFE = re.compile("[/\x00-\x1f\x7f-\x9f]")
# Text, `.` and escaped punctuation: every match has the same length.
_FIXED_WIDTH = re.compile(r"(?:[^\\^$+?{}\[\]()|]|\\[^\w\s])*")
# One after the other: an escaped character, a class, a repeated group, all else.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\)\s*[+{])|.", re.DOTALL)
_REGEX_SIGNS = re.compile(r"[\\^$+?{}\[\]()|]")


def is_safe_topic(name: str) -> bool:
    """Whether `name` can be a directory name on every file system that we use."""
    if not name or name in (".", "..") or _UNSAFE.search(name):
        return False
    try:
        return len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def is_pattern(name: str) -> bool:
    """Whether a section of this name stands for many topics."""
    return WILDCARD in name


def looks_like_regex(name: str) -> bool:
    """Whether a Java broker would read more than plain text in an exact name."""
    return _REGEX_SIGNS.search(name) is not None


def compile_pattern(name: str) -> re.Pattern[str]:
    """The expression that a whole topic must match (spec storage 2).

    `*` is any text, the rest a regular expression. Raises `ValueError`, also for a
    repeated group: a stranger's topic name could make it try billions of ways.
    """
    if any(token[1] for token in _TOKEN.finditer(name)):
        raise ValueError(
            f"the pattern {name} repeats a group, `(...)+` or `(...){{...}}`: some "
            "topic names would take for ever to compare; write it without, for "
            "instance `[ab]+` in place of `(a|b)+`"
        )
    pieces = name.split(WILDCARD)
    try:
        if all(_FIXED_WIDTH.fullmatch(piece) for piece in pieces):
            return re.compile(_without_backtracking(pieces), re.DOTALL)
        return re.compile(name.replace(WILDCARD, ".*"), re.DOTALL)
    except re.error as error:
        raise ValueError(
            f"the pattern {name} is no regular expression: {error}"
        ) from error


def _without_backtracking(pieces: list[str]) -> str:
    """An expression that takes the leftmost place of each piece and never retries.

    Right for pieces of fixed width. Without it a stranger's topic name could make
    `*a*a*a*a*a` try billions of ways.
    """
    first, *middle, last = pieces
    found = [
        f"(?=(?P<p{number}>.*?{piece}))(?P=p{number})"
        for number, piece in enumerate(middle)
        if piece
    ]
    return first + "".join(found) + ".*" + last
