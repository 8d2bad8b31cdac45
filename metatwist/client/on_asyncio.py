"""Bridges for programs of asyncio, under Twisted's `asyncioreactor`.

The client answers Deferreds, which a task of asyncio cannot await, and a coroutine that
it runs itself cannot await what is asyncio's. What is here turns each into the other:

    async def listen(message):
        await queue.put(message)  # an asyncio.Queue

    async with running(MetaClient(reactor, zookeeper=zookeeper)) as client:
        consumer = client.consumer("shop")
        consumer.subscribe("orders", asyncio_listener(listen))
        async with running(consumer):
            await as_future(client.producer().send(Message("orders", b"a book")))

All of it is for the thread of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

__all__ = ["as_future", "asyncio_listener", "messages", "running"]

T = TypeVar("T")
_END: Any = object()


def asyncio_listener(
    function: Callable[..., Coroutine[Any, Any, Any]],
) -> Callable[..., Deferred[Any]]:
    """A listener, with acks or without, whose coroutine runs as a task of asyncio; for
    hooks and rejection functions as well.

    Cancelling the Deferred, as a time-out or a lost partition does, cancels the task.
    A call outside of a running loop raises RuntimeError.
    """

    def listen(*arguments: Any) -> Deferred[Any]:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "asyncio_listener needs Twisted's asyncioreactor, installed first"
            ) from None
        return Deferred.fromFuture(loop.create_task(function(*arguments)))

    return listen


def as_future(waiting: Deferred[T] | Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """A future for a Deferred, or for a coroutine that awaits Deferreds, to be awaited
    in a task. Cancelling it, as `asyncio.wait_for` does, cancels that."""
    loop = asyncio.get_running_loop()
    if not isinstance(waiting, Deferred):
        waiting = Deferred.fromCoroutine(waiting)
    return waiting.asFuture(loop)


def messages(source: AsyncIterable[T]) -> AsyncIterator[T]:
    """What a consumer or a browser iterates over, for `async for` in a task; the rules
    of `async for message in consumer` hold."""
    return _Messages(source)


@asynccontextmanager
async def running(thing: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """`async with` of a client, consumer or browser, in a task: started, and stopped at
    the end of the block."""
    begun = await as_future(thing.__aenter__())
    try:
        yield begun
    finally:
        await as_future(_left(thing))


async def _left(thing: AbstractAsyncContextManager[Any]) -> None:
    await thing.__aexit__(None, None, None)


class _Messages(AsyncIterator[T]):
    """One `async for`. It is no generator, as those are ended late when a loop is left,
    and the consumer learns of that from the end of its iterator."""

    def __init__(self, source: AsyncIterable[T]) -> None:
        self._iterator = source.__aiter__()

    async def __anext__(self) -> T:
        found = await as_future(_next(self._iterator))
        if found is _END:
            raise StopAsyncIteration
        return found


async def _next(iterator: AsyncIterator[T]) -> T:
    try:
        return await iterator.__anext__()
    except StopAsyncIteration:
        end: T = _END
        return end
