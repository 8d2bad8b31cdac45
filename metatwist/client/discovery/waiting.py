"""What both ways of discovery need: waiting, telling, and work that ends with them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Generic, TypeVar

from attrs import define, field
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    FirstError,
    fail,
    gatherResults,
    succeed,
)
from twisted.python.failure import Failure

from metatwist.client.errors import ClientError, ClientStopped, NotConnected, Where
from metatwist.client.interfaces import PublishRoutes

T = TypeVar("T")
RoutesListener = Callable[[PublishRoutes], object]


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All at once; the first failure is raised, and ends the others."""
    running = [Deferred.fromCoroutine(one) for one in work]
    try:
        return await gatherResults(running, consumeErrors=True)
    except FirstError as first:
        for one in running:
            one.cancel()
        first.subFailure.raiseException()


class Awaited(Generic[T]):
    """Something that is not known at first, and who waits for it.

    Nobody waits for longer than `patience_s`; then `failure`, if there is one, is why.
    """

    def __init__(self, reactor: Any, where: Where, patience_s: float) -> None:
        self.now: T | None = None
        self.failure: ClientError | None = None
        self._reactor = reactor
        self._where = where
        self._patience_s = patience_s
        self._waiting: dict[Deferred[T], Any] = {}

    def wait(self) -> Deferred[T]:
        """Fires with it, at once if it is known, and fails at once if that is hopeless.
        Cancelling stops the wait."""
        if self.now is not None:
            return succeed(self.now)
        if self.failure is not None and not self.failure.retriable:
            return fail(self.failure)
        waiting: Deferred[T] = Deferred(self._left)
        self._waiting[waiting] = self._reactor.callLater(
            self._patience_s, self._expired, waiting
        )
        return waiting

    def _left(self, waiting: Deferred[T]) -> None:
        timer = self._waiting.pop(waiting, None)
        if timer is not None:
            timer.cancel()

    def _expired(self, waiting: Deferred[T]) -> None:
        del self._waiting[waiting]
        text = f"no brokers known within {self._patience_s:g} s"
        waiting.errback(self.failure or NotConnected(text, (), self._where))

    def learn(self, value: T) -> bool:
        """That is it now; tells whether it is another than before."""
        changed = value != self.now
        self.now, self.failure = value, None
        for waiting in self._take():
            waiting.callback(value)
        return changed

    def give_up(self, error: ClientError) -> None:
        """Fail whoever waits."""
        for waiting in self._take():
            waiting.errback(error)

    def _take(self) -> Iterator[Deferred[T]]:
        # One at a time: what is called may cancel another.
        while self._waiting:
            waiting = next(iter(self._waiting))
            self._waiting.pop(waiting).cancel()
            yield waiting


@define
class Listeners:
    """Who is told of changed routes, in the order of asking."""

    _calls: dict[object, RoutesListener] = field(factory=dict)

    def add(self, call: RoutesListener) -> Callable[[], None]:
        """See IDiscovery.on_routes."""
        key = object()
        self._calls[key] = call

        def remove() -> None:
            self._calls.pop(key, None)

        return remove

    def tell(self, routes: PublishRoutes) -> None:
        """Call all."""
        for call in list(self._calls.values()):
            call(routes)


class Running:
    """Work that is under way and must not outlive a service."""

    def __init__(self, subject: str) -> None:
        self.stopped = False
        self._subject = subject
        self._all: set[Deferred[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> Deferred[T]:
        """Run it; fails with ClientStopped when `stop` comes first. Cancelling ends
        the work."""
        if self.stopped:
            work.close()
            return fail(self.error())
        running = Deferred.fromCoroutine(work)
        self._all.add(running)
        return running.addBoth(self._ended, running)

    def _ended(self, result: Any, running: Deferred[Any]) -> Any:
        self._all.discard(running)
        if isinstance(result, Failure) and result.check(CancelledError):
            return Failure(self.error()) if self.stopped else result
        return result

    def error(self) -> ClientStopped:
        """What everybody gets afterwards."""
        return ClientStopped(f"{self._subject} was stopped")

    def stop(self) -> None:
        """End all of it, for good."""
        self.stopped = True
        for running in list(self._all):
            running.cancel()
