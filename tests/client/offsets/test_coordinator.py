"""Offsets in the coordinator's tree: the contract on three of them, text, requests."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.trial.unittest import TestCase

from metatwist.client.errors import OffsetStorageFailed
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.coordinator import CoordinatorOffsets
from metatwist.client.offsets.interface import Claim, Commit
from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.embedded.service import (
    EmbeddedCoordinator,
    EmbeddedSettings,
)
from metatwist.coordination.ensemble import EnsembleCoordinator, EnsembleSettings
from metatwist.coordination.errors import NodeExists
from metatwist.coordination.formats import OffsetRecord
from metatwist.coordination.interface import SessionState
from metatwist.coordination.layout import Layout
from tests.client.offsets.offset_contract import GROUP, OffsetContract, place
from tests.client.offsets.tree_case import WHERE, TreeCase
from tests.interop.coordinator_case import CoordinatorCase
from tests.interop.zookeeper_server import DebianZooKeeper


class OnCoordinator(OffsetContract):
    """The contract with real claims; a mixin. `tree` has a session."""

    tree: Any
    layout: ClassVar[Layout] = Layout()

    def new_storage(self, group: str = GROUP) -> Any:
        """See OffsetContract."""
        return succeed(CoordinatorOffsets(self.tree, self.layout, group))

    @inlineCallbacks
    def claim_of(self, partition: TopicPartition, group: str = GROUP) -> Any:
        """Own the partition."""
        claim = Claim(f"{group}_me", self.tree.session_id)
        path = self.layout.owner(group, *partition)
        consumer = claim.consumer.encode()
        with contextlib.suppress(NodeExists):
            yield self.tree.create(path, consumer, ephemeral=True, make_parents=True)
        return claim


class LocalContractTest(OnCoordinator, TestCase):
    """The contract, in memory."""

    def setUp(self) -> None:
        """An empty tree."""
        self.tree = LocalCoordinator.in_memory(reactor)


class EmbeddedContractTest(OnCoordinator, TestCase):
    """The contract, through the protocol, on the embedded coordinator."""

    @inlineCallbacks
    def setUp(self) -> Any:
        """Start it on a free port, and connect."""
        settings = EmbeddedSettings(None, "tcp:0:interface=127.0.0.1")
        server = EmbeddedCoordinator(reactor, settings)
        server.startService()
        self.addCleanup(server.stopService)
        yield server.ready
        address = f"127.0.0.1:{server.port.getHost().port}"
        self.tree = EnsembleCoordinator(reactor, EnsembleSettings(address))
        connected: Deferred[None] = Deferred()

        def told(state: SessionState) -> None:
            if state is SessionState.CONNECTED and not connected.called:
                connected.callback(None)

        self.tree.on_state(told)
        self.tree.startService()
        self.addCleanup(self.tree.stopService)
        yield connected


class ZooKeeperContractTest(OnCoordinator, CoordinatorCase):
    """The contract on Debian's ZooKeeper, and fencing there."""

    @inlineCallbacks
    def setUp(self) -> Any:
        """Start one and connect."""
        super().setUp()
        self.server: DebianZooKeeper = self.zookeeper()
        self.server.start()
        self.tree = yield self.connected(self.server.address)

    @inlineCallbacks
    def test_fenced(self) -> Any:
        """Who has lost a partition to another session cannot overwrite its offset."""
        where = place("t")
        path = self.layout.owner(GROUP, *where)
        storage = yield self.new_storage()
        mine = yield self.commit_of(where, 10)
        outcome = yield storage.commit((mine,))
        self.assertEqual({where: None}, outcome)
        yield self.tree.delete(path)
        other = yield self.connected(self.server.address)
        yield other.create(path, b"g1_other", ephemeral=True)
        theirs = CoordinatorOffsets(other, self.layout, GROUP)
        claim = Claim("g1_other", other.session_id)
        outcome = yield theirs.commit((Commit(where, OffsetRecord(20), claim),))
        self.assertEqual({where: None}, outcome)
        outcome = yield storage.commit((mine,))
        self.assertEqual("NotOwner", type(outcome[where]).__name__)
        self.assertEqual(OffsetRecord(20), (yield theirs.load(where, claim)))


