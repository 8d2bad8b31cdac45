"""Our client at work: client_load.py HOW ZOOKEEPER TOPIC MESSAGES SIZE WIDTH.

HOW is many (`send_many`), send (one Deferred a message), consume (a plain listener) or
batches (pulled); the last two with `-bare` without the memory for duplicates. WIDTH
sends are in flight. Prints messages a second, as ClientLoad does, and the processor
time of a message.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from metatwist.client import (
    ClientError,
    ConsumerSettings,
    DeliverySettings,
    Message,
    MetaClient,
    Producer,
    ReceivedMessage,
)

BATCH = 250


class Count:
    """Messages done, by when."""

    def __init__(self, messages: int) -> None:
        self.messages = messages
        self.warm = messages // 3
        self.done = 0
        self.failures = 0
        self.ended: Deferred[None] = Deferred()
        self._began = (0.0, 0.0)

    def add(self, messages: int) -> None:
        """So many more."""
        before, self.done = self.done, self.done + messages
        if before < self.warm <= self.done:
            self._began = (time.perf_counter(), time.process_time())
        if before < self.messages <= self.done:
            self.ended.callback(None)

    def figures(self) -> dict[str, Any]:
        """To be asked when it has ended."""
        counted = self.done - self.warm
        elapsed_s = time.perf_counter() - self._began[0]
        cpu_s = time.process_time() - self._began[1]
        return {
            "rate": int(counted / elapsed_s),
            "failures": self.failures,
            "cpu_us": round(cpu_s / counted * 1e6, 2),
        }


async def send_many(producer: Producer, message: Message, count: Count, width: int):
    """Batches, `width` messages in flight."""
    waiting: deque[Deferred[Any]] = deque()
    batch = [message] * BATCH
    for _ in range(0, count.messages, BATCH):
        waiting.append(producer.send_many(batch))
        if len(waiting) * BATCH >= width:
            note(count, await waiting.popleft())
    for one in waiting:
        note(count, await one)


def note(count: Count, outcomes: list[Any]) -> None:
    """Count a batch."""
    count.failures += sum(isinstance(one, ClientError) for one in outcomes)
    count.add(len(outcomes))


async def send_each(producer: Producer, message: Message, count: Count, width: int):
    """One Deferred a message, `width` in flight."""
    left = count.messages

    def more() -> None:
        nonlocal left
        if left > 0:
            left -= 1
            producer.send(message).addCallbacks(stored, failed)

    def stored(_result: object) -> None:
        count.add(1)
        more()

    def failed(_failure: object) -> None:
        count.failures += 1
        stored(None)

    for _ in range(width):
        more()
    await count.ended


def settings_for(how: str) -> ConsumerSettings:
    """Of a group of its own."""
    remembered = 0 if how.endswith("-bare") else DeliverySettings().remembered
    delivery = DeliverySettings(remembered=remembered)
    return ConsumerSettings(f"load-{time.time_ns()}", delivery=delivery)


async def consume(client: MetaClient, topic: str, how: str, count: Count) -> None:
    """A plain listener, which counts."""
    done, warm, messages = 0, count.warm, count.messages

    def listener(_message: ReceivedMessage) -> None:
        nonlocal done
        done += 1
        if done == warm or done == messages:  # noqa: SIM109  (a tuple costs more)
            count.add(done - count.done)

    consumer = client.consumer(settings_for(how))
    consumer.subscribe(topic, listener)
    await consumer.start()
    await count.ended


async def pull(client: MetaClient, topic: str, how: str, count: Count) -> None:
    """Batches, as they come."""
    consumer = client.consumer(settings_for(how))
    consumer.subscribe(topic)
    await consumer.start()
    while count.done < count.messages:
        batch = await consumer.next_batch()
        count.add(len(batch.messages))
        batch.done()


async def main(reactor: Any, *arguments: str) -> None:
    """Do it once."""
    how, zookeeper, topic, messages, size_bytes, width = arguments
    client = MetaClient(reactor, zookeeper=zookeeper)
    client.startService()
    count = Count(int(messages))
    if how in ("many", "send"):
        producer = client.producer()
        await producer.publish(topic)
        message = Message(topic, bytes(int(size_bytes)))
        sending = send_many if how == "many" else send_each
        await sending(producer, message, count, int(width))
    else:
        work = consume if how.startswith("consume") else pull
        await work(client, topic, how, count)
    print(json.dumps(count.figures()), flush=True)
    await client.stop()


react(main, sys.argv[1:])
