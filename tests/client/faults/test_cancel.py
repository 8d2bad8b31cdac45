"""Every public Deferred, cancelled at every stage, with brokers well and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from metatwist.client import ClientError, Message, TopicPartition
from metatwist.coordination.names import PartitionName
from tests.client.faults.world import TOPIC, FaultCase, Node, World

STAGES = (0, 1, 2, 3, 5, 8, 20, 40)
"""After how many turns of the reactor it is cancelled."""
LATER_S = 6
ONLY = TopicPartition(TOPIC, PartitionName(0, 0))
Begin = Callable[[World, Node], Deferred[Any]]


def start(world: World, node: Node) -> Deferred[Any]:
    """Of a consumer."""
    consumer = node.client.consumer("another").subscribe(TOPIC, print)
    return consumer.start()


def stop_consumer(world: World, node: Node) -> Deferred[Any]:
    """Of a consumer that has joined."""
    assert node.consumer is not None
    return node.consumer.stop(3)


def commit(world: World, node: Node) -> Deferred[Any]:
    """Of all partitions."""
    assert node.consumer is not None
    return node.consumer.commit()


def next_batch(world: World, node: Node) -> Deferred[Any]:
    """Of messages that are there."""
    consumer = node.client.consumer("pulling").subscribe(TOPIC)
    consumer.start().addErrback(lambda _: None)
    return consumer.next_batch()


def commit_batch(world: World, node: Node) -> Deferred[Any]:
    """Of a batch."""
    consumer = node.client.consumer("pulling").subscribe(TOPIC)
    consumer.start().addErrback(lambda _: None)
    return consumer.next_batch().addCallback(lambda batch: batch.commit())


def send(world: World, node: Node) -> Deferred[Any]:
    """To a topic that was not published before."""
    return node.client.producer().send(Message("u", b"x"))


def send_again(world: World, node: Node) -> Deferred[Any]:
    """Over a connection that there is."""
    producer = node.client.producer()
    producer.publish(TOPIC).addErrback(lambda _: None)
    return producer.send(Message(TOPIC, b"cancelled"))


def send_many(world: World, node: Node) -> Deferred[Any]:
    """Several."""
    messages = [Message(TOPIC, b"cancelled") for _ in range(5)]
    return node.client.producer().send_many(messages)


def publish(world: World, node: Node) -> Deferred[Any]:
    """Of a topic."""
    return node.client.producer().publish("u")


def publish_default(world: World, node: Node) -> Deferred[Any]:
    """Of a default topic."""
    return node.client.producer().default_topic(TOPIC)


def flush(world: World, node: Node) -> Deferred[Any]:
    """With a message under way."""
    producer = node.client.producer()
    producer.send(Message(TOPIC, b"cancelled")).addErrback(lambda _: None)
    return producer.flush()


def changed(world: World, node: Node) -> Deferred[Any]:
    """Of a topic."""
    return node.client.producer().changed(TOPIC)


def stop_producer(world: World, node: Node) -> Deferred[Any]:
    """With a message under way."""
    producer = node.client.producer()
    producer.send(Message(TOPIC, b"cancelled")).addErrback(lambda _: None)
    return producer.stop(3)


def partitions(world: World, node: Node) -> Deferred[Any]:
    """Of a topic."""
    return node.client.partitions(TOPIC)


def kept(world: World, node: Node) -> Deferred[Any]:
    """Of a partition."""
    return node.client.kept(ONLY)


def stats(world: World, node: Node) -> Deferred[Any]:
    """Of all brokers."""
    return node.client.stats()


def browse(world: World, node: Node) -> Deferred[Any]:
    """The first message."""
    return Deferred.fromCoroutine(node.client.browser(TOPIC).__anext__())


def stop(world: World, node: Node) -> Deferred[Any]:
    """Of the client."""
    return node.client.stop(3)


CALLS: tuple[Begin, ...] = (
    start,
    stop_consumer,
    commit,
    next_batch,
    commit_batch,
    send,
    send_again,
    send_many,
    publish,
    publish_default,
    flush,
    changed,
    stop_producer,
    partitions,
    kept,
    stats,
    browse,
    stop,
)


def well(world: World, node: Node) -> None:
    """All works."""


def frozen(world: World, node: Node) -> None:
    """The broker answers nothing."""
    world.brokers[0].freeze()


def gone(world: World, node: Node) -> None:
    """The broker is gone."""
    world.brokers[0].refuse_connections = True
    world.brokers[0].drop_connections()


def suspended(world: World, node: Node) -> None:
    """The coordinator is away."""
    node.coordinator.suspend()


STATES = (well, frozen, gone, suspended)


class CancelTest(FaultCase):
    """A call that is cancelled, or overtaken by the end of the client, is over."""

    def _world(self, state: Callable[[World, Node], None]) -> tuple[World, Node]:
        world = World(self, {TOPIC: 2, "u": 1})
        node = world.node()
        for number in range(4):
            world.brokers[0].deliver(TOPIC, b"there", partition=number % 2)
        world.join(node)
        world.clock.advance(0.5)
        state(world, node)
        return world, node

    def _heal(self, world: World, node: Node) -> None:
        world.brokers[0].thaw()
        world.brokers[0].refuse_connections = False
        if node.coordinator.state.name == "SUSPENDED":
            node.coordinator.resume()

    def _cancel(self, call: Begin, state: Any, turns: int) -> None:
        world, node = self._world(state)
        fired: list[Any] = []
        waiting = call(world, node).addBoth(fired.append)
        for _ in range(turns):
            world.clock.advance(0.01 if turns > 15 else 0)
        waiting.cancel()
        self.assertEqual(len(fired), 1, f"{call.__name__} {state.__name__} {turns}")
        world.clock.advance(1)
        self._heal(world, node)
        world.clock.advance(2)
        world.finish()

    def _both(self, call: Begin, state: Any) -> None:
        world, node = self._world(state)
        producer = node.client.producer()
        self.patch(node.client, "producer", lambda: producer)
        fired: list[Any] = []
        first, second = call(world, node), call(world, node)
        _cancels(first, second)
        _cancels(second, first)
        for one in (first, second):
            one.addBoth(fired.append)
        world.run(1)
        self._heal(world, node)
        world.run(LATER_S)
        world.stop(deadline_s=2)
        world.run(LATER_S)
        self.assertEqual(len(fired), 2, f"{call.__name__} {state.__name__}")
        world.finish()

    def _stop(self, call: Begin, state: Any, turns: int) -> None:
        world, node = self._world(state)
        fired: list[Any] = []
        call(world, node).addBoth(fired.append)
        for _ in range(turns):
            world.clock.advance(0.01 if turns > 15 else 0)
        world.stop(deadline_s=2)
        name = f"{call.__name__} {state.__name__} {turns}"
        self.assertEqual(len(fired), 1, name)
        error = getattr(fired[0], "value", None)
        if error is not None:
            self.assertIsInstance(error, (ClientError, StopAsyncIteration), name)
        self._heal(world, node)
        # Nodes in a coordinator that was away are deleted later: it is not ours.
        world.run(LATER_S)
        world.finish()


def _cancels(first: Deferred[Any], second: Deferred[Any]) -> None:
    """The end of one cancels the other, as an application may."""

    def cancel(result: Any) -> Any:
        second.cancel()
        return result

    first.addBoth(cancel)


def _add_tests() -> None:
    for call in CALLS:

        def cancelled(self: CancelTest, call: Begin = call) -> None:
            for state in STATES:
                for turns in STAGES:
                    self._cancel(call, state, turns)

        def overtaken(self: CancelTest, call: Begin = call) -> None:
            for state in STATES:
                for turns in STAGES:
                    self._stop(call, state, turns)

        def both(self: CancelTest, call: Begin = call) -> None:
            for state in STATES:
                self._both(call, state)

        name = call.__name__
        cancelled.__doc__ = f"A cancelled `{name}` fires at once, and all goes on."
        overtaken.__doc__ = f"`{name}` fires when the client is stopped, at the latest."
        both.__doc__ = f"The end of one `{name}` may cancel another."
        setattr(CancelTest, f"test_{name}_cancelled", cancelled)
        setattr(CancelTest, f"test_{name}_cancels_another", both)
        setattr(CancelTest, f"test_{name}_overtaken", overtaken)


_add_tests()
