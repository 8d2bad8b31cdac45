"""How much a consumer may have fetched ahead, over all its partitions."""

from __future__ import annotations

from collections.abc import Callable


class PrefetchBudget:
    """Bytes of batches that are not done yet.

    Only what has arrived counts, so that a fetch that waits for data keeps nobody else
    from fetching: the bound may be passed by one fetch for each partition.

    Those who wait for room are called in the order in which they came, as many as there
    is room for; one that does not fit keeps its place. It may keep others waiting for
    as long as its own batches are not done, after which it needs no room to go on: so
    nobody starves.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.used_bytes = 0
        self._waiting: dict[Callable[[], None], int] = {}

    def has_room(self, size_bytes: int) -> bool:
        """Whether that much more fits."""
        return self.used_bytes + size_bytes <= self.most_bytes

    def take(self, size_bytes: int) -> None:
        """That much has arrived."""
        self.used_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """That much is done: see who can go on."""
        self.used_bytes -= size_bytes
        promised = self.used_bytes  # as if the fetches of those called were here
        while self._waiting:
            call, wanted = next(iter(self._waiting.items()))
            promised = max(promised, self.used_bytes) + wanted
            if promised > self.most_bytes:
                return
            del self._waiting[call]
            call()

    def when_room(self, size_bytes: int, call: Callable[[], None]) -> None:
        """Call once, when something was given back and that much fits. Who waits
        already keeps its place."""
        self._waiting[call] = size_bytes

    def forget(self, call: Callable[[], None]) -> None:
        """Do not call."""
        self._waiting.pop(call, None)
