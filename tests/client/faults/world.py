"""Clients, brokers and a coordinator in memory, with a ledger of what happens."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client import (
    ClientSettings,
    ClientStopped,
    CommitSettings,
    Consumer,
    ConsumerHooks,
    ConsumerSettings,
    DeliverySettings,
    Event,
    Message,
    MetaClient,
    Producer,
)
from metatwist.client.settings import Backoff
from metatwist.coordination.errors import NoNode
from metatwist.coordination.formats import OffsetRecord, read_offset
from metatwist.coordination.names import PartitionName
from metatwist.testing import FakeBroker, FakeCluster, FakeCoordinator
from tests.client.faults.ledger import Ledger, Sent
from tests.client.faults.listeners import KINDS, PULLERS
from tests.client.group.group_case import Connection

TOPIC = "t"
GROUP = "g"
STEP_S = 0.25
STOP_LIMIT_S = 90.0
SETTLE_LIMIT_S = 300.0
DELIVERY = DeliverySettings(
    most_deliveries=4, backoff=Backoff(0.2, 1), listener_timeout_s=4
)


class Coordinator(Connection, FakeCoordinator):
    """A session that can also answer late (`latency_s`), or fail by `fault_rate` as
    `faults` draws it, be the request carried out or not."""


@define(eq=False)
class Node:
    """One process, as it were: a client with a session of its own."""

    client: MetaClient
    coordinator: Coordinator
    consumer: Consumer | None = None
    events: list[Event] = field(factory=list)


class FaultCase(SynchronousTestCase):
    """Nothing may be logged as a failure, also by what is collected as garbage."""

    def tearDown(self) -> None:
        """Look at what was logged."""
        gc.collect()
        errors = self.flushLoggedErrors()
        self.assertEqual([str(one) for one in errors], [])


class World:
    """`case` is told of what is not as it must be."""

    def __init__(
        self,
        case: SynchronousTestCase,
        topics: dict[str, int] | None = None,
        brokers: int = 1,
    ) -> None:
        self.case = case
        self.clock = Clock()
        topics = topics or {TOPIC: 3}
        self.brokers = [FakeBroker(self.clock, topics, one) for one in range(brokers)]
        self.cluster = FakeCluster(self.clock, self.brokers)
        self.observer = self.cluster.coordinator()
        self.ledger = Ledger(self.brokers)
        self.nodes: list[Node] = []
        self.deaf: list[FakeBroker] = []
        self._numbers = 0

    # -- who takes part ---------------------------------------------------------------

    def node(self, **settings: Any) -> Node:
        """One more client, started."""
        coordinator = Coordinator(self.clock)
        coordinator.open(self.cluster._realm)
        given = ClientSettings(
            endpoint_for=self.cluster.endpoint_for,
            recover_directory=Path("never-used"),
            **settings,
        )
        client = MetaClient(self.clock, coordinator=coordinator, settings=given)
        client.startService()
        node = Node(client, coordinator)
        self.nodes.append(node)
        return node

    def join(self, node: Node, kind: str = "plain", **settings: Any) -> Consumer:
        """A consumer of the group on a node, with a kind of listener."""
        options: dict[str, Any] = {
            "delivery": DELIVERY,
            "commit": CommitSettings(period_s=1),
            "stop_timeout_s": 5,
            **settings,
        }
        topics = options.pop("topics", [TOPIC])
        hooks = options.pop("hooks", ConsumerHooks(on_event=node.events.append))
        consumer = node.client.consumer(ConsumerSettings(GROUP, **options), hooks=hooks)
        listener = None
        if kind not in PULLERS:
            listener = KINDS[kind](self.clock, self.ledger.done)
        for topic in topics:
            consumer.subscribe(topic, listener, rejection=self.ledger.reject)
        # A start that is cut short by a stop fails, as it should.
        consumer.start().addErrback(lambda _: None)
        node.consumer = consumer
        if kind in PULLERS:
            pulling = PULLERS[kind](self.clock, consumer, self.ledger.done)
            Deferred.fromCoroutine(pulling).addErrback(_is_over)
        return consumer

    def send(
        self,
        producer: Producer,
        text: str = "",
        count: int = 1,
        topic: str = TOPIC,
    ) -> list[Deferred[Any]]:
        """Send messages that nobody has sent before."""
        begun = []
        for _ in range(count):
            self._numbers += 1
            body = f"{text}-{self._numbers}".encode()
            sent = Sent(body, topic, producer.settings.may_duplicate)
            self.ledger.sent[body] = sent
            begun.append(producer.send(Message(topic, body)))
            begun[-1].addBoth(sent.outcomes.append)
        return begun

    # -- time -------------------------------------------------------------------------

    def run(self, seconds: float, step: Callable[[], object] | None = None) -> None:
        """Let time pass in small steps, and look at what is committed."""
        ends_s = self.clock.seconds() + seconds
        while self.clock.seconds() < ends_s - 1e-9:
            if step is not None:
                step()
            self.clock.advance(STEP_S)
            self.cluster.pump()
            self.check_commits()

    def until(self, is_so: Callable[[], bool], what: str, limit_s: float) -> None:
        """Let time pass until something is so."""
        ends_s = self.clock.seconds() + limit_s
        while not is_so():
            if self.clock.seconds() > ends_s:
                self.case.fail(f"in {limit_s:g} s not {what}")
            self.run(STEP_S)

    # -- what must be so --------------------------------------------------------------

    def offset(self, partition: PartitionName, topic: str = TOPIC) -> int | None:
        """What the group has committed of a partition."""
        path = self.cluster.layout.offset(GROUP, topic, partition)
        found: list[Any] = []
        self.observer.get(path).addBoth(found.append)
        if not isinstance(found[0], tuple):
            found[0].trap(NoNode)
            return None
        record = read_offset(found[0][0])
        assert isinstance(record, OffsetRecord)
        return record.offset

    def check_commits(self) -> None:
        """Nothing is committed that was neither processed nor rejected."""
        for broker in self.brokers:
            for topic, count in broker.topics.items():
                for number in range(count):
                    at = self.offset(PartitionName(broker.broker_id, number), topic)
                    where = (topic, broker.broker_id, number, at or 0)
                    if not self.ledger.is_settled_before(*where):
                        self.case.fail(f"committed too far: {where}")

    def settle(self, limit_s: float = SETTLE_LIMIT_S) -> None:
        """All senders hear, and all that is stored is processed."""
        self.until(
            lambda: not self.ledger.unanswered(), "answered all senders", limit_s
        )
        self.until(
            lambda: not self.ledger.missing(),
            f"processed {self.ledger.missing()[:3]}",
            limit_s,
        )
        self.case.assertEqual(self.ledger.problems(), [])

    def stop(self, *nodes: Node, deadline_s: float | None = None) -> None:
        """Stop clients, as their processes end; that takes a bounded time."""
        chosen = list(nodes) or list(self.nodes)
        ended: list[Any] = []
        for node in chosen:
            node.client.stop(deadline_s).addBoth(ended.append)
            self.nodes.remove(node)
        self.until(lambda: len(ended) == len(chosen), "stopped", STOP_LIMIT_S)
        self.case.assertEqual(ended, [None] * len(chosen))
        for node in chosen:
            node.coordinator.close()

    def finish(self) -> None:
        """Stop all, and see that nothing is left behind."""
        if self.nodes:
            self.stop()
        self.case.assertEqual(self.ledger.unanswered(), [])
        self.case.assertEqual(self.ledger.problems(), [])
        self.clock.advance(0)
        self.cluster.pump()
        calls = map(str, self.clock.getDelayedCalls())
        left = [call for call in calls if "wake_listener" not in call]
        self.case.assertEqual(left, [])
        reading = [one for one in self.brokers if one not in self.deaf]
        self.case.assertEqual([one.connections for one in reading], [0] * len(reading))


def _is_over(failure: Failure) -> None:
    """Whoever pulls learns so that the consumer was stopped."""
    failure.trap(ClientStopped)
