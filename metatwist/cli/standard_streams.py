"""Standard streams that were closed by whoever started us (`<&- >&-`).

Python leaves their `sys.stdin` and so on None. Their descriptors would be those of the
next things opened, sockets of the reactor say, that were then read and written as
stdin and stdout.
"""

from __future__ import annotations

import os
import sys


def fill_closed() -> None:
    """Put `/dev/null` where descriptors 0 to 2 are closed. `sys.stdin` and `sys.stdout`
    stay None, so that it can be told."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest one that is free
    if sys.stderr is None:  # print would take stdout instead
        sys.stderr = os.fdopen(2, "w", closefd=False)
