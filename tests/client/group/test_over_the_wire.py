"""A group over the protocol: each member with a session of kazoo's, on the embedded
coordinator's port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import gatherResults, inlineCallbacks
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from metatwist.client.group.lease import steady_seconds
from metatwist.client.group.membership import GroupMembership
from metatwist.client.settings import ConsumerSettings
from metatwist.coordination.embedded.service import (
    EmbeddedCoordinator,
    EmbeddedSettings,
)
from metatwist.coordination.embedded.sessions import LEAST_TIMEOUT_MS, MOST_TIMEOUT_MS
from metatwist.coordination.ensemble import EnsembleCoordinator, EnsembleSettings
from metatwist.coordination.formats import TopicRegistration
from metatwist.coordination.interface import SessionState
from metatwist.coordination.names import NodeName
from tests.client.group.group_case import GROUP, LAYOUT, TREE, Holder

SESSION_S = 6.0
PARTITIONS = 60
LIMIT_S = 30.0


class WireTest(TestCase):
    """One topic with many partitions."""

    @inlineCallbacks
    def setUp(self) -> Any:
        """Start the coordinator on a free port, and register a broker."""
        settings = EmbeddedSettings(None, "tcp:0:interface=127.0.0.1")
        self.server = EmbeddedCoordinator(reactor, settings)
        self.server.startService()
        self.addCleanup(self.server.stopService)
        yield self.server.ready
        path = LAYOUT.topic_node(TREE, "t", "0-m")
        data = TopicRegistration(PARTITIONS, NodeName(0)).encode(TREE)
        yield self.server.create(path, data, make_parents=True)

    @inlineCallbacks
    def test_granted_timeout(self) -> Any:
        """The timeout that the server grants is known once there is a session, whatever
        was asked for."""
        address = f"127.0.0.1:{self.server.port.getHost().port}"
        for asked_s, granted_ms in ((0.5, LEAST_TIMEOUT_MS), (9e5, MOST_TIMEOUT_MS)):
            asking = EnsembleSettings(address, session_timeout_s=asked_s)
            coordinator: Any = EnsembleCoordinator(reactor, asking)
            self.assertIsNone(coordinator.session_timeout_s)
            coordinator.startService()
            self.addCleanup(coordinator.stopService)
            yield self.until(lambda it=coordinator: it.session_id != 0)
            self.assertEqual(coordinator.session_timeout_s, granted_ms / 1000)

    def member(self, unique: str) -> tuple[Any, GroupMembership, Holder]:
        """A coordinator, a membership on it, and its holder."""
        address = f"127.0.0.1:{self.server.port.getHost().port}"
        coordinator = EnsembleCoordinator(
            reactor, EnsembleSettings(address, session_timeout_s=SESSION_S)
        )
        coordinator.startService()
        self.addCleanup(coordinator.stopService)
        settings = ConsumerSettings(GROUP, unique, stop_timeout_s=2)
        membership = GroupMembership(
            reactor, coordinator, LAYOUT, settings, SESSION_S, steady_seconds
        )
        self.addCleanup(membership.stop)
        return coordinator, membership, Holder()

    @inlineCallbacks
    def until(self, condition: Callable[[], bool]) -> Any:
        """Wait until it is so."""
        for _ in range(round(LIMIT_S / 0.02)):
            if condition():
                return
            yield deferLater(reactor, 0.02)
        self.fail("waited too long")

    @inlineCallbacks
    def test_group(self) -> Any:
        """Members share what there is as they come, leave, and lose their sessions."""
        first, second, third = (self.member(unique) for unique in "abc")
        topics = frozenset({"t"})
        yield first[1].start(first[2], topics)
        self.assertEqual(len(first[2].reading), PARTITIONS)
        yield gatherResults([one[1].start(one[2], topics) for one in (second, third)])
        three = (first, second, third)
        yield self.until(lambda: [len(o[2].reading) for o in three] == [20, 20, 20])
        every = set(first[2].reading) | set(second[2].reading) | set(third[2].reading)
        self.assertEqual(len(every), PARTITIONS)
        self.assertTrue(all(one.holds() for one in second[2].reading.values()))

        yield second[1].stop()
        yield self.until(
            lambda: len(first[2].reading) == len(third[2].reading) == PARTITIONS // 2
        )
        members = yield self.server.get_children(LAYOUT.members(GROUP))
        self.assertEqual(members, ["g_a", "g_c"])

        yield third[0].stopService()  # as if it had died: the session goes
        yield self.until(lambda: len(first[2].reading) == PARTITIONS)
        self.assertEqual(dict(third[2].reading), {})
        self.assertIs(first[0].state, SessionState.CONNECTED)
        self.assertEqual(first[2].doubts, [])
        yield first[1].stop()
        owned = yield self.server.get_children(LAYOUT.owners_of(GROUP, "t"))
        self.assertEqual(owned, [])
