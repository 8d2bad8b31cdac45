"""The limit of open files, and who gets how many."""

from __future__ import annotations

import resource

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.descriptors import left_for_connections, raise_limit


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
