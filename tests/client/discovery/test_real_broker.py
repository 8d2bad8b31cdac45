"""A broker process known by its address alone, and a port where nobody listens."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from metatwist.client.brokers import Brokers
from metatwist.client.consumer import Consumer, ConsumerContext
from metatwist.client.delivery.rejection import as_rejection
from metatwist.client.discovery.address_endpoint import AddressEndpoint
from metatwist.client.discovery.direct import DirectDiscovery
from metatwist.client.errors import NotConnected
from metatwist.client.group.fixed import FixedAssignment, all_partitions
from metatwist.client.hooks import ConsumerHooks
from metatwist.client.interfaces import PublishRoutes
from metatwist.client.link import LinkContext
from metatwist.client.message import Message, ReceivedMessage
from metatwist.client.offsets.memory import MemoryOffsets
from metatwist.client.producing.lanes import ProducerContext
from metatwist.client.producing.producer import Producer
from metatwist.client.settings import (
    ConnectionSettings,
    ConsumerSettings,
    ProducerSettings,
)
from metatwist.client.statistics import ask_each
from tests.support.broker_process import MINIMAL_INI, BrokerProcess
from tests.support.child_process import free_port
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.process
LIMIT_S = 20.0
TOPICS = ("test", "wilder")


class RealBrokerTests(TestCase):
    """One broker that answers and one that does not."""

    timeout = 60

    def setUp(self) -> None:
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        self.broker = BrokerProcess(directory, MINIMAL_INI + "[topic=wild*]\n")
        self.addCleanup(self.broker.kill)
        self.broker.start()
        self.nobody = f"127.0.0.1:{free_port()}"
        self.brokers = Brokers(
            lambda address: AddressEndpoint(reactor, address, LIMIT_S),
            LinkContext(reactor, ConnectionSettings()),
        )
        self.brokers.startService()
        self.addCleanup(self.brokers.stopService)

    def discovery(self) -> DirectDiscovery:
        """Of the broker and of nobody, started."""
        addresses = [self.nobody, f"127.0.0.1:{self.broker.port}"]
        discovery = DirectDiscovery(reactor, self.brokers, addresses)
        discovery.startService()
        self.addCleanup(discovery.stopService)
        return discovery

    async def test_discovery(self) -> None:
        """All configured partitions are known before the first message; nobody waits
        for the other address."""
        discovery = self.discovery()
        routes = await discovery.publish("test")
        expected = ["0-0", "0-1", "0-2", "0-3"]
        self.assertEqual([str(one) for one in routes.partitions], expected)
        self.assertEqual(routes.addresses, {0: self.broker.address})
        readable = await discovery.partitions("test")
        self.assertEqual([str(one) for one in readable], expected)
        self.assertEqual(await discovery.readers(0), (self.broker.address,))

    async def test_wildcard(self) -> None:
        """A topic that is to be made is the broker's choice before its first message,
        and has all its partitions afterwards."""
        discovery = self.discovery()
        routes = await discovery.publish("wilder")
        self.assertEqual([str(one) for one in routes.partitions], ["0--1"])
        self.assertEqual(await discovery.partitions("wilder"), ())
        changed: Deferred[PublishRoutes] = Deferred()
        discovery.on_routes(changed.callback)
        with WireClient(self.broker.port) as wire:
            wire.put("wilder", 2, b"hello")
        discovery.refresh("wilder")
        routes = await changed.addTimeout(LIMIT_S, reactor)
        self.assertEqual(len(routes.partitions), 4)
        self.assertEqual(len(await discovery.partitions("wilder")), 4)

    def producer(self, discovery: DirectDiscovery) -> Producer:
        """One that is stopped in the end."""
        context = ProducerContext(reactor, self.brokers, discovery)
        producer = Producer(ProducerSettings(), context)
        self.addCleanup(producer.stop)
        return producer

    async def test_producer(self) -> None:
        """A producer goes round all configured partitions from its first message on."""
        producer = self.producer(self.discovery())
        sent = [await producer.send(Message("test", b"x")) for _ in range(8)]
        used = Counter(str(one.partition) for one in sent)
        self.assertEqual(used, dict.fromkeys(("0-0", "0-1", "0-2", "0-3"), 2))

    def consumer(self, discovery: DirectDiscovery) -> Consumer:
        """One of all partitions, that is stopped in the end."""
        every = all_partitions(discovery)
        context = ConsumerContext(
            clock=reactor,
            brokers=self.brokers,
            discovery=discovery,
            assignment=FixedAssignment(every, "g_a", reactor, period_s=0.2),
            storage=MemoryOffsets(),
            rejection=as_rejection(lambda *_: None),
            ended=lambda _: None,
        )
        consumer = Consumer(context, ConsumerSettings("g"), ConsumerHooks())
        self.addCleanup(consumer.stop)
        return consumer

    async def test_consumer(self) -> None:
        """A consumer that starts before the first message gets it, also of topics that
        are made by it."""
        discovery = self.discovery()
        consumer = self.consumer(discovery)
        wanted = {(topic, b"%d" % one) for topic in TOPICS for one in range(4)}
        got: set[tuple[str, bytes]] = set()
        complete: Deferred[None] = Deferred()

        def take(message: ReceivedMessage) -> None:
            got.add((message.topic, message.body))
            if got == wanted and not complete.called:
                complete.callback(None)

        for topic in TOPICS:
            consumer.subscribe(topic, take)
        await consumer.start()
        self.assertEqual(len(consumer.assigned), 4)
        producer = self.producer(discovery)
        for topic, body in sorted(wanted):
            await producer.send(Message(topic, body))
        await complete.addTimeout(LIMIT_S, reactor)

    async def test_statistics(self) -> None:
        """One broker's statistics, and the reason why there are none of the other."""
        addresses = [self.broker.address, f"meta://{self.nobody}"]
        found = await ask_each(self.brokers, addresses, "", 2)
        self.assertEqual(dict(found[addresses[0]].lines)["broker_id"], "0")
        error = found[addresses[1]].error
        assert isinstance(error, NotConnected)
        (attempt,) = error.attempts
        self.assertEqual(attempt.address, self.nobody)
        self.assertIn("refused", attempt.reason)
