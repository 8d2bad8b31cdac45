"""Who may write an offset into the tree: lost partitions, lost sessions, lost links."""

from __future__ import annotations

from metatwist.client.errors import ClientError, NotOwner, OffsetStorageFailed
from metatwist.client.offsets.coordinator import MOST_TRIES
from metatwist.client.offsets.interface import Claim, Commit
from metatwist.coordination.errors import (
    ConnectionLost,
    CoordinationError,
    NotAuthorized,
    OperationTimeout,
    SessionExpired,
)
from metatwist.coordination.formats import OffsetRecord
from tests.client.offsets.offset_contract import GROUP
from tests.client.offsets.tree_case import LAYOUT, WHERE, TreeCase, failing

OFFSET_PATH = LAYOUT.offset(GROUP, *WHERE)
OWNER_PATH = LAYOUT.owner(GROUP, *WHERE)


class LostPartitionTest(TreeCase):
    """The partition has another owner, and the session lives."""

    def setUp(self) -> None:
        """The first one has owned it and stored 10."""
        super().setUp()
        self.own(self.first)
        self.assertIsNone(self.load(self.first))
        self.assertIsNone(self.commit(self.first, 10))

    def test_new_owner_first(self) -> None:
        """After the new owner has stored an offset the old one cannot."""
        self.own(self.second)
        self.assertEqual(OffsetRecord(10), self.load(self.second))
        self.assertIsNone(self.commit(self.second, 20))
        for _ in range(2):
            self.assertIsInstance(self.commit(self.first, 11), NotOwner)
        self.assertEqual(b"-1-20", self.node())
        self.assertIsNone(self.commit(self.second, 21))

    def test_old_owner_first(self) -> None:
        """What the old one still stores is overwritten by the new owner, for good."""
        self.own(self.second)
        self.load(self.second)
        self.commit(self.first, 11)
        self.assertIsNone(self.commit(self.second, 20))
        self.assertEqual(b"-1-20", self.node())
        self.assertIsInstance(self.commit(self.first, 12), NotOwner)
        self.assertEqual(b"-1-20", self.node())

    def test_between_look_and_write(self) -> None:
        """The partition moves after the old owner has looked, right before it writes,
        and the new one is quicker."""
        self.write(b"-1-9")  # so that it has to look again
        self.first.watched.before["transaction"] = self._move_once
        self.assertIsInstance(self.commit(self.first, 11), NotOwner)
        self.assertEqual(b"-1-20", self.node())

    def _move_once(self) -> None:
        if self.first.watched.asked.count("transaction") == 3:
            self.own(self.second)
            self.assertIsNone(self.commit(self.second, 20))

    def test_no_owner(self) -> None:
        """Without any owner nothing is stored."""
        self.successResultOf(self.admin.delete(OWNER_PATH))
        self.assertIsInstance(self.commit(self.first, 11), NotOwner)
        self.assertEqual(b"-1-10", self.node())

    def test_never_looked(self) -> None:
        """A claim that was never right stores nothing."""
        self.assertIsInstance(self.commit(self.second, 20), NotOwner)
        self.assertEqual(OffsetRecord(10), self.load(self.second))
        self.assertIsInstance(self.commit(self.second, 20), NotOwner)
        self.assertEqual(b"-1-10", self.node())

    def test_same_name(self) -> None:
        """Another session with the same consumer id is somebody else."""
        self.second.name = self.first.name
        self.assertIsInstance(self.commit(self.second, 20), NotOwner)
        self.own(self.second)
        self.assertIsNone(self.commit(self.second, 20))
        self.assertIsInstance(self.commit(self.first, 11), NotOwner)

    def test_shared_storage(self) -> None:
        """One storage for two consumers: what one has seen does not help the other."""
        self.own(self.second)
        theirs = Claim(self.second.name, self.first.session.session_id)
        path = OWNER_PATH
        self.successResultOf(self.admin.delete(path))
        made = self.first.session.create(path, theirs.consumer.encode(), ephemeral=True)
        self.successResultOf(made)
        late = Commit(WHERE, OffsetRecord(20), theirs)
        self.assertIsNone(self.commit_this(self.first, late))
        self.assertIsInstance(self.commit(self.first, 11), NotOwner)
        self.assertEqual(b"-1-20", self.node())

    def test_comes_back(self) -> None:
        """Who gets the partition back stores again."""
        self.own(self.second)
        self.assertIsNone(self.commit(self.second, 20))
        self.assertIsInstance(self.commit(self.first, 11), NotOwner)
        self.own(self.first)
        self.assertIsNone(self.commit(self.first, 30))
        self.assertEqual(b"-1-30", self.node())


