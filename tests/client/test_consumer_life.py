"""A consumer's life as its user sees it: starts that fail, stops that are bounded."""

from __future__ import annotations

import tempfile
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client import (
    ClientSettings,
    ClientStopped,
    ConsumerHooks,
    ConsumerSettings,
    DuplicateConsumer,
    GroupTrouble,
    MemoryOffsets,
    MetaClient,
    WrongState,
)
from metatwist.client.consumer import Consumer, ConsumerState
from metatwist.client.events import FetchFailed
from metatwist.testing import FakeBroker, FakeCluster


class LifeTests(SynchronousTestCase):
    """One client on a broker in memory."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.broker = FakeBroker(self.clock, {"orders": 2})
        self.cluster = FakeCluster(self.clock, [self.broker])
        self.client = self.new_client()

    def new_client(self) -> MetaClient:
        client = MetaClient(
            self.clock,
            coordinator=self.cluster.coordinator(),
            settings=ClientSettings(
                endpoint_for=self.cluster.endpoint_for,
                recover_directory=tempfile.gettempdir() + "/metatwist-no-such-folder",
            ),
        )
        client.startService()
        return client

    def run_for(self, seconds: float) -> None:
        self.clock.pump([0.1] * round(seconds * 10))

    def started(self, consumer: Consumer) -> Consumer:
        consumer.subscribe("orders", self.seen.append)
        starting = consumer.start()
        self.run_for(1)
        self.successResultOf(starting)
        return consumer

    @property
    def seen(self) -> list[Any]:
        return self.__dict__.setdefault("_seen", [])

    def test_duplicate(self) -> None:
        """A second consumer with the same id fails as DuplicateConsumer, and is
        stopped then."""
        settings = ConsumerSettings("g", consumer_id="one")
        self.started(self.client.consumer(settings))
        other = self.new_client().consumer(settings)
        other.subscribe("orders", self.seen.append)
        starting = other.start()
        self.run_for(60)
        self.failureResultOf(starting, DuplicateConsumer)
        self.assertIs(other.state, ConsumerState.STOPPED)

    def test_twins(self) -> None:
        """One client refuses a second consumer with the same id at once."""
        settings = ConsumerSettings("g", consumer_id="one")
        self.client.consumer(settings)
        self.assertRaises(DuplicateConsumer, self.client.consumer, settings)

    def test_missing_topic(self) -> None:
        """A topic that no broker offers is told, once."""
        told: list[Any] = []
        consumer = self.client.consumer("g", hooks=ConsumerHooks(on_event=told.append))
        consumer.subscribe("nowhere", self.seen.append)
        starting = consumer.start()
        self.run_for(90)
        self.successResultOf(starting)
        texts = [one.text for one in told if isinstance(one, GroupTrouble)]
        self.assertEqual(texts, ["no broker offers the topic nowhere"])

    def test_started_twice(self) -> None:
        """Starting a client that runs changes nothing; a stopped one stays so."""
        self.client.startService()
        self.started(self.client.consumer("g"))
        stopping = self.client.stop()
        self.run_for(2)
        self.successResultOf(stopping)
        self.assertRaises(ClientStopped, self.client.startService)

    def test_topics_refused(self) -> None:
        """What would break a request, or the list of topics, is no topic."""
        consumer = self.client.consumer("g")
        for topic in ("", " ", "a b", "a\tb", "a\r\nb", "a,b", "a/b", ".."):
            self.assertRaises(ValueError, consumer.subscribe, topic)

    def test_wrong_state(self) -> None:
        """Starting twice, without subscription, and late subscriptions are refused."""
        consumer = self.client.consumer("g")
        self.failureResultOf(consumer.start(), WrongState)
        self.started(consumer)
        self.failureResultOf(consumer.start(), WrongState)
        self.assertRaises(WrongState, consumer.subscribe, "other")

    def test_blocked_reactor(self) -> None:
        """After the process stood still for most of a session, whose end nobody has
        seen, it reads and commits on."""
        consumer = self.started(self.client.consumer("g"))
        self.clock.rightNow += 25
        self.broker.deliver("orders", b"x")
        self.run_for(30)
        (at,) = {one for one in consumer.assigned if one.partition.partition == 0}
        self.assertEqual(consumer.position(at), 21)
        self.assertEqual([one.body for one in self.seen], [b"x"])
        path = self.cluster.layout.offset("g", "orders", at.partition)
        data, _ = self.successResultOf(self.cluster.coordinator().get(path))
        self.assertTrue(data.endswith(b"-21"), data)

    def test_deadline(self) -> None:
        """A stop keeps its deadline, whatever listener and storage do."""

        class Stuck(MemoryOffsets):
            def close(self) -> Deferred[None]:
                return Deferred()

        consumer = self.client.consumer("g", offsets=Stuck())
        consumer.subscribe("orders", lambda _: Deferred())
        consumer.start()
        self.broker.deliver("orders", b"x")
        self.run_for(1)
        stopping = consumer.stop(1)
        self.run_for(1.1)
        self.successResultOf(stopping)

    def test_storage_that_raises(self) -> None:
        """A storage that fails against its interface is asked again, and the partition
        is read then."""
        events: list[Any] = []

        class Moody(MemoryOffsets):
            failures = 2

            def load(self, *arguments: Any) -> Any:
                if self.failures:
                    self.failures -= 1
                    raise ConnectionError("moody")
                return succeed(None)

        consumer = self.client.consumer(
            "g", offsets=Moody(), hooks=ConsumerHooks(on_event=events.append)
        )
        self.started(consumer)
        self.broker.deliver("orders", b"x")
        self.run_for(5)
        self.assertEqual([one.body for one in self.seen], [b"x"])
        self.assertTrue(any(isinstance(one, FetchFailed) for one in events))
        self.assertEqual(len(self.flushLoggedErrors(ConnectionError)), 2)

    def test_nothing_kept(self) -> None:
        """A stopped client is not told of the coordinator's states any more."""
        coordinator = self.cluster.coordinator()
        client = MetaClient(
            self.clock,
            coordinator=coordinator,
            settings=ClientSettings(endpoint_for=self.cluster.endpoint_for),
        )
        client.startService()
        self.started(client.consumer("g"))
        stopping = client.stop()
        self.run_for(2)
        self.successResultOf(stopping)
        self.assertEqual(list(coordinator._listeners), [])
