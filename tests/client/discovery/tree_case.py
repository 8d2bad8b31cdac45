"""A tree of brokers in memory, a discovery over it, and a count of what it reads."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.discovery.coordinated import CoordinatedDiscovery
from metatwist.client.interfaces import PublishRoutes
from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.errors import CoordinationError
from metatwist.coordination.layout import Layout

SOON_S = 0.05


class Counting:
    """A coordinator whose reads are counted, and fail as long as `error` is set."""

    def __init__(self, tree: LocalCoordinator) -> None:
        self.tree = tree
        self.calls: Counter[str] = Counter()
        self.error: CoordinationError | None = None
        self.held: list[Deferred[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.tree, name)
        if not name.startswith(("get", "exists", "create")):
            return found

        def call(*values: Any, **named: Any) -> Any:
            self.calls[name] += 1
            if self.error is not None:
                held: Deferred[Any] = Deferred()
                held.errback(self.error)
                return held
            if self.held is not None:
                gate: Deferred[Any] = Deferred()
                self.held.append(gate)
                return gate.addCallback(lambda _: found(*values, **named))
            return found(*values, **named)

        return call

    @property
    def total(self) -> int:
        return sum(self.calls.values())


class TreeCase(SynchronousTestCase):
    """`tree` is the brokers' session, `own` that of the client."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.tree = LocalCoordinator.in_memory(self.clock)
        self.own = LocalCoordinator(self.clock)
        self.own.open(self.tree.realm)
        self.counting = Counting(self.own)
        self.shuffled: list[list[str]] = []
        self.discovery = self.new_discovery()
        self.told: list[PublishRoutes] = []
        self.discovery.on_routes(self.told.append)
        self.discovery.startService()

    def new_discovery(self) -> CoordinatedDiscovery:
        """One that reverses instead of shuffling."""
        return CoordinatedDiscovery(
            self.clock,
            self.counting,
            Layout(),
            lambda found: found.reverse(),
        )

    def put(self, path: str, data: str | bytes = b"", ephemeral: bool = True) -> None:
        """Make or replace a node below /meta/brokers."""
        found = data.encode() if isinstance(data, str) else data
        whole = f"/meta/brokers/{path}"
        if self.successResultOf(self.tree.exists(whole)) is None:
            self.successResultOf(
                self.tree.create(whole, found, ephemeral, make_parents=True)
            )
        else:
            self.successResultOf(self.tree.set(whole, found))

    def drop(self, path: str) -> None:
        """Delete a node below /meta/brokers."""
        self.successResultOf(self.tree.delete(f"/meta/brokers/{path}"))

    def master(self, broker_id: int, url: str | None = None) -> None:
        """Register a broker's address."""
        self.put(f"ids/{broker_id}/master", url or f"meta://b{broker_id}:8123")

    def offer(
        self, topic: str, node: str, count: int, tree: str = "topics-pub"
    ) -> None:
        """Register partitions."""
        value = json.dumps({"numParts": count, "broker": node})
        self.put(f"{tree}/{topic}/{node}", value)

    def soon(self, seconds: float = SOON_S) -> None:
        """Let watches fire and what they cause happen."""
        self.clock.pump([0, seconds / 2, seconds / 2, 0])

    def publish(self, topic: str = "t") -> PublishRoutes:
        """The routes of a topic that is followed from now on."""
        found: PublishRoutes = self.successResultOf(self.discovery.publish(topic))
        return found

    def names(self) -> list[str]:
        """The partitions of topic t as they are known now."""
        routes = self.discovery.routes("t")
        assert routes is not None
        return [str(one) for one in routes.partitions]
