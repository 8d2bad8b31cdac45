"""A client of broker addresses alone: a broker process, and a port where nobody is."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from metatwist.client.client import MetaClient
from metatwist.client.errors import ClientStopped, NotConnected
from metatwist.client.message import Message, ReceivedMessage
from metatwist.client.settings import ClientSettings, ConnectionSettings
from metatwist.coordination.names import PartitionName
from tests.support.broker_process import MINIMAL_INI, BrokerProcess
from tests.support.child_process import free_port

pytestmark = pytest.mark.process
LIMIT_S = 20.0


class DirectClientTests(TestCase):
    """What MetaClient makes without a coordinator."""

    timeout = 60

    def setUp(self) -> None:
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        self.broker = BrokerProcess(directory, MINIMAL_INI + "[topic=other]\n")
        self.addCleanup(self.broker.kill)
        self.broker.start()
        self.nobody = f"meta://127.0.0.1:{free_port()}"
        settings = ClientSettings(
            connection=ConnectionSettings(request_timeout_s=2),
            recover_directory=directory / "recover",
        )
        self.client = MetaClient(
            reactor, brokers=[self.broker.address, self.nobody], settings=settings
        )
        self.client.startService()
        self.addCleanup(self.client.stop)

    async def test_first_message(self) -> None:
        """A consumer that starts before the first message reads all partitions, and a
        producer uses all of them."""
        got: list[ReceivedMessage] = []
        complete: Deferred[None] = Deferred()

        def take(message: ReceivedMessage) -> None:
            got.append(message)
            if len(got) == 4:
                complete.callback(None)

        consumer = self.client.consumer("g").subscribe("test", take)
        await consumer.start()
        self.assertEqual(len(consumer.assigned), 4)
        producer = self.client.producer()
        for _ in range(4):
            await producer.send(Message("test", b"x"))
        await complete.addTimeout(LIMIT_S, reactor)
        self.assertEqual(sorted(one.partition.partition for one in got), [0, 1, 2, 3])

    async def test_given_partitions(self) -> None:
        """Partitions that are given are read of every topic, and no others."""
        consumer = self.client.consumer("g", partitions=[PartitionName(0, 1)])
        consumer.subscribe("test", print).subscribe("other", print)
        await consumer.start()
        assigned = sorted(str(one) for one in consumer.assigned)
        self.assertEqual(assigned, ["other:0-1", "test:0-1"])

    async def test_stats(self) -> None:
        """Each address has its statistics, or the reason why there are none."""
        found = await self.client.stats()
        self.assertEqual(found.keys(), {self.broker.address, self.nobody})
        self.assertIn(("broker_id", "0"), found[self.broker.address].lines)
        self.assertIsInstance(found[self.nobody].error, NotConnected)

    async def test_config(self) -> None:
        """A broker's file comes as it is."""
        found = await self.client.stats("config")
        expected = self.broker.ini_path.read_bytes()
        self.assertEqual(found[self.broker.address].raw, expected)
        self.assertIsNone(found[self.broker.address].error)
        self.assertIsInstance(found[self.nobody].error, NotConnected)

    async def test_stats_of_a_stopped_client(self) -> None:
        """After the stop each address has an error, and nothing is connected to."""
        await self.client.stop()
        found = await self.client.stats()
        self.assertEqual(found.keys(), {self.broker.address, self.nobody})
        for one in found.values():
            self.assertIsInstance(one.error, ClientStopped)

    def test_bad_item(self) -> None:
        """An item of more than one word is refused at once."""
        with self.assertRaises(ValueError):
            self.client.stats("a\r\nquit")
