"""Asking what partitions keep can be cut short."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client import PartitionName, TopicPartition
from metatwist.tools.ranges import kept_by


class Client:
    """Never answers."""

    def kept(self, _partition: TopicPartition) -> Deferred[Any]:
        return Deferred()


class CancelTests(SynchronousTestCase):
    """A stop while brokers are asked."""

    def test_cancelled(self) -> None:
        """Who is cancelled while brokers are asked ends as cancelled."""
        partitions = [
            TopicPartition("t", PartitionName(0, number)) for number in (0, 1)
        ]
        client: Any = Client()
        asking = Deferred.fromCoroutine(kept_by(client, partitions))
        asking.cancel()
        self.failureResultOf(asking, CancelledError)