class AdminTest(TreeCase):
    """Somebody changes the offset of a partition that has an owner."""

    def setUp(self) -> None:
        """The first one has stored 10."""
        super().setUp()
        self.own(self.first)
        self.assertIsNone(self.commit(self.first, 10))

    def test_changed(self) -> None:
        """The owner overwrites it, as Java does."""
        self.write(b"0-4096")
        self.assertIsNone(self.commit(self.first, 11))
        self.assertEqual(b"-1-11", self.node())

    def test_deleted(self) -> None:
        """The owner makes it anew."""
        self.successResultOf(self.admin.delete(OFFSET_PATH))
        self.assertIsNone(self.commit(self.first, 11))
        self.assertEqual(b"-1-11", self.node())

    def test_group_deleted(self) -> None:
        """Also with its directories."""
        self.successResultOf(self.admin.delete(OFFSET_PATH))
        self.successResultOf(self.admin.delete(LAYOUT.offsets_of(GROUP, "t")))
        self.successResultOf(self.admin.delete(LAYOUT.offsets(GROUP)))
        self.assertIsNone(self.commit(self.first, 11))
        self.assertEqual(b"-1-11", self.node())

    def test_made_meanwhile(self) -> None:
        """Of a node that appears when it is to be made, the owner's value stays."""
        self.successResultOf(self.admin.delete(OFFSET_PATH))
        self.first.watched.before["create"] = lambda: self.write(b"0-4096")
        self.assertIsNone(self.commit(self.first, 11))
        self.assertEqual(b"-1-11", self.node())

    def test_changed_all_the_time(self) -> None:
        """Somebody who does not stop is given up on, until the next commit."""
        self.first.watched.before["transaction"] = lambda: self.write(b"0-1")
        error = self.commit(self.first, 11)
        self.assertIsInstance(error, OffsetStorageFailed)
        self.assertTrue(error is not None and error.retriable)
        asked = self.first.watched.asked.count("transaction")
        self.assertEqual(MOST_TRIES, asked - 1)
        self.first.watched.before.clear()
        self.assertIsNone(self.commit(self.first, 12))


class LostSessionTest(TreeCase):
    """The session of the claim is over."""

    def test_over(self) -> None:
        """In another session the old claim stores nothing, a new one does."""
        self.own(self.first)
        old = self.first.commit_of(11)
        assert self.admin.realm is not None
        self.first.session.open(self.admin.realm)
        self.assertIsInstance(self.commit_this(self.first, old), NotOwner)
        self.own(self.first)
        self.assertIsInstance(self.commit_this(self.first, old), NotOwner)
        self.assertNotIn("transaction", self.first.watched.asked)
        self.assertIsNone(self.commit(self.first, 12))

    def test_closed(self) -> None:
        """A coordinator that was stopped has no session."""
        self.own(self.first)
        old = self.first.commit_of(11)
        self.first.session.close()
        self.assertIsInstance(self.commit_this(self.first, old), NotOwner)

    def test_expired_meanwhile(self) -> None:
        """An answer that says so ends the claim as well."""
        self.own(self.first)
        self.first.watched.after["transaction"] = failing(SessionExpired())
        self.assertIsInstance(self.commit(self.first, 11), NotOwner)

    def test_ends_between_requests(self) -> None:
        """A claim that ends while the node is looked at stores nothing."""
        self.own(self.first)
        answers = [True]
        claim = Claim(
            self.first.name,
            self.first.session.session_id,
            holds=lambda: bool(answers and answers.pop()),
        )
        late = Commit(WHERE, OffsetRecord(11), claim)
        self.assertIsInstance(self.commit_this(self.first, late), NotOwner)
        self.assertIsNone(self.successResultOf(self.admin.exists(OFFSET_PATH)))


class TroubleTest(TreeCase):
    """Requests fail."""

    def setUp(self) -> None:
        """The first one has stored 10."""
        super().setUp()
        self.own(self.first)
        self.assertIsNone(self.commit(self.first, 10))

    def failed(self, error: CoordinationError) -> ClientError:
        """What a commit comes to that is carried out and answered so."""
        self.first.watched.after["transaction"] = failing(error)
        found = self.commit(self.first, 11)
        self.first.watched.after.clear()
        assert found is not None
        return found

    def test_unknown(self) -> None:
        """Without an answer the outcome is unknown, and the next commit finds out
        whether it is still the owner."""
        for error in (ConnectionLost(), OperationTimeout()):
            found = self.failed(error)
            self.assertIsInstance(found, OffsetStorageFailed)
            self.assertEqual((True, True), (found.retriable, found.outcome_unknown))
            self.assertIs(error, found.__cause__)
            self.first.watched.asked.clear()
            self.assertIsNone(self.commit(self.first, 12))
            expected = ["get", "get", "transaction"]
            self.assertEqual(expected, self.first.watched.asked)
        self.failed(ConnectionLost())
        self.own(self.second)
        self.assertIsNone(self.commit(self.second, 20))
        self.assertIsInstance(self.commit(self.first, 13), NotOwner)
        self.assertEqual(b"-1-20", self.node())

    def test_refused(self) -> None:
        """An error that says no is no unknown outcome."""
        found = self.failed(NotAuthorized())
        self.assertIsInstance(found, OffsetStorageFailed)
        self.assertFalse(found.outcome_unknown)
        self.assertIn("not authorized", str(found))

    def test_suspended(self) -> None:
        """Without a connection loads and commits fail and may be tried again."""
        commit = self.first.commit_of(11)
        self.first.session.suspend()
        found = self.commit_this(self.first, commit)
        self.assertIsInstance(found, OffsetStorageFailed)
        loading = self.first.storage.load(WHERE, commit.claim)
        error = self.failureResultOf(loading, OffsetStorageFailed).value
        self.assertTrue(error.retriable)


class UnfencedTest(TreeCase):
    """A claim without session, as of a broadcast consumer."""

    def test_last_wins(self) -> None:
        """Nobody owns it, the directories are made, and whoever writes last is
        right."""
        for offset in (10, 11, 12):
            one = Commit(WHERE, OffsetRecord(offset), Claim("g1_me"))
            self.assertIsNone(self.commit_this(self.first, one))
            self.write(b"0-1")
        self.successResultOf(self.admin.delete(OFFSET_PATH))
        one = Commit(WHERE, OffsetRecord(13), Claim("g1_me"))
        self.assertIsNone(self.commit_this(self.first, one))
        self.assertEqual(b"-1-13", self.node())
        loaded = self.first.storage.load(WHERE, Claim("g1_me"))
        self.assertEqual(OffsetRecord(13), self.successResultOf(loaded))
