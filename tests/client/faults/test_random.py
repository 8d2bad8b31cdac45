"""Random faults, users and members, step by step; METATWIST_FAULT_SEEDS for more."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

from metatwist.client import Producer, ProducerSettings
from tests.client.faults.listeners import KINDS, PULLERS
from tests.client.faults.world import FaultCase, Node, World

SEEDS = int(os.environ.get("METATWIST_FAULT_SEEDS", "100"))
FIRST = int(os.environ.get("METATWIST_FAULT_FIRST_SEED", "0"))
MOST_NODES = 3
QUIET_S = 3.0
"""After it neither our listeners nor late answers of coordinators have timers."""
PRODUCERS = (
    ProducerSettings(timeout_s=5),
    ProducerSettings(may_duplicate=True),
    ProducerSettings(retries=0, most_buffered_bytes=4000),
)


class RandomRun:
    """One world, in which each step does what is drawn."""

    def __init__(self, case: FaultCase, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(case, {"t": self.random.randint(1, 4)}, brokers=2)
        self.producers: dict[Node, list[Producer]] = {}
        self.steps: tuple[Callable[[], object], ...] = (
            self.send,
            self.send,
            self.send,
            self.join,
            self.leave,
            self.kill,
            self.restart,
            self.freeze,
            self.thaw,
            self.cut,
            self.expire,
            self.suspend,
            self.resume,
            self.pause,
            self.go_on,
            self.rewind,
            self.close,
            self.open,
            self.lag,
            self.fail,
        )
        self.join()

    def play(self, steps: int) -> None:
        """Take steps, then let all be well and see."""
        for _ in range(steps):
            self.random.choice(self.steps)()
            self.world.run(self.random.choice([0.25, 0.25, 1, 3, 12]))
        self.heal()
        self.world.settle(600)
        self.world.run(QUIET_S)
        self.world.finish()

    def heal(self) -> None:
        """End all faults; somebody consumes."""
        for _ in self.world.brokers:
            self.restart()
            self.thaw()
            self.open()
        for node in self.world.nodes:
            node.coordinator.latency_s = node.coordinator.fault_rate = 0
            if node.coordinator.state.name == "SUSPENDED":
                node.coordinator.resume()
            if node.consumer is not None:
                node.consumer.resume()
        if not self.world.nodes:
            self.join()

    # -- steps ------------------------------------------------------------------------

    def _node(self) -> Node | None:
        nodes = self.world.nodes
        return self.random.choice(nodes) if nodes else None

    def join(self) -> None:
        """A new process."""
        if len(self.world.nodes) < MOST_NODES:
            node = self.world.node()
            self.world.join(node, self.random.choice([*KINDS, *PULLERS]))
            self.producers[node] = [node.client.producer(one) for one in PRODUCERS]

    def leave(self) -> None:
        """The end of a process, in order."""
        node = self._node()
        if node is not None:
            del self.producers[node]
            self.world.stop(node, deadline_s=self.random.choice([None, 0.5, 5]))

    def send(self) -> None:
        """Some messages."""
        node = self._node()
        if node is not None:
            producer = self.random.choice(self.producers[node])
            size = self.random.choice([1, 100, 2000])
            self.world.send(producer, "x" * size, self.random.randint(1, 6))

    def kill(self) -> None:
        """A broker goes."""
        broker = self.random.choice(self.world.brokers)
        broker.refuse_connections = True
        broker.drop_connections()
        if self.random.random() < 0.5:
            self.world.cluster.withdraw(broker)

    def restart(self) -> None:
        """All that are gone come back."""
        for broker in self.world.brokers:
            broker.refuse_connections = False
            self.world.cluster.withdraw(broker)
            self.world.cluster.register(broker)

    def freeze(self) -> None:
        """A broker stands still."""
        reads = self.random.random() < 0.5
        self.random.choice(self.world.brokers).freeze(reads=reads)

    def thaw(self) -> None:
        """All that stand still go on."""
        for broker in self.world.brokers:
            broker.thaw()

    def cut(self) -> None:
        """Connections end, now or within an answer."""
        after_bytes = self.random.choice([None, *range(1, 200, 7)])
        self.random.choice(self.world.brokers).drop_connections(after_bytes)

    def expire(self) -> None:
        """A session ends."""
        node = self._node()
        if node is not None:
            self.world.cluster.expire_session(node.coordinator)

    def lag(self) -> None:
        """A coordinator answers late."""
        node = self._node()
        if node is not None:
            node.coordinator.latency_s = self.random.choice([0, 0.1, 0.4, 2])

    def fail(self) -> None:
        """A coordinator fails now and then."""
        node = self._node()
        if node is not None:
            node.coordinator.faults = self.random
            node.coordinator.fault_rate = self.random.choice([0, 0.1, 0.5])

    def suspend(self) -> None:
        """A coordinator is away."""
        node = self._node()
        if node is not None:
            node.coordinator.suspend()

    def resume(self) -> None:
        """And back."""
        node = self._node()
        if node is not None and node.coordinator.state.name == "SUSPENDED":
            node.coordinator.resume()

    def pause(self) -> None:
        """A consumer pauses."""
        node = self._node()
        if node is not None and node.consumer is not None:
            node.consumer.pause()

    def go_on(self) -> None:
        """All go on."""
        for node in self.world.nodes:
            if node.consumer is not None:
                node.consumer.resume()

    def rewind(self) -> None:
        """A consumer seeks back to the start of a partition."""
        node = self._node()
        if node is not None and node.consumer is not None and node.consumer.assigned:
            node.consumer.seek(self.random.choice(node.consumer.assigned), 0)

    def close(self) -> None:
        """An operator closes a partition."""
        self.random.choice(self.world.brokers).close_partition("t", 0)

    def open(self) -> None:
        """And opens it."""
        for broker in self.world.brokers:
            broker.open_partition("t", 0)


class RandomTest(FaultCase):
    """Whatever happens in whatever order."""

    def test_random(self) -> None:
        """At least once holds, nothing is committed too early, outcomes are right,
        nothing hangs and nothing is left."""
        for seed in range(FIRST, FIRST + SEEDS):
            try:
                RandomRun(self, seed).play(30)
            except BaseException as error:
                error.args = (f"seed {seed}: {error}",)
                raise
