"""One consumer of ours that tells each message as the Java driver does."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client import (
    ClientStopped,
    CommitSettings,
    Consumer,
    ConsumerHooks,
    ConsumerSettings,
    Event,
    FetchSettings,
    MetaClient,
    ReceivedMessage,
    Start,
    Strategy,
)

JsonObject = dict[str, Any]
Tell = Callable[[str, JsonObject], object]

_END = 2**63 - 1
_STRATEGIES = {"DEFAULT": Strategy.DEFAULT, "CONSIST": Strategy.CONSISTENT_HASH}


class MemberConsumer:
    """`how` is as `DriverSession.begin_consuming` sends it; `tell` takes an event's
    name and members."""

    _log = Logger()

    def __init__(self, client: MetaClient, how: JsonObject, tell: Tell) -> None:
        self._how = how
        self._tell = tell
        self._consumer: Consumer = client.consumer(
            _settings(how), hooks=ConsumerHooks(on_event=self._happened)
        )
        pulled = how["pulled"] is not None
        for topic in how["topics"]:
            self._consumer.subscribe(topic, None if pulled else self._received)

    async def start(self) -> None:
        """Join the group."""
        await self._consumer.start()
        loops = {"iterator": self._iterate, "batches": self._take}
        if self._how["pulled"] is not None:
            reading = Deferred.fromCoroutine(loops[self._how["pulled"]]())
            reading.addErrback(self._broke)

    def stop(self) -> Deferred[None]:
        """Leave the group."""
        return self._consumer.stop()

    async def _iterate(self) -> None:
        async for message in self._consumer:
            self._received(message)

    async def _take(self) -> None:
        left: int = self._how["most"]
        while left:
            try:
                batch = await self._consumer.next_batch(left)
            except ClientStopped:
                return
            for message in batch.messages:
                self._received(message)
            left -= len(batch.messages)
            await batch.commit()
        self._tell("taken", {})

    def _broke(self, failure: Failure) -> None:
        self._log.failure("pulling", failure)
        self._tell("failed", {"error": repr(failure.value)})

    def _received(self, message: ReceivedMessage) -> None:
        self._tell("received", {"at": time.monotonic(), **as_json(message)})

    def _happened(self, event: Event) -> None:
        partitions = [str(one) for one in getattr(event, "partitions", ())]
        members = {"kind": type(event).__name__, "text": str(event)}
        self._tell(
            "happened", {**members, "partitions": partitions, "at": time.monotonic()}
        )


def as_json(message: ReceivedMessage) -> JsonObject:
    """As `Messages.java` writes it, and where it lies."""
    return {
        "topic": message.topic,
        "id": message.message_id,
        "body": b64encode(message.body).decode(),
        "attribute": message.attribute,
        "partition": str(message.partition),
        "nextOffset": message.next_offset,
    }


def _settings(how: JsonObject) -> ConsumerSettings:
    offset: int = how["offset"]
    return ConsumerSettings(
        how["group"],
        consumer_id=how["consumerId"],
        strategy=_STRATEGIES[how["strategy"]],
        start=Start.LATEST if offset == _END else offset,
        fetch=FetchSettings(size_bytes=how["maxSize"]),
        commit=CommitSettings(period_s=how["commitPeriodMs"] / 1000),
    )
