"""What is true of every offset storage: mix it into a `TestCase`, and make storages.

Write your own storage against these: give `new_storage` and, where a claim must be
proven, `claim_of`.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import (
    CancelledError,
    Deferred,
    gatherResults,
    inlineCallbacks,
    succeed,
)
from zope.interface.verify import verifyObject

from metatwist.client.errors import ClientStopped, NotOwner, OffsetStorageFailed
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import Claim, Commit, IOffsetStorage
from metatwist.coordination.formats import OffsetRecord
from metatwist.coordination.names import PartitionName

GROUP = "g1"
OTHER_GROUP = "g2"


def place(topic: str, broker_id: int = 0, partition: int = 0) -> TopicPartition:
    """A partition of a topic."""
    return TopicPartition(topic, PartitionName(broker_id, partition))


class OffsetContract:
    """The tests; a mixin. All storages of one test have the same store below them."""

    def new_storage(self, group: str = GROUP) -> Any:
        """A Deferred of another storage on the same store, closed at the end."""
        raise NotImplementedError

    def claim_of(self, partition: TopicPartition, group: str = GROUP) -> Any:
        """A Deferred of a claim that holds."""
        return succeed(Claim(f"{group}_me"))

    @inlineCallbacks
    def commit_of(
        self, partition: TopicPartition, offset: int, message: int | None = None
    ) -> Any:
        """A commit by whoever owns the partition."""
        claim = yield self.claim_of(partition)
        return Commit(partition, OffsetRecord(offset, message), claim)

    @inlineCallbacks
    def stored(self, partition: TopicPartition, group: str = GROUP) -> Any:
        """What a storage that was just opened loads."""
        storage = yield self.new_storage(group)
        claim = yield self.claim_of(partition, group)
        record = yield storage.load(partition, claim)
        yield storage.close()
        return record

    @inlineCallbacks
    def test_interface(self: Any) -> Any:
        """It provides the interface, and says where the offsets are."""
        storage = yield self.new_storage()
        verifyObject(IOffsetStorage, storage)
        self.assertIsInstance(storage.description, str)

    @inlineCallbacks
    def test_never_stored(self: Any) -> Any:
        """Of a partition that was never committed there is no offset."""
        self.assertIsNone((yield self.stored(place("t"))))

    @inlineCallbacks
    def test_values(self: Any) -> Any:
        """Offset and message id come back from another storage as they were given."""
        storage = yield self.new_storage()
        cases = [(0, None), (2**63 - 1, -(2**63)), (4096, -77), (7, 2**63 - 1), (1, 0)]
        for offset, message in cases:
            commit = yield self.commit_of(place("t"), offset, message)
            outcome = yield storage.commit((commit,))
            self.assertEqual({place("t"): None}, outcome)
            loaded = yield storage.load(place("t"), commit.claim)
            self.assertEqual(commit.record, loaded)
            self.assertEqual(commit.record, (yield self.stored(place("t"))))

    @inlineCallbacks
    def test_goes_back(self: Any) -> Any:
        """An offset may become smaller, and be stored again as it is."""
        storage = yield self.new_storage()
        for offset in (500, 20, 20):
            commit = yield self.commit_of(place("t"), offset)
            outcome = yield storage.commit((commit,))
            self.assertEqual({place("t"): None}, outcome)
        self.assertEqual(OffsetRecord(20), (yield self.stored(place("t"))))

    @inlineCallbacks
    def test_apart(self: Any) -> Any:
        """Partitions, topics and groups do not touch each other's offsets."""
        storage = yield self.new_storage()
        places = [place("t", 1, 11), place("t", 11, 1), place("t1"), place("t-1", 1, 1)]
        commits = []
        for number, one in enumerate(places):
            commits.append((yield self.commit_of(one, number)))
        outcome = yield storage.commit(tuple(commits))
        self.assertEqual(dict.fromkeys(places), outcome)
        for number, one in enumerate(places):
            self.assertEqual(OffsetRecord(number), (yield self.stored(one)))
        self.assertIsNone((yield self.stored(place("t1"), OTHER_GROUP)))

    @inlineCallbacks
    def test_nothing_to_commit(self: Any) -> Any:
        """No commits have no outcome."""
        storage = yield self.new_storage()
        self.assertEqual({}, (yield storage.commit(())))

    @inlineCallbacks
    def test_many_at_once(self: Any) -> Any:
        """A commit of many partitions stores and reports each."""
        storage = yield self.new_storage()
        commits = []
        for number in range(40):
            commits.append((yield self.commit_of(place("t", 0, number), number)))
        outcome = yield storage.commit(tuple(commits))
        self.assertEqual({one.partition: None for one in commits}, outcome)
        loads = [storage.load(one.partition, one.claim) for one in commits]
        loaded = yield gatherResults(loads)
        self.assertEqual([one.record for one in commits], loaded)

    @inlineCallbacks
    def test_order(self: Any) -> Any:
        """Of commits that do not wait for each other the last one stays."""
        storage = yield self.new_storage()
        waiting = []
        for number in range(20):
            commit = yield self.commit_of(place("t"), number)
            waiting.append(storage.commit((commit,)))
        outcomes = yield gatherResults(waiting)
        self.assertEqual([{place("t"): None}] * 20, outcomes)
        self.assertEqual(OffsetRecord(19), (yield self.stored(place("t"))))

    @inlineCallbacks
    def test_claim_over(self: Any) -> Any:
        """A claim that cannot be proven stores nothing; the others do."""
        storage = yield self.new_storage()
        first = yield self.commit_of(place("t"), 5)
        yield storage.commit((first,))
        claim = first.claim
        over = Claim(claim.consumer, claim.session_id, lambda: False)
        late = Commit(place("t"), OffsetRecord(9), over)
        other = yield self.commit_of(place("u"), 6)
        outcome = yield storage.commit((late, other))
        self.assertIsInstance(outcome[place("t")], NotOwner)
        self.assertFalse(outcome[place("t")].retriable)
        self.assertIsNone(outcome[place("u")])
        self.assertEqual(OffsetRecord(5), (yield self.stored(place("t"))))
        self.assertEqual(OffsetRecord(6), (yield self.stored(place("u"))))

    @inlineCallbacks
    def test_no_offset(self: Any) -> Any:
        """An offset below 0 is refused for good."""
        storage = yield self.new_storage()
        commit = yield self.commit_of(place("t"), -1)
        outcome = yield storage.commit((commit,))
        error = outcome[place("t")]
        self.assertIsInstance(error, OffsetStorageFailed)
        self.assertFalse(error.retriable)
        self.assertEqual(("t", PartitionName(0, 0)), (error.topic, error.partition))
        self.assertIsNone((yield self.stored(place("t"))))

    @inlineCallbacks
    def test_cancelled(self: Any) -> Any:
        """Cancelling stops the wait, not the write."""
        storage = yield self.new_storage()
        commit = yield self.commit_of(place("t"), 8)
        waiting: list[Deferred[Any]] = [storage.commit((commit,))]
        waiting.append(storage.load(place("t"), commit.claim))
        for one in waiting:
            if not one.called:
                one.cancel()
                yield self.assertFailure(one, CancelledError)
        yield storage.close()
        self.assertEqual(OffsetRecord(8), (yield self.stored(place("t"))))

    @inlineCallbacks
    def test_closed(self: Any) -> Any:
        """Closing waits for the writes under way; after it nothing is taken."""
        storage = yield self.new_storage()
        commit = yield self.commit_of(place("t"), 8)
        committed = storage.commit((commit,))
        yield storage.close()
        self.assertTrue(committed.called)
        yield committed
        yield storage.close()
        load = storage.load(place("t"), commit.claim)
        yield self.assertFailure(load, ClientStopped)
        yield self.assertFailure(storage.commit((commit,)), ClientStopped)
        self.assertEqual(OffsetRecord(8), (yield self.stored(place("t"))))
