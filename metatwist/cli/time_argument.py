"""A point in time as an operator types it."""

from __future__ import annotations

import re
from datetime import datetime
from datetime import time as time_of_day

import click

_LOOKS_LIKE_SECONDS = re.compile(r"\d{9,10}")


def parse_time_ms(text: str, now: datetime) -> int:
    """Milliseconds since 1970 of an ISO date or time, a time of today, or epoch ms.

    Without an offset it is local time; `now` says which day today is. Raises
    `ValueError` with a sentence for anything else.
    """
    if _LOOKS_LIKE_SECONDS.fullmatch(text):
        raise ValueError(f"{text} looks like seconds since 1970; give milliseconds")
    if text.isascii() and text.isdigit():
        return int(text)
    iso = re.sub(r"[zZ]$", "+00:00", text)
    try:
        if re.match(r"\d\d:", iso):
            moment = datetime.combine(now.date(), time_of_day.fromisoformat(iso))
        else:
            moment = datetime.fromisoformat(iso)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is no time; give 2026-01-31T10:00, 2026-01-31, 10:00 (today), "
            "or milliseconds since 1970"
        ) from None


def time_argument(
    context: click.Context, parameter: click.Parameter, value: str
) -> int:
    """Click callback around `parse_time_ms`."""
    try:
        return parse_time_ms(value, datetime.now())
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None
