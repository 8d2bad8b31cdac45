"""A part of the tree, copied with many requests at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from attrs import Factory, define
from twisted.internet.defer import Deferred, FirstError, gatherResults

from metatwist.coordination.errors import NoNode
from metatwist.coordination.interface import Data, ICoordinator

MOST_IN_FLIGHT = 100
WORK_BETWEEN_PAUSES = 500
_T = TypeVar("_T")
Pause = Callable[[], Awaitable[object]]


async def no_pause() -> None:
    """For whoever has nothing else to do meanwhile."""


@define
class Pacing:
    """Lets others have a turn after each 500 pieces of work, some tens of µs each: an
    embedded coordinator answers at once and would not."""

    pause: Pause = no_pause
    done: int = 0

    async def after(self, pieces: int) -> None:
        """Pause if enough was done since the last time."""
        self.done += pieces
        if self.done >= WORK_BETWEEN_PAUSES:
            self.done = 0
            await self.pause()


@define
class TreeCopy:
    """Children and data by path, as of when each was read.

    A path that was asked for and is missing had no znode. No more than `in_flight`
    requests wait for an answer at a time.
    """

    coordinator: ICoordinator
    pacing: Pacing = Factory(Pacing)
    in_flight: int = MOST_IN_FLIGHT
    children: dict[str, list[str]] = Factory(dict)
    data: dict[str, Data] = Factory(dict)

    async def read_children(self, paths: Iterable[str]) -> None:
        """Copy the names of children; raises the first CoordinationError but NoNode."""
        await self._each(paths, self.coordinator.get_children, self.children)

    async def read_data(self, paths: Iterable[str]) -> None:
        """Copy data; raises the first CoordinationError but NoNode."""
        await self._each(paths, self.coordinator.get, self.data)

    async def _each(
        self,
        paths: Iterable[str],
        ask: Callable[[str], Deferred[_T]],
        found: dict[str, _T],
    ) -> None:
        left = iter(paths)
        while batch := list(islice(left, WORK_BETWEEN_PAUSES)):
            waiting = _Waiting(iter(batch))
            workers = [
                Deferred.fromCoroutine(_work(waiting, ask, found))
                for _ in range(self.in_flight)
                if not waiting.over
            ]
            try:
                await gatherResults(workers, consumeErrors=True)
            except FirstError as first:
                first.subFailure.raiseException()
            await self.pacing.after(len(batch))


@define
class _Waiting:
    """The paths still to ask for; over early when one of them failed."""

    paths: Iterator[str]
    over: bool = False

    def __iter__(self) -> Iterator[str]:
        while not self.over:
            path = next(self.paths, None)
            if path is None:
                self.over = True
                return
            yield path


async def _work(
    waiting: _Waiting, ask: Callable[[str], Deferred[_T]], found: dict[str, _T]
) -> None:
    for path in waiting:
        try:
            found[path] = await ask(path)
        except NoNode:
            continue
        except BaseException:
            waiting.over = True
            raise
