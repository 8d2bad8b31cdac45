"""One client of ours, with the verbs of the Java driver's session (`Session.java`)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from twisted.internet.defer import DeferredList

from metatwist.client import (
    ClientError,
    ClientSettings,
    Message,
    MetaClient,
    OrderedSettings,
    PartitionName,
    Producer,
    SendResult,
)
from tests.interop.members.member_consumer import MemberConsumer, as_json

JsonObject = dict[str, Any]


class MemberSession:
    """A MetaClient, with one producer and any number of consumers."""

    def __init__(
        self,
        reactor: Any,
        name: str,
        directory: Path,
        write: Callable[[JsonObject], object],
    ) -> None:
        self._reactor = reactor
        self._name = name
        self._directory = directory
        self._write = write
        self._client: MetaClient | None = None
        self._made: Producer | None = None
        self._consumers: dict[str, MemberConsumer] = {}
        self._verbs: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
            "open": self._open,
            "close": self.close,
            "publish": self._publish,
            "partitions": self._partitions,
            "send": self._send,
            "sendWithCallback": self._send_with_callback,
            "sendOneWay": self._send_one_way,
            "sendOrdered": self._send_ordered,
            "consume": self._consume,
            "stopConsuming": self._stop_consuming,
            "browse": self._browse,
        }

    async def perform(self, request: JsonObject) -> Any:
        """Do what a request asks for; answers its result."""
        verb = request.pop("verb")
        members = {
            key: value
            for key, value in request.items()
            if key not in ("number", "session")
        }
        return await self._verbs[verb](**members)

    @property
    def _ours(self) -> MetaClient:
        if self._client is None:
            raise RuntimeError(f"session {self._name} is not open")
        return self._client

    @property
    def _producer(self) -> Producer:
        if self._made is None:
            self._made = self._ours.producer()
        return self._made

    async def _open(
        self, zkConnect: str, zkRoot: str, sessionTimeoutMs: int, **_unused: object
    ) -> None:
        settings = ClientSettings(
            root=zkRoot,
            session_timeout_s=sessionTimeoutMs / 1000,
            recover_directory=self._directory / f"{self._name}-recover",
        )
        self._client = MetaClient(self._reactor, zookeeper=zkConnect, settings=settings)
        self._client.startService()

    async def close(self) -> None:
        """Stop the client, consumers and producer included."""
        client, self._client, self._made = self._client, None, None
        self._consumers.clear()
        if client is not None:
            await client.stop()

    # -- producing ---------------------------------------------------------------------

    async def _publish(self, topic: str) -> None:
        await self._producer.publish(topic)

    async def _partitions(self, topic: str) -> list[str]:
        return [str(one) for one in await self._ours.partitions(topic)]

    async def _send(
        self, topic: str, messages: list[JsonObject], timeoutMs: int
    ) -> list[JsonObject]:
        outcomes: list[JsonObject] = []
        for message in messages:
            try:
                sending = self._producer.send(_read(topic, message), timeoutMs / 1000)
                outcomes.append(_outcome(await sending))
            except ClientError as error:
                outcomes.append(_outcome(error))
        return outcomes

    async def _send_with_callback(
        self, topic: str, messages: list[JsonObject], timeoutMs: int
    ) -> list[JsonObject]:
        every = [_read(topic, one) for one in messages]
        outcomes = await self._producer.send_many(every, timeoutMs / 1000)
        return [_outcome(one) for one in outcomes]

    async def _send_one_way(
        self, topic: str, messages: list[JsonObject], timeoutMs: int
    ) -> list[JsonObject]:
        one_way = self._ours.one_way_producer()
        for message in messages:
            one_way.send(_read(topic, message))
        await one_way.stop()
        return []

    async def _send_ordered(
        self, topic: str, messages: list[JsonObject], partition: str
    ) -> list[JsonObject]:
        chosen = PartitionName.parse(partition)
        if chosen is None:
            raise ValueError(f"{partition} is no partition")
        settings = OrderedSettings(
            {topic: {chosen.broker_id: chosen.partition + 1}},
            self._directory / f"{self._name}-ordered.sqlite",
        )
        ordered = self._ours.ordered_producer(settings, lambda *_: chosen)
        # All at once: their order is the producer's affair.
        sending = [ordered.send(_read(topic, one)) for one in messages]
        outcomes: Any = await DeferredList(sending, consumeErrors=True)
        await ordered.stop()
        return [
            _outcome(result if stored else result.value) for stored, result in outcomes
        ]

    # -- consuming ---------------------------------------------------------------------

    async def _consume(self, consumer: str, **how: Any) -> None:
        where = {"session": self._name, "consumer": consumer}
        made = MemberConsumer(
            self._ours,
            how,
            lambda event, members: self._write({"event": event, **where, **members}),
        )
        self._consumers[consumer] = made
        await made.start()

    async def _stop_consuming(self, consumer: str) -> None:
        await self._consumers.pop(consumer).stop()

    async def _browse(self, topic: str, **_unused: object) -> list[JsonObject]:
        return [as_json(one) async for one in self._ours.browser(topic)]


def _read(topic: str, message: JsonObject) -> Message:
    return Message(topic, b64decode(message["body"]), message["attribute"])


def _outcome(outcome: SendResult | BaseException) -> JsonObject:
    if not isinstance(outcome, SendResult):
        return {
            "success": False,
            "id": 0,
            "partition": None,
            "offset": -1,
            "error": repr(outcome),
        }
    return {
        "success": True,
        "id": outcome.message_id,
        "partition": str(outcome.partition),
        "offset": outcome.offset,
        "error": None,
    }
