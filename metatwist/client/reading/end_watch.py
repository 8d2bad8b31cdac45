"""Whether a position is beyond the end of its log for good (spec client 15.4; W34).

Brokers of the original say 404 there for ever, so it is compared with the end now and
then while nothing comes. All times in seconds, of one clock.
"""

from __future__ import annotations

from metatwist.client.reading.starting import KeptRange

END_CHECK_S = 30.0
"""How often a partition where nothing comes is compared with its log's end."""
BEYOND_S = 15.0
"""How long a position has to be beyond the end to be believed: the original's brokers
show messages before they are synced, and say an earlier end until then; a slave may be
behind."""


class EndWatch:
    """Of one position that is read on from; at first a look is due at once."""

    def __init__(self) -> None:
        self._due_s = 0.0
        self._beyond_since_s: float | None = None

    def is_due(self, now_s: float) -> bool:
        """Whether to ask now what is kept."""
        return now_s >= self._due_s

    def in_range(self, now_s: float) -> None:
        """Something came, or the position was set to what is kept."""
        self._due_s = now_s + END_CHECK_S
        self._beyond_since_s = None

    def is_beyond(self, now_s: float, position: int, kept: KeptRange) -> bool:
        """Take in what is kept; True once the position has been beyond it for long
        enough."""
        if position <= kept.latest:
            self.in_range(now_s)
            return False
        if self._beyond_since_s is None:
            self._beyond_since_s = now_s
        self._due_s = self._beyond_since_s + BEYOND_S
        return now_s >= self._due_s
