"""The fakes keep to the interfaces."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.client.interfaces import IBrokerLink, IBrokers, IDiscovery
from tests.client.producing.fakes import FakeBrokers, FakeDiscovery, FakeLink


class FakesTest(SynchronousTestCase):
    """What the other tests rely on."""

    def test_interfaces(self) -> None:
        """Each fake has what its interface asks for."""
        verifyObject(IBrokerLink, FakeLink("meta://b0:8123"))
        verifyObject(IBrokers, FakeBrokers())
        verifyObject(IDiscovery, FakeDiscovery())
