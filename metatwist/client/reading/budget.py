"""How much a consumer may have fetched ahead, over all its partitions."""

from __future__ import annotations

from collections.abc import Callable


class PrefetchBudget:
    """Bytes of batches that are not done yet.

    Only what has arrived counts, so that a fetch that waits for data keeps nobody else
    from fetching: the bound may be passed by one fetch for each partition.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.used_bytes = 0
        self._waiting: dict[Callable[[], None], None] = {}

    def has_room(self, size_bytes: int) -> bool:
        """Whether that much more fits."""
        return self.used_bytes + size_bytes <= self.most_bytes

    def take(self, size_bytes: int) -> None:
        """That much has arrived."""
        self.used_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """That much is done: all who wait look again, the longest waiting first."""
        self.used_bytes -= size_bytes
        waiting, self._waiting = self._waiting, {}
        for call in waiting:
            call()

    def when_room(self, call: Callable[[], None]) -> None:
        """Call once, when something was given back. Idempotent."""
        self._waiting[call] = None

    def forget(self, call: Callable[[], None]) -> None:
        """Do not call."""
        self._waiting.pop(call, None)