class TextTest(TreeCase):
    """The text of an offset node (spec layout 3.6)."""

    def test_reads(self) -> None:
        """Java's texts, also of before 1.4; blank is none."""
        cases = {
            b"-5468931049541074944-22": OffsetRecord(22, -5468931049541074944),
            b"-1-0": OffsetRecord(0),
            b"0-4096": OffsetRecord(4096, 0),
            b"4096": OffsetRecord(4096),
            b"-5": OffsetRecord(-5),
            b"": None,
            b"  ": None,
        }
        for data, record in cases.items():
            self.write(data)
            self.assertEqual(record, self.load(self.first), data)

    def test_unreadable(self) -> None:
        """A text that is none fails the load, and names the node; a commit replaces
        it."""
        self.own(self.first)
        for data in (b"x", b"1-", b"\xff", b"1-99999999999999999999"):
            self.write(data)
            loading = self.first.storage.load(WHERE, self.first.claim)
            error = self.failureResultOf(loading, OffsetStorageFailed).value
            self.assertIn("/meta/consumers/g1/offsets/t/0-0", str(error))
            self.assertFalse(error.retriable)
        self.assertIsNone(self.commit(self.first, 5))
        self.assertEqual(b"-1-5", self.node())

    def test_writes(self) -> None:
        """What Java reads."""
        self.own(self.first)
        cases = [(OffsetRecord(4096, -77), b"-77-4096"), (OffsetRecord(0), b"-1-0")]
        for record, data in cases:
            commit = Commit(WHERE, record, self.first.claim)
            self.assertIsNone(self.commit_this(self.first, commit))
            self.assertEqual(data, self.node())

    def test_unfit_name(self) -> None:
        """A topic that fits into no path fails alone."""
        where = place("a/b")
        self.own(self.first)
        commits = (self.first.commit_of(1, where), self.first.commit_of(2))
        outcome = self.successResultOf(self.first.storage.commit(commits))
        self.assertIsInstance(outcome[where], OffsetStorageFailed)
        self.assertFalse(outcome[where].retriable)
        self.assertIsNone(outcome[WHERE])
        loading = self.first.storage.load(where, self.first.claim)
        self.failureResultOf(loading, OffsetStorageFailed)


class RequestsTest(TreeCase):
    """How much is asked of the coordinator."""

    def test_one_a_commit(self) -> None:
        """After a load by the owner each commit is one request (spec client 21 W12)."""
        self.write(b"-1-5")
        self.own(self.first)
        self.load(self.first)
        self.first.watched.asked.clear()
        for offset in (6, 7, 8):
            self.assertIsNone(self.commit(self.first, offset))
        self.assertEqual(["transaction"] * 3, self.first.watched.asked)

    def test_created(self) -> None:
        """The first offset of a group is made with its directories."""
        self.own(self.first)
        self.load(self.first)
        self.first.watched.asked.clear()
        self.assertIsNone(self.commit(self.first, 6))
        self.assertIsNone(self.commit(self.first, 7))
        expected = ["create", "transaction", "transaction"]
        self.assertEqual(expected, self.first.watched.asked)

    def test_at_once(self) -> None:
        """The partitions of a commit do not wait for each other, two commits of one
        partition do."""
        places = [place("t", 0, number) for number in range(20)]
        for one in places:
            self.own(self.first, one)
            self.write(b"-1-5", one)
            self.load(self.first, one)
        held: list[tuple[Deferred[Any], Deferred[Any]]] = []

        def hold(answer: Deferred[Any]) -> Deferred[Any]:
            held.append((answer, Deferred()))
            return held[-1][1]

        self.first.watched.after["transaction"] = hold
        commits = tuple(self.first.commit_of(6, one) for one in places)
        waiting = self.first.storage.commit(commits)
        again = self.first.storage.commit((self.first.commit_of(7),))
        self.assertEqual(20, len(held))
        del self.first.watched.after["transaction"]
        for answer, passed_on in held:
            answer.chainDeferred(passed_on)
        self.assertEqual({None}, set(self.successResultOf(waiting).values()))
        self.successResultOf(again)
        self.assertEqual(b"-1-7", self.node())
