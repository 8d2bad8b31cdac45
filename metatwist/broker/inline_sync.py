"""Sync a lone put at once, on the reactor's thread, while the disk is quick.

Handing an fsync to another thread and back costs a lone producer a sixth of its rate.
So when one put waits and nothing else is under way, it is synced in place. The stall
this can cause is bounded: after a slow one nothing is synced in place for a while, for
twice as long each time. Counted (`inline_flushes`, `inline_stalls`) and shown by `status`.
"""

from __future__ import annotations

from collections.abc import Callable

from metatwist.broker.commit import CommitQueue
from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import SyncJob

SLOW_S = 0.004
_SHORTEST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class InlineSync:
    """Decides, syncs and measures; `seconds` is a monotonic clock."""

    def __init__(
        self, files: FileOps, numbers: BrokerNumbers, seconds: Callable[[], float]
    ) -> None:
        self._files = files
        self._numbers = numbers
        self._seconds = seconds
        self._not_before_s = 0.0
        self._pause_s = _SHORTEST_PAUSE_S

    def allows(self, queue: CommitQueue) -> bool:
        """True for a lone put on a broker where nothing else waits."""
        return False

    def sync(self, job: SyncJob) -> OSError | None:
        """fsync now; returns the error, if any."""
        began_s = self._seconds()
        try:
            for directory in job.directories:
                self._files.sync_directory(directory)
            for file in job.files:
                self._files.sync(file.fd)
        except OSError as error:
            return error
        self._numbers.inline_flushes += 1
        took_s = self._seconds() - began_s
        if took_s > SLOW_S:
            self._numbers.inline_stalls += 1
            self._not_before_s = self._seconds() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return None
