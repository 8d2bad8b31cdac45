"""Sync a lone put at once, on the reactor's thread, while the disk is quick.

Handing an fsync to a kernel worker and back costs a lone producer a part of its rate.
So when one put waits and nothing else is under way, it is synced in place. How long one
fsync takes nobody can bound, but how often a slow one stalls the broker is: after it
nothing is synced in place for a while, for twice as long each time. Counted
(`inline_flushes`, `inline_stalls`), shown by `status`, switched off by `inlineSync`.
"""

from __future__ import annotations

from collections.abc import Callable

from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import SyncJob
from metatwist.broker.turn import Turn

SLOW_S = 0.01
_SHORTEST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_CALM_AFTER = 1000


class InlineSync:
    """Decides, syncs and measures.

    `busy` tells that the broker's own background work uses the disk; `seconds` is a
    monotonic clock.
    """

    def __init__(
        self,
        files: FileOps,
        numbers: BrokerNumbers,
        turn: Turn,
        busy: Callable[[], bool],
        seconds: Callable[[], float],
    ) -> None:
        self._files = files
        self._numbers = numbers
        self._turn = turn
        self._busy = busy
        self._seconds = seconds
        self._not_before_s = 0.0
        self._pause_s = _SHORTEST_PAUSE_S
        self._quick_ones = 0

    def sync(self, job: SyncJob, waiting: int) -> tuple[OSError | None] | None:
        """fsync now if `waiting` is one put and all is calm; see `CommitContext`."""
        if waiting != 1 or not self._turn.lone or self._numbers.syncs_under_way > 1:
            return None
        if len(job.files) != 1 or job.directories or self._busy():
            return None
        began_s = self._seconds()
        if began_s < self._not_before_s:
            return None
        try:
            self._files.sync(job.files[0].fd)
        except OSError as error:
            return (error,)
        self._measured(self._seconds() - began_s)
        return (None,)

    def _measured(self, took_s: float) -> None:
        self._numbers.inline_flushes += 1
        if took_s > SLOW_S:
            self._numbers.inline_stalls += 1
            self._not_before_s = self._seconds() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            self._quick_ones = 0
            return
        self._quick_ones += 1
        if self._quick_ones >= _CALM_AFTER:
            self._pause_s = _SHORTEST_PAUSE_S


def never(job: SyncJob, waiting: int) -> None:
    """For a broker that leaves every fsync to the syncer."""
