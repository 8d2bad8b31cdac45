"""A registrar over real topics and a znode tree in memory, on a clock of the test."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.registrar import Registrar
from metatwist.broker.registration import Names
from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.embedded.realm import Realm
from metatwist.coordination.errors import NoNode, NotAuthorized, TransactionFailed
from metatwist.coordination.interface import NodeStat, Operation
from tests.support.broker_parts import ADDRESS, INI, BrokerParts

SYSTEM = INI.partition("[topic")[0]
BOTH = b'{"numParts":3,"broker":"5-m"}'
INTERVAL_S = 10.0
SESSION_S = 30.0
OTHER_URL = b"meta://other.test:8123"


class Watched(LocalCoordinator):
    """Notes reads and transactions.

    While it `holds`, transactions are answered by `let_go`. It `fails` the next ones,
    and `refuses` those that begin with a path with that text.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.reads: list[str] = []
        self.transactions: list[list[Operation]] = []
        self.holds = False
        self.fails: list[Exception] = []
        self.refuses = ""
        self._held: list[tuple[Deferred[Any], Any]] = []

    def get(self, path: str) -> Any:
        """As ever, noted."""
        self.reads.append(path)
        return super().get(path)

    def transaction(self, operations: Any) -> Any:
        """As ever, noted, at once or later, or a failure in its place."""
        self.transactions.append(list(operations))
        if self.fails:
            return fail(self.fails.pop())
        if self.refuses and self.refuses in operations[0].path:
            return fail(TransactionFailed(0, NotAuthorized(operations[0].path)))
        answer = super().transaction(operations)
        if not self.holds:
            return answer
        waiting: Deferred[Any] = Deferred()
        self._held.append((waiting, answer))
        return waiting

    def let_go(self) -> None:
        """Answer what was held."""
        self.holds, held, self._held = False, self._held, []
        for waiting, answer in held:
            answer.chainDeferred(waiting)


class RegistrarCase(SynchronousTestCase):
    """`coordinator` is ours; `stranger` a session of somebody else in the same tree."""

    topics = "[topic=t]\n"

    def setUp(self) -> None:
        """Nothing is registered, and the registrar does not run yet."""
        self.parts = BrokerParts(self, SYSTEM + self.topics)
        self.clock = self.parts.clock
        memory = LocalCoordinator.in_memory(self.clock)
        assert memory.realm is not None
        self.realm: Realm = memory.realm
        self.coordinator = Watched(self.clock)
        self.stranger = memory
        self.given_up: list[Failure] = []
        self.registrar = self.make_registrar(self.coordinator)
        self.names = Names.of(self.parts.settings)

    def make_registrar(self, coordinator: LocalCoordinator) -> Registrar:
        """One that is stopped with the test."""
        registrar = Registrar(
            self.clock,
            coordinator,
            self.parts.topics,
            lambda: ADDRESS,
            self.given_up.append,
        )
        self.addCleanup(registrar.stopService)
        return registrar

    def connect(self) -> None:
        """Open a session, another one than before."""
        self.coordinator.open(self.realm)

    def register(self) -> None:
        """Connect and register."""
        self.connect()
        self.registrar.startService()
        self.turn()
        self.coordinator.reads.clear()
        self.coordinator.transactions.clear()

    def turn(self) -> None:
        """Let a few turns of the reactor pass."""
        for _ in range(5):
            self.clock.advance(0)

    def wait(self, duration_s: float) -> None:
        """Let time pass, and what is due happen."""
        self.clock.advance(duration_s)
        self.turn()

    def apply(self, topics: str) -> None:
        """Reload with other topic sections."""
        fresh = BrokerParts(self, SYSTEM + topics).settings
        old = self.parts.settings
        self.parts.topics.apply(
            evolve(
                old,
                topics=fresh.topics,
                text=fresh.text,
                config_checksum=fresh.config_checksum,
            )
        )
        self.turn()

    # -- the tree -----------------------------------------------------------------

    def data(self, path: str) -> bytes | None:
        """What a node holds; None without a node. `path` is below /meta/brokers."""
        found = self._node(path)
        return None if found is None else found[0]

    def stat(self, path: str) -> NodeStat:
        """The stat of a node that is there."""
        found = self._node(path)
        assert found is not None, path
        return found[1]

    def _node(self, path: str) -> Any:
        reading = self.stranger.get(f"/meta/brokers/{path}")
        reading.addErrback(lambda failure: failure.trap(NoNode) and None)
        return self.successResultOf(reading)

    def trees(self, topic: str = "t") -> tuple[bytes | None, ...]:
        """What the three trees say of a topic."""
        names = ("topics", "topics-pub", "topics-sub")
        return tuple(self.data(f"{name}/{topic}/5-m") for name in names)

    def delete(self, path: str) -> None:
        """Somebody deletes a node."""
        self.successResultOf(self.stranger.delete(f"/meta/brokers/{path}"))

    def overwrite(self, path: str, data: bytes) -> None:
        """Somebody writes into a node."""
        self.successResultOf(self.stranger.set(f"/meta/brokers/{path}", data))

    def create(self, path: str, data: bytes, ephemeral: bool = True) -> None:
        """Somebody makes a node."""
        path = f"/meta/brokers/{path}"
        made = self.stranger.create(path, data, ephemeral, make_parents=True)
        self.successResultOf(made)

    def assert_registered(self) -> None:
        """All nodes of broker and topic `t` are there, of our session."""
        session_id = self.coordinator.session_id
        self.assertEqual(self.data("ids/5/master"), ADDRESS.encode())
        self.assertEqual(self.data("ids/5"), ADDRESS.encode())
        checksum = str(self.parts.topics.settings.config_checksum).encode()
        self.assertEqual(self.data("ids/5/master_config_checksum"), checksum)
        self.assertEqual(self.trees(), (b"3", BOTH, BOTH))
        for path in (
            "ids/5/master",
            "ids/5/master_config_checksum",
            "topics/t/5-m",
            "topics-pub/t/5-m",
            "topics-sub/t/5-m",
        ):
            self.assertEqual(self.stat(path).ephemeral_owner, session_id, path)
        self.assertEqual(self.stat("ids/5").ephemeral_owner, 0)

    def repairs(self) -> dict[str, int]:
        """What was repaired, without what never was."""
        repairs = self.registrar.view().repairs
        return {fault: count for fault, count in repairs.items() if count}
