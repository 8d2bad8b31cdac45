"""The system's limit of open files, raised as far as it goes and shared out.

Files come first: when connections had taken the last descriptor, nothing could be
written or synced any more, and any client could bring that about.
"""

from __future__ import annotations

import resource

from metatwist.broker.settings import BrokerSettings

_OTHERS = 64  # libraries, the log, sockets that listen, directories being synced
_COORDINATOR_PART = 4


def raise_limit() -> int:
    """Raise the soft limit to the hard one; returns what is in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft
    return hard


def coordinator_connections(settings: BrokerSettings, limit: int, most: int) -> int:
    """How many connections an embedded coordinator may have, `most` at most: a quarter
    of what files leave; 0 without such a coordinator."""
    if settings.coordinator != "embedded":
        return 0
    left = left_for_connections(limit, settings.max_open_segments)
    return max(1, min(most, left // _COORDINATOR_PART))


def left_for_connections(limit: int, open_segments: int) -> int:
    """How many connections fit beside `open_segments` files, at least one."""
    if limit == resource.RLIM_INFINITY:
        return 1 << 30
    return max(1, limit - open_segments - _OTHERS)
