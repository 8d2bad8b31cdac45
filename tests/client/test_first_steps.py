"""What is asked for before anybody has answered, and what hinders that."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client import (
    ClientSettings,
    FetchSettings,
    Message,
    MetaClient,
    NotConnected,
    OffsetJumped,
)
from metatwist.testing import FakeBroker, FakeCluster

STEP_S = 0.05


class FirstStepsCase(SynchronousTestCase):
    """A broker, and clients that are not started yet."""

    def setUp(self) -> None:
        """Make the broker."""
        self.clock = Clock()
        self.broker = FakeBroker(self.clock, {"orders": 1})
        self.cluster = FakeCluster(self.clock, [self.broker])
        self.settings = ClientSettings(endpoint_for=self.cluster.endpoint_for)

    def started(self, **where: Any) -> MetaClient:
        """A client, started; nothing else has happened."""
        client = MetaClient(self.clock, settings=self.settings, **where)
        client.startService()
        self.addCleanup(lambda: self.result_of(client.stop()))
        return client

    def result_of(self, waiting: Deferred[Any], limit_s: float = 60) -> Any:
        """Let time pass until it has fired."""
        ended: list[Any] = []
        waiting.addBoth(ended.append)
        for _ in range(int(limit_s / STEP_S)):
            if ended:
                return ended[0]
            self.clock.advance(STEP_S)
        raise AssertionError(f"nothing within {limit_s} s")


class DirectTests(FirstStepsCase):
    """Brokers known by their addresses."""

    def setUp(self) -> None:
        """The broker is down."""
        super().setUp()
        self.broker.refuse_connections = True
        self.client = self.started(brokers=[self.broker.address])

    def test_refused(self) -> None:
        """A refused connection is told in less than a second, by all that ask."""
        for asked in (
            self.client.partitions("orders"),
            self.client.producer().publish("orders"),
        ):
            error = self.result_of(asked, limit_s=1).value
            self.assertIsInstance(error, NotConnected)
            (attempt,) = error.attempts
            self.assertEqual(attempt.address, self.broker.address)

    def test_short_time(self) -> None:
        """A message with little time fails with what was tried, once."""
        sending = self.client.producer().send(Message("orders", b""), timeout_s=1)
        error = self.result_of(sending).value
        self.assertIsInstance(error, NotConnected)
        self.assertEqual(len(error.attempts), 1)
        self.assertEqual(str(error).count(error.attempts[0].reason), 1)

    def test_heals(self) -> None:
        """A message that was sent meanwhile goes out when the broker is up."""
        sending = self.client.producer().send(Message("orders", b"book"))
        self.clock.pump([STEP_S] * 20)
        self.broker.refuse_connections = False
        self.result_of(sending)
        self.assertEqual(len(self.broker.messages("orders")), 1)


class BrowsingTests(FirstStepsCase):
    """Browsers of a client."""

    def jumps_of(self, settings: FetchSettings) -> list[OffsetJumped]:
        """What a browser tells of, begun right after the start."""
        jumps: list[OffsetJumped] = []
        client = self.started(coordinator=self.cluster.coordinator())
        browser = client.browser("orders", tell=jumps.append, settings=settings)

        async def bodies() -> list[bytes]:
            return [one.body async for one in browser]

        found = self.result_of(Deferred.fromCoroutine(bodies()))
        self.assertEqual(found, [b"one", b"three"])
        return jumps

    def test_jumps(self) -> None:
        """It reads with the settings, and tells of what is damaged."""
        offsets = [
            self.broker.deliver("orders", one) for one in (b"one", b"two", b"three")
        ]
        self.broker.corrupt("orders", 0, offsets[1])
        (jump,) = self.jumps_of(FetchSettings(size_bytes=64))
        self.assertEqual((jump.from_offset, jump.reason), (offsets[1], "corrupt"))
        self.assertEqual(jump.to_offset, offsets[2])
