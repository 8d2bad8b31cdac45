"""The contract put to the fake broker and to the broker process."""

from __future__ import annotations

import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest
from twisted.internet.task import Clock

from metatwist.testing import FakeBroker
from tests.conformance.conformance_case import Peer
from tests.support.broker_process import BrokerProcess
from tests.testing import asking_contract as asking
from tests.testing import broker_case as case
from tests.testing import broker_contract as contract
from tests.testing.conversations import Conversation, MemoryPeer

INI = f"""\
[system]
brokerId={case.BROKER_ID}
hostName=127.0.0.1
numPartitions=1
unflushThreshold=0
unflushInterval=10000
maxSegmentSize={case.SEGMENT_BYTES}
maxTransferSize={case.MAX_TRANSFER_BYTES}
updateConsumerOffsets=false
[zookeeper]
zk.zkEnable=false
[topic=t*]
numPartitions={case.PARTITIONS}
[topic=idle]
"""
_topic_numbers = count(1)


class InMemory(case.BrokerCase):
    """A new FakeBroker for each test."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.topic = "topic"
        self.broker = FakeBroker(
            self.clock,
            {self.topic: case.PARTITIONS, "idle": 1},
            case.BROKER_ID,
            segment_bytes=case.SEGMENT_BYTES,
        )
        self.address = self.broker.address

    def connect(self) -> Conversation:
        """See BrokerCase."""
        return MemoryPeer(self.broker, self.clock)

    def close_partition(self, partition: int) -> None:
        """See BrokerCase."""
        self.broker.close_partition(self.topic, partition)


@pytest.mark.process
class InProcess(case.BrokerCase):
    """One broker process for a class, and a new topic for each test."""

    broker: ClassVar[BrokerProcess]

    @classmethod
    def setUpClass(cls) -> None:
        """Start it."""
        work_dir = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, work_dir)
        cls.broker = BrokerProcess(work_dir, INI)
        cls.broker.start()
        cls.addClassCleanup(cls.broker.stop)

    def setUp(self) -> None:
        self.topic = f"t{next(_topic_numbers)}"
        self.address = self.broker.address

    def connect(self) -> Conversation:
        """See BrokerCase."""
        peer = Peer(self.broker.port)
        self.addCleanup(peer.socket.close)
        return peer

    def close_partition(self, partition: int) -> None:
        """See BrokerCase."""
        self.broker.admin(
            "close-partitions", topic=self.topic, first=partition, last=partition
        )


class FakeFramingTests(contract.FramingContract, InMemory):
    """Framing in memory."""


class FakePutTests(contract.PutContract, InMemory):
    """Puts in memory."""


class FakeGetTests(contract.GetContract, InMemory):
    """Gets in memory."""


class FakePollTests(asking.PollContract, InMemory):
    """Polls in memory."""


class FakeStatsTests(asking.StatsContract, InMemory):
    """Stats in memory."""


class RealFramingTests(contract.FramingContract, InProcess):
    """Framing of the broker."""


class RealPutTests(contract.PutContract, InProcess):
    """Puts of the broker."""


class RealGetTests(contract.GetContract, InProcess):
    """Gets of the broker."""


class RealPollTests(asking.PollContract, InProcess):
    """Polls of the broker."""


class RealStatsTests(asking.StatsContract, InProcess):
    """Stats of the broker."""
