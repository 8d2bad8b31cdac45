"""The bridges to asyncio, and what is said to who needs one; a loop of asyncio runs,
and Deferreds are fired by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client import ListenerFailed, PartitionName, ReceivedMessage
from metatwist.client.delivery.outcomes import deferred_from, listener_failed
from metatwist.client.on_asyncio import (
    as_future,
    asyncio_listener,
    messages,
    running,
)

MESSAGE = ReceivedMessage("orders", PartitionName(0, 0), 0, 23, 1, 0, b"one")


class Thing:
    """Is entered and left by coroutines that await Deferreds."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def __aenter__(self) -> Thing:
        """Start."""
        await succeed(None)
        self.told.append("started")
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop."""
        await succeed(None)
        self.told.append("stopped")


class Source:
    """Iterates over what is there, each found by a Deferred."""

    def __init__(self, *found: str) -> None:
        self.found = list(found)

    def __aiter__(self) -> AsyncIterator[str]:
        """Itself."""
        return self

    async def __anext__(self) -> str:
        """The next."""
        await succeed(None)
        if not self.found:
            raise StopAsyncIteration
        return self.found.pop(0)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """In a loop of its own."""
    return asyncio.run(asyncio.wait_for(work, 10))


class AsFutureTests(SynchronousTestCase):
    """as_future."""

    def test_result(self) -> None:
        """It has the Deferred's result."""
        waiting: Deferred[int] = Deferred()

        async def main() -> int:
            asyncio.get_running_loop().call_soon(waiting.callback, 7)
            return await as_future(waiting)

        self.assertEqual(run(main()), 7)

    def test_failure(self) -> None:
        """It raises what the Deferred failed with."""
        waiting: Deferred[int] = Deferred()

        async def main() -> int:
            waiting.errback(ValueError("no"))
            return await as_future(waiting)

        with self.assertRaises(ValueError):
            run(main())

    def test_cancelled(self) -> None:
        """Cancelling the future cancels the Deferred."""
        cancelled: list[object] = []
        waiting: Deferred[int] = Deferred(cancelled.append)

        async def main() -> None:
            future = as_future(waiting)
            future.cancel()
            await asyncio.sleep(0)

        run(main())
        self.assertEqual(cancelled, [waiting])


class ListenerTests(SynchronousTestCase):
    """asyncio_listener."""

    def test_awaits(self) -> None:
        """The Deferred fires when the coroutine has ended, with acks or without."""
        seen: list[object] = []

        async def listen(*arguments: object) -> None:
            await asyncio.sleep(0)
            seen.append(arguments)

        async def main() -> None:
            listener = asyncio_listener(listen)
            await as_future(listener("message"))
            await as_future(listener("message", "acks"))

        run(main())
        self.assertEqual(seen, [("message",), ("message", "acks")])

    def test_raises(self) -> None:
        """What it raises is the Deferred's failure."""

        async def listen(_: object) -> None:
            await asyncio.sleep(0)
            raise ValueError("no")

        async def main() -> None:
            await as_future(asyncio_listener(listen)("message"))

        with self.assertRaises(ValueError):
            run(main())

    def test_cancelled(self) -> None:
        """Cancelling the Deferred cancels the task."""
        seen: list[str] = []

        async def listen(_: object) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def main() -> None:
            ended = asyncio_listener(listen)("message")
            await asyncio.sleep(0)
            ended.cancel()
            ended.addErrback(lambda _: None)
            await asyncio.sleep(0)

        run(main())
        self.assertEqual(seen, ["cancelled"])

    def test_other_reactor(self) -> None:
        """Without a loop the error says what is missing."""

        async def listen(_: object) -> None:
            raise AssertionError

        with self.assertRaisesRegex(RuntimeError, "asyncioreactor"):
            asyncio_listener(listen)("message")

    def test_forgotten(self) -> None:
        """A listener's coroutine that needs it fails with an error that names it."""

        async def listen() -> None:
            await asyncio.sleep(0.01)

        async def main() -> BaseException:
            ended = deferred_from(listen())
            assert ended is not None
            return self.failureResultOf(ended).value

        error = listener_failed(MESSAGE, run(main()))
        self.assertIsInstance(error, ListenerFailed)
        self.assertIn("asyncio_listener()", str(error))
        other = listener_failed(MESSAGE, RuntimeError("no paper"))
        self.assertNotIn("asyncio", str(other))


class BlockTests(SynchronousTestCase):
    """running and messages."""

    def test_running(self) -> None:
        """It is started before the block and stopped behind it, also by an error."""
        thing = Thing()

        async def main() -> None:
            async with running(thing) as given:
                assert given is thing
                thing.told.append("block")
                raise ValueError("no")

        with self.assertRaises(ValueError):
            run(main())
        self.assertEqual(thing.told, ["started", "block", "stopped"])

    def test_messages(self) -> None:
        """All come, in order, and the loop ends."""

        async def main() -> list[str]:
            return [one async for one in messages(Source("one", "two"))]

        self.assertEqual(run(main()), ["one", "two"])

    def test_cancelled_wait(self) -> None:
        """Cancelling the task that waits for the next cancels what it waits for."""
        waiting: Deferred[str] = Deferred()

        class Never:
            def __aiter__(self) -> AsyncIterator[str]:
                return self

            async def __anext__(self) -> str:
                return await waiting

        async def main() -> None:
            async for _ in messages(Never()):
                raise AssertionError

        async def both() -> None:
            task = asyncio.ensure_future(main())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await asyncio.sleep(0)

        run(both())
        self.assertTrue(waiting.called)
        waiting.addErrback(lambda failure: failure.trap(CancelledError))
