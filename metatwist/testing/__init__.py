"""For unit tests of programs that use MetaQ: brokers and coordinator in memory.

A `FakeBroker` speaks the wire protocol as a broker does: one suite of tests holds both
to the same statements. A `FakeCluster` registers some of them for clients to find.
Nothing here opens a socket unless it is told to, and time is that of the clock it is
given.
"""

from metatwist.testing.broker import FakeBroker
from metatwist.testing.cluster import FakeCluster, FakeCoordinator
from metatwist.testing.partition import StoredMessage

__all__ = ["FakeBroker", "FakeCluster", "FakeCoordinator", "StoredMessage"]
