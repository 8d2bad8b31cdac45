"""`FakeCluster`: fake brokers that are registered in a coordinator in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.python.failure import Failure

from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.embedded.realm import NoJournal, Realm
from metatwist.coordination.formats import (
    TopicRegistration,
    config_checksum,
    encode_checksum,
)
from metatwist.coordination.interface import SessionState
from metatwist.coordination.layout import DEFAULT_ROOT, Layout, TopicTree
from metatwist.coordination.names import NodeName
from metatwist.testing.broker import FakeBroker
from metatwist.testing.loopback import NobodyThere


class FakeCoordinator(LocalCoordinator):
    """A session of a `FakeCluster`, an ICoordinator whose troubles are at hand.

    `suspend` breaks its connection: requests fail, the session lives on.
    """

    def resume(self) -> None:
        """The connection is there again, and the session is the same."""
        self._change_state(SessionState.CONNECTED)

    def expire(self) -> None:
        """End the session, with all it has registered, and begin another."""
        realm = self.realm
        if realm is None:
            raise RuntimeError("there is no session")
        self.suspend()
        self._change_state(SessionState.CONNECTING)
        self.open(realm)


class FakeCluster:
    """Brokers by address, a coordinator, and nothing outside of the process.

    Everything is registered as brokers do it (spec layout 3.3, 3.4); `root` is the
    root of their znodes.

    Attributes:
        layout: where things are in the coordinator.
    """

    def __init__(
        self, clock: Any, brokers: Iterable[FakeBroker] = (), root: str = DEFAULT_ROOT
    ) -> None:
        self.layout = Layout(root)
        self._clock = clock
        self._realm = Realm.over(
            NoJournal(), clock.seconds, lambda: int(clock.seconds() * 1000)
        )
        self._brokers: dict[str, FakeBroker] = {}
        self._sessions: dict[int, FakeCoordinator] = {}
        for broker in brokers:
            self.register(broker)

    # -- for clients --------------------------------------------------------------

    def coordinator(self) -> FakeCoordinator:
        """A new session on the cluster's coordinator, one for each client."""
        found = FakeCoordinator(self._clock)
        found.open(self._realm)
        return found

    def endpoint_for(self, address: str) -> IStreamClientEndpoint:
        """How to connect to a broker, by the address that it has registered; where no
        broker ever was, connections are refused."""
        broker = self._brokers.get(address)
        return NobodyThere() if broker is None else broker.endpoint()

    # -- for tests ----------------------------------------------------------------

    @property
    def brokers(self) -> tuple[FakeBroker, ...]:
        """All that were ever registered."""
        return tuple(self._brokers.values())

    def pump(self) -> None:
        """`FakeBroker.pump` of all."""
        for broker in self.brokers:
            broker.pump()

    def register(self, broker: FakeBroker) -> None:
        """Let clients find a broker: one that is new, or was withdrawn.

        Raises ValueError when its id is registered already.
        """
        if broker.broker_id in self._sessions:
            raise ValueError(f"a broker {broker.broker_id} is registered already")
        session = self.coordinator()
        self._brokers[broker.address] = broker
        self._sessions[broker.broker_id] = session
        layout, number = self.layout, broker.broker_id
        url = broker.address.encode()
        _put(session, layout.broker(number), url, ephemeral=False)
        _put(session, layout.master(number), url)
        checksum = encode_checksum(config_checksum(b""))
        _put(session, layout.checksum(number), checksum)
        node = NodeName(number)
        for topic, partitions in sorted(broker.topics.items()):
            for tree in TopicTree:
                data = TopicRegistration(partitions, node).encode(tree)
                _put(session, layout.topic_node(tree, topic, node), data)

    def withdraw(self, broker: FakeBroker) -> None:
        """Let its session end, as when it has crashed; it still answers."""
        session = self._sessions.pop(broker.broker_id, None)
        if session is not None:
            session.close()

    def expire_session(self, coordinator: FakeCoordinator) -> None:
        """End a client's session and all that it has registered; another begins."""
        coordinator.expire()


def _put(
    session: FakeCoordinator, path: str, data: bytes, ephemeral: bool = True
) -> None:
    """Write a znode, made with its parents when it is not there."""
    if _result_of(session.exists(path)) is not None:
        _result_of(session.set(path, data))
    else:
        made = session.create(path, data, ephemeral=ephemeral, make_parents=True)
        _result_of(made)


def _result_of(done: Deferred[Any]) -> Any:
    """What a call to a coordinator in memory has fired with; its failure is raised."""
    outcome: list[Any] = []
    done.addBoth(outcome.append)
    (result,) = outcome
    if isinstance(result, Failure):
        result.raiseException()
    return result
