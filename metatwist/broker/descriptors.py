"""The system's limit of open files, raised as far as it goes and shared out.

Files come first: when connections had taken the last descriptor, nothing could be
written or synced any more, and any client could bring that about.
"""

from __future__ import annotations

import resource

_OTHERS = 64  # libraries, the log, sockets that listen, directories being synced


def raise_limit() -> int:
    """Raise the soft limit to the hard one; returns what is in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft
    return hard


def left_for_connections(limit: int, open_segments: int) -> int:
    """How many connections fit beside `open_segments` files, at least one."""
    if limit == resource.RLIM_INFINITY:
        return 1 << 30
    return max(1, limit - open_segments - _OTHERS)
