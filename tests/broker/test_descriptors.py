"""The limit of open files, and who gets how many."""

from __future__ import annotations

import resource

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.descriptors import (
    coordinator_connections,
    left_for_connections,
    raise_limit,
)
from metatwist.broker.settings import BrokerSettings
from tests.support.broker_parts import INI, BrokerParts


class DescriptorTests(SynchronousTestCase):
    """On this process, whose limit is put back."""

    def setUp(self) -> None:
        """Remember the limit."""
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        self.hard = limits[1]

    def test_soft_limit_is_raised(self) -> None:
        """The soft limit goes up to the hard one."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, self.hard))
        self.assertEqual(raise_limit(), self.hard)
        self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE)[0], self.hard)

    def test_files_come_first(self) -> None:
        """Connections get what files and the rest leave, one at least."""
        self.assertEqual(left_for_connections(1024, 512), 448)
        self.assertEqual(left_for_connections(64, 512), 1)
        self.assertGreater(left_for_connections(resource.RLIM_INFINITY, 512), 10**6)

    def settings(self, coordinator: str) -> BrokerSettings:
        """Settings with 512 segments."""
        return BrokerParts(self, f"{INI}[metatwist]\n{coordinator}\n").settings

    def test_coordinator(self) -> None:
        """An embedded coordinator gets a quarter of what files leave, up to a bound,
        and the broker the rest; no other kind takes anything."""
        embedded = self.settings("coordinator=embedded")
        for limit, room in ((1024, 112), (64, 1), (10_576, 2500), (65_536, 10_000)):
            self.assertEqual(coordinator_connections(embedded, limit, 10_000), room)
        unlimited = resource.RLIM_INFINITY
        self.assertEqual(coordinator_connections(embedded, unlimited, 10_000), 10_000)
        none = self.settings("coordinator=none")
        self.assertEqual(coordinator_connections(none, 65_536, 10_000), 0)
