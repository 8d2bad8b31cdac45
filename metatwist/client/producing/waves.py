"""Which messages `flush` waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred, succeed

T = TypeVar("T")


class Wave(Generic[T]):
    """The messages begun between two calls of `flush`."""

    __slots__ = ("open", "sealed")

    def __init__(self) -> None:
        self.open: set[T] = set()
        self.sealed: list[Deferred[None]] = []


class Waves(Generic[T]):
    """All messages that have not ended, oldest wave first.

    Whoever begins a message adds it to `latest.open`; when it ends it is discarded
    there, and `end` is called if its wave is `sealed` and nothing is open in it.
    """

    def __init__(self) -> None:
        self.latest: Wave[T] = Wave()
        self._waves = [self.latest]

    def __iter__(self) -> Iterator[T]:
        """All that is open."""
        for wave in self._waves:
            yield from wave.open

    def flush(self) -> Deferred[None]:
        """Fires when all that has begun so far has ended. Cancelling stops the wait
        alone."""
        wave = self.latest
        if len(self._waves) == 1 and not wave.open:
            return succeed(None)
        flushed: Deferred[None] = Deferred()
        if not wave.open:
            self._waves[-2].sealed.append(flushed)
            return flushed
        wave.sealed.append(flushed)
        self.latest = Wave()
        self._waves.append(self.latest)
        return flushed

    def end(self) -> None:
        """A sealed wave is over: tell, if those before it are over too."""
        while len(self._waves) > 1 and not self._waves[0].open:
            for flushed in self._waves.pop(0).sealed:
                if not flushed.called:
                    flushed.callback(None)
