"""Every fault, with every kind of listener, with and without a rebalance meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from twisted.internet.defer import fail

from metatwist.client import ProducerSettings
from metatwist.coordination.errors import ConnectionLost
from tests.client.faults.listeners import KINDS, POISON, PULLERS
from tests.client.faults.world import FaultCase, Node, World

READS = (
    "exists",
    "exists_and_watch",
    "get",
    "get_and_watch",
    "get_children",
    "get_children_and_watch",
)
Undo = Callable[[], object]


def nothing(world: World, node: Node) -> Undo:
    """All is well."""
    return lambda: None


def killed(world: World, node: Node) -> Undo:
    """The broker's process has gone, and comes again."""
    broker = world.brokers[0]
    broker.refuse_connections = True
    broker.drop_connections()
    world.cluster.withdraw(broker)

    def restart() -> None:
        broker.refuse_connections = False
        world.cluster.register(broker)

    return restart


def restarting(world: World, node: Node) -> Undo:
    """The broker refuses connections for a while, but stays registered."""
    broker = world.brokers[0]
    broker.refuse_connections = True
    broker.drop_connections()

    def restart() -> None:
        broker.refuse_connections = False

    return restart


def frozen(world: World, node: Node) -> Undo:
    """The broker's process is stopped; its kernel takes what comes."""
    world.brokers[0].freeze()
    return world.brokers[0].thaw


def frozen_deaf(world: World, node: Node) -> Undo:
    """As `frozen`, and nothing is read either."""
    world.brokers[0].freeze(reads=False)
    return world.brokers[0].thaw


def cut(world: World, node: Node) -> Undo:
    """Connections end after some more bytes, again and again."""
    for after_bytes in (1, 7, 31, 64, 150):
        world.brokers[0].drop_connections(after_bytes)
        world.run(1.5)
    return lambda: None


def expired(world: World, node: Node) -> Undo:
    """The session with the coordinator ends twice."""
    world.cluster.expire_session(node.coordinator)
    return lambda: world.cluster.expire_session(node.coordinator)


def suspended(world: World, node: Node) -> Undo:
    """The coordinator is away for longer than the lease; the session lives on."""
    node.coordinator.suspend()
    return node.coordinator.resume


def suspended_and_expired(world: World, node: Node) -> Undo:
    """The coordinator is away until the session has ended."""
    node.coordinator.suspend()
    return lambda: world.cluster.expire_session(node.coordinator)


def unreadable(world: World, node: Node) -> Undo:
    """The coordinator answers no read."""
    for name in READS:
        setattr(node.coordinator, name, lambda path: fail(ConnectionLost()))

    def mend() -> None:
        for name in READS:
            delattr(node.coordinator, name)

    return mend


def slow(world: World, node: Node) -> Undo:
    """The coordinator takes its time for each answer."""
    node.coordinator.latency_s = 0.7

    def mend() -> None:
        node.coordinator.latency_s = 0

    return mend


def flaky(world: World, node: Node) -> Undo:
    """Each third request to the coordinator fails, done or not."""
    node.coordinator.faults = Random(5)
    node.coordinator.fault_rate = 0.3

    def mend() -> None:
        node.coordinator.fault_rate = 0

    return mend


FAULTS: dict[str, Callable[[World, Node], Undo]] = {
    one.__name__: one
    for one in (
        nothing,
        killed,
        restarting,
        frozen,
        frozen_deaf,
        cut,
        expired,
        suspended,
        suspended_and_expired,
        unreadable,
        slow,
        flaky,
    )
}
FAULT_S = 40.0
QUIET_S = 3.0
"""After it no listener of ours has a timer any more."""


class MatrixTest(FaultCase):
    """At least once, nothing committed too early, nothing hangs, nothing is left."""

    def _play(self, fault: str, kind: str, rebalance: bool) -> None:
        world = World(self)
        first = world.node()
        world.join(first, kind)
        producer = first.client.producer(ProducerSettings(retries=3))
        careless = first.client.producer(ProducerSettings(may_duplicate=True))
        world.run(2)

        def traffic() -> None:
            if world.clock.seconds() % 1 < 0.2:
                world.send(producer)
                world.send(careless, "again")

        world.run(4, traffic)
        world.send(producer, POISON.decode() if kind == "raising" else "")
        world.run(0.25)
        world.send(producer, count=5)
        undo = FAULTS[fault](world, first)
        world.run(FAULT_S / 4, traffic)
        second = world.node() if rebalance else None
        if second is not None:
            world.join(second, kind)
        world.run(FAULT_S / 2)
        if second is not None:
            world.stop(second)
            self.assertEqual(world.nodes, [first])
        world.run(FAULT_S / 4)
        undo()
        world.run(5, traffic)
        world.settle()
        world.run(QUIET_S)
        self.assertGreater(len(world.ledger.processed), 15)
        self.assertEqual(len(world.ledger.rejected) > 0, kind == "raising")
        world.finish()


def _add_tests() -> None:
    for fault in FAULTS:
        for kind in (*KINDS, *PULLERS):
            for rebalance in (False, True):
                name = f"test_{fault}_{kind}" + ("_rebalance" if rebalance else "")

                def test(
                    self: MatrixTest,
                    fault: str = fault,
                    kind: str = kind,
                    rebalance: bool = rebalance,
                ) -> None:
                    self._play(fault, kind, rebalance)

                test.__doc__ = f"{fault}, {kind}: at-least-once holds, nothing hangs."
                setattr(MatrixTest, name, test)


_add_tests()
