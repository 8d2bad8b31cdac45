"""Listeners with the habits of bad ones; all say when they are done with a message.

`done(message)` is called at the moment from which the message counts as processed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, deferLater
from twisted.python.failure import Failure

from metatwist.client import (
    Consumer,
    NotOwner,
    OffsetStorageFailed,
    ReceivedMessage,
    in_thread_pool,
)

Done = Callable[[ReceivedMessage], object]
Listener = Callable[[ReceivedMessage], Any]
POISON = b"poison"
SLOW_S = 1.5


class Seen:
    """How often each message has been handed over, by partition and offset."""

    def __init__(self) -> None:
        self._times: Counter[tuple[object, int]] = Counter()

    def first_times(self, message: ReceivedMessage, count: int = 1) -> bool:
        """Whether this is one of the first `count` deliveries of a message."""
        key = (message.partition, message.offset)
        self._times[key] += 1
        return self._times[key] <= count


def plain(clock: Clock, done: Done) -> Listener:
    """Returns at once."""
    return lambda message: done(message) and None


def raising(clock: Clock, done: Done) -> Listener:
    """Raises on every third message, twice; always on poison."""
    seen = Seen()

    def listen(message: ReceivedMessage) -> None:
        again = seen.first_times(message, 2)
        if message.body.startswith(POISON):
            raise ValueError("poison")
        if again and message.body.endswith((b"0", b"3", b"6", b"9")):
            raise ValueError(f"not yet: {message.body!r}")
        done(message)

    return listen


def late(clock: Clock, done: Done) -> Listener:
    """Answers a Deferred that fires after SLOW_S."""
    return lambda message: deferLater(clock, SLOW_S, done, message)


def never(clock: Clock, done: Done) -> Listener:
    """Answers a Deferred that never fires to each fifth message, the first time."""
    seen = Seen()

    def listen(message: ReceivedMessage) -> Deferred[None] | None:
        if message.body.endswith((b"0", b"5")) and seen.first_times(message):
            return Deferred()
        done(message)
        return None

    return listen


def coroutine(clock: Clock, done: Done) -> Listener:
    """Is a coroutine function, that raises the first time on each third message."""
    seen = Seen()

    async def listen(message: ReceivedMessage) -> None:
        await deferLater(clock, 0.1)
        if message.body.endswith((b"0", b"3", b"6")) and seen.first_times(message):
            raise KeyError("in a coroutine")
        done(message)

    return listen


def nap(clock: Clock) -> Deferred[None]:
    """SLOW_S that nobody can cut short; `wake_listener` names its timer."""
    over: Deferred[None] = Deferred()

    def wake_listener() -> None:
        over.callback(None)

    clock.callLater(SLOW_S, wake_listener)
    return over


def stubborn(clock: Clock, done: Done) -> Listener:
    """Is a coroutine function that ignores its cancellation for a while."""
    seen = Seen()

    async def listen(message: ReceivedMessage) -> None:
        if message.body.endswith((b"2", b"7")) and seen.first_times(message):
            try:
                await Deferred()
            except BaseException:
                await nap(clock)
                return
        done(message)

    return listen


class SlowThreads:
    """The thread pool of a reactor whose threads take SLOW_S of a clock's time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def getThreadPool(self) -> SlowThreads:
        """See IReactorThreads."""
        return self

    def callInThreadWithCallback(
        self, told: Callable[..., object], call: Callable[..., object], *arguments: Any
    ) -> None:
        """See IThreadPool."""

        def run() -> None:
            try:
                answer = call(*arguments)
            except Exception as error:
                told(False, Failure(error))
            else:
                told(True, answer)

        self._clock.callLater(SLOW_S, run)

    def callFromThread(self, call: Callable[..., object], *arguments: Any) -> None:
        """See IReactorFromThreads."""
        self._clock.callLater(0, call, *arguments)


def threaded(clock: Clock, done: Done) -> Listener:
    """Takes its time on a thread."""
    return in_thread_pool(SlowThreads(clock), lambda message: done(message))


async def iterated(clock: Clock, consumer: Consumer, done: Done) -> None:
    """An `async for`."""
    async for message in consumer:
        await deferLater(clock, 0.1)
        done(message)


async def batched(clock: Clock, consumer: Consumer, done: Done) -> None:
    """Batches that are committed one by one, as long as they are ours."""
    while True:
        batch = await consumer.next_batch(3)
        for message in batch.messages:
            await deferLater(clock, 0.1)
            done(message)
        with suppress(NotOwner, OffsetStorageFailed):
            await batch.commit()


PULLERS = {"iterated": iterated, "batched": batched}
"""They ask for messages instead of listening; ClientStopped ends them, or earlier."""

KINDS: dict[str, Callable[[Clock, Done], Listener]] = {
    "plain": plain,
    "raising": raising,
    "late": late,
    "never": never,
    "coroutine": coroutine,
    "stubborn": stubborn,
    "threaded": threaded,
}
