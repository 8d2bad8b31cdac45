"""The text form of `deletePolicy` (spec storage 13.1)."""

from __future__ import annotations

import re

from metatwist.broker.settings.model import RetentionPolicy

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "": 3600}
_TIME = re.compile("([0-9]{1,10})([smh]?)")


def parse_policy(text: str) -> RetentionPolicy:
    """Read `delete,TIME` or `archive,TIME[,true]`; a time without unit is in hours.

    Raises `ValueError` that says which part is wrong. Parts are not trimmed.
    """
    name, *rest = text.split(",")
    if name not in ("delete", "archive"):
        raise ValueError(f"`{name}` is no policy; known are delete and archive")
    if not rest:
        raise ValueError(f"`{text}` names no time, as in {name},168")
    time = _TIME.fullmatch(rest[0])
    if time is None:
        raise ValueError(
            f"`{rest[0]}` is no time; write digits with s, m or h behind "
            "(none means hours) and no blank after the comma"
        )
    if len(rest) > (2 if name == "archive" else 1):
        raise ValueError(f"`{text}` has too many parts for the policy {name}")
    max_age_s = int(time[1]) * _UNIT_S[time[2]]
    if name == "delete":
        return RetentionPolicy("delete", max_age_s)
    return RetentionPolicy("archive", max_age_s, rest[-1].lower() == "true")
