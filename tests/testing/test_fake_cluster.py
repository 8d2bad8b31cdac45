"""A FakeCluster: what clients find in its coordinator, and what may befall them."""

from __future__ import annotations

from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.errors import ConnectionLost, NoNode, SessionExpired
from metatwist.coordination.interface import EventKind, ICoordinator, SessionState
from metatwist.testing import FakeBroker, FakeCluster
from tests.broker.registrar_case import RegistrarCase
from tests.support.broker_parts import ADDRESS
from tests.testing.conversations import Answer, MemoryPeer

CHECKSUM = "/meta/brokers/ids/5/master_config_checksum"


class ClusterCase(SynchronousTestCase):
    """Two brokers, and a client's session."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.first = FakeBroker(self.clock, {"orders": 4, "mail": 1})
        self.second = FakeBroker(self.clock, {"orders": 2}, 1)
        self.cluster = FakeCluster(self.clock, [self.first, self.second])
        self.coordinator = self.cluster.coordinator()

    def data(self, path: str) -> bytes:
        """What a znode holds."""
        data: bytes = self.successResultOf(self.coordinator.get(path))[0]
        return data

    def children(self, path: str) -> list[str]:
        """The names below a znode."""
        found: list[str] = self.successResultOf(self.coordinator.get_children(path))
        return found


class FindingTests(ClusterCase):
    """Clients find brokers."""

    def test_interface(self) -> None:
        """A client's session is an ICoordinator."""
        verifyObject(ICoordinator, self.coordinator)

    def test_addresses(self) -> None:
        """The address of each broker is where clients look for it."""
        layout = self.cluster.layout
        self.assertEqual(self.children(layout.brokers_ids()), ["0", "1"])
        self.assertEqual(self.data(layout.master(0)), b"meta://fake-0:8123")
        self.assertEqual(self.data(layout.broker(1)), b"meta://fake-1:8123")

    def test_connecting(self) -> None:
        """An address leads to its broker."""
        for broker in self.cluster.brokers:
            endpoint = self.cluster.endpoint_for(broker.address)
            peer = MemoryPeer(broker, self.clock, endpoint)
            peer.send(b"stats  1\r\n")
            told = b"broker_id %d\r\n" % broker.broker_id
            self.assertIn(told, Answer.of(peer.reply()).body)

    def test_nobody_there(self) -> None:
        """An address that no broker has refuses connections."""
        endpoint = self.cluster.endpoint_for("meta://elsewhere:8123")
        peer = MemoryPeer(self.first, self.clock, endpoint)
        self.failureResultOf(peer.connecting, ConnectionRefusedError)

    def test_withdrawn(self) -> None:
        """A broker that is withdrawn is not found any more, until it is back."""
        layout = self.cluster.layout
        watching = self.coordinator.get_and_watch(layout.master(1))
        watch = self.successResultOf(watching)[2]
        self.cluster.withdraw(self.second)
        self.cluster.withdraw(self.second)
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(watch).kind, EventKind.DELETED)
        self.failureResultOf(self.coordinator.get(layout.master(1)), NoNode)
        self.assertEqual(self.children("/meta/brokers/topics-pub/orders"), ["0-m"])
        self.cluster.register(self.second)
        self.assertEqual(self.data(layout.master(1)), b"meta://fake-1:8123")

    def test_one_id(self) -> None:
        """Two brokers cannot have one id."""
        twin = FakeBroker(self.clock, {}, 1)
        self.assertRaises(ValueError, self.cluster.register, twin)

    def test_root(self) -> None:
        """The tree may have another root."""
        cluster = FakeCluster(self.clock, [self.first], "/other")
        names = self.successResultOf(cluster.coordinator().get_children("/"))
        self.assertIn("other", names)
        self.assertNotIn("meta", names)

    def test_pump(self) -> None:
        """A pump of the cluster is one of each broker."""
        peers = [MemoryPeer(one, self.clock) for one in self.cluster.brokers]
        for peer in peers:
            assert peer.ear.transport is not None
            peer.ear.transport.write(b"version 1\r\n")
        self.cluster.pump()
        self.assertTrue(all(peer.ear.received for peer in peers))


class SessionTests(ClusterCase):
    """What may befall a client's session."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.cluster.coordinator()
        self.states: list[SessionState] = []
        self.coordinator.on_state(self.states.append)
        self.successResultOf(self.coordinator.create("/mine", ephemeral=True))

    def exists(self) -> bool:
        """Whether others see what the client has registered."""
        return self.successResultOf(self.other.exists("/mine")) is not None

    def test_expired(self) -> None:
        """A session that expires takes what it registered along; the next one has
        another id, and watches are told."""
        watching = self.coordinator.exists_and_watch("/mine")
        watch = self.successResultOf(watching)[1]
        before = self.coordinator.session_id
        self.cluster.expire_session(self.coordinator)
        self.assertFalse(self.exists())
        self.failureResultOf(watch, SessionExpired)
        self.assertNotEqual(self.coordinator.session_id, before)
        self.assertEqual(
            self.states,
            [SessionState.SUSPENDED, SessionState.CONNECTING, SessionState.CONNECTED],
        )
        self.successResultOf(self.coordinator.create("/mine", ephemeral=True))

    def test_expired_while_suspended(self) -> None:
        """A session may expire while its connection is broken."""
        self.coordinator.suspend()
        self.cluster.expire_session(self.coordinator)
        self.assertFalse(self.exists())
        self.assertIs(self.coordinator.state, SessionState.CONNECTED)

    def test_suspended(self) -> None:
        """A broken connection fails requests, and nothing else is lost."""
        before = self.coordinator.session_id
        self.coordinator.suspend()
        self.failureResultOf(self.coordinator.get("/mine"), ConnectionLost)
        self.assertTrue(self.exists())
        self.coordinator.resume()
        self.successResultOf(self.coordinator.get("/mine"))
        self.assertEqual(self.coordinator.session_id, before)
        self.assertEqual(self.states, [SessionState.SUSPENDED, SessionState.CONNECTED])


class SameRegistrationTests(RegistrarCase):
    """A fake broker beside a real one's registrar."""

    def test_same_tree(self) -> None:
        """It registers what a broker registers, byte for byte."""
        self.register()
        fake = FakeBroker(self.clock, {"t": 3}, 5, ADDRESS)
        theirs = FakeCluster(self.clock, [fake]).coordinator()
        real, ours = self._tree(self.coordinator), self._tree(theirs)
        self.assertIn(CHECKSUM, real)
        # Of another file: a fake broker's configuration is empty.
        real[CHECKSUM] = b"0", real[CHECKSUM][1]
        self.assertEqual(ours, real)

    def _tree(
        self, coordinator: LocalCoordinator, path: str = "/meta/brokers"
    ) -> dict[str, tuple[bytes, bool]]:
        data, stat = self.successResultOf(coordinator.get(path))
        found = {path: (data, bool(stat.ephemeral_owner))}
        for name in self.successResultOf(coordinator.get_children(path)):
            found |= self._tree(coordinator, f"{path}/{name}")
        return found
