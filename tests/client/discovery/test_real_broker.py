"""Direct discovery of a broker process, and of a port where nobody listens."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from metatwist.client.brokers import Brokers
from metatwist.client.discovery.address_endpoint import AddressEndpoint
from metatwist.client.discovery.asking import ask_each
from metatwist.client.discovery.direct import DirectDiscovery
from metatwist.client.errors import NotConnected
from metatwist.client.interfaces import PublishRoutes
from metatwist.client.link import LinkContext
from metatwist.client.settings import ConnectionSettings
from tests.support.broker_process import BrokerProcess
from tests.support.child_process import free_port
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.process
LIMIT_S = 20.0


class RealBrokerTests(TestCase):
    """One broker that answers and one that does not."""

    timeout = 60

    def setUp(self) -> None:
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        self.broker = BrokerProcess(directory)
        self.addCleanup(self.broker.kill)
        self.broker.start()
        self.nobody = f"127.0.0.1:{free_port()}"
        self.brokers = Brokers(
            lambda address: AddressEndpoint(reactor, address, LIMIT_S),
            LinkContext(reactor, ConnectionSettings()),
        )
        self.brokers.startService()
        self.addCleanup(self.brokers.stopService)

    async def test_discovery(self) -> None:
        """A topic is the broker's choice before its first message, and its partitions
        afterwards; nobody waits for the other address."""
        addresses = [self.nobody, f"127.0.0.1:{self.broker.port}"]
        discovery = DirectDiscovery(reactor, self.brokers, addresses)
        discovery.startService()
        self.addCleanup(discovery.stopService)
        routes = await discovery.publish("test")
        self.assertEqual([str(one) for one in routes.partitions], ["0--1"])
        self.assertEqual(routes.addresses, {0: self.broker.address})
        changed: Deferred[PublishRoutes] = Deferred()
        discovery.on_routes(changed.callback)
        with WireClient(self.broker.port) as wire:
            wire.put("test", 2, b"hello")
        discovery.refresh("test")
        routes = await changed.addTimeout(LIMIT_S, reactor)
        self.assertEqual([str(one) for one in routes.partitions], ["0-0", "0-1", "0-2"])
        readable = await discovery.partitions("test")
        self.assertEqual([str(one) for one in readable], ["0-2"])
        self.assertEqual(await discovery.readers(0), (self.broker.address,))

    async def test_statistics(self) -> None:
        """One broker's statistics, and the reason why there are none of the other."""
        addresses = [self.broker.address, f"meta://{self.nobody}"]
        found: list[Any] = await ask_each(self.brokers, addresses, "", 2)
        self.assertEqual(dict(found[0].lines)["broker_id"], "0")
        self.assertIsInstance(found[1].error, NotConnected)
        (attempt,) = found[1].error.attempts
        self.assertEqual(attempt.address, self.nobody)
        self.assertIn("refused", attempt.reason)
