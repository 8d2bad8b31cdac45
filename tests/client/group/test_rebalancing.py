"""Partitions that come and go, and the races on their way."""

from __future__ import annotations

import random

from metatwist.client.settings import Strategy
from metatwist.coordination.layout import TopicTree
from tests.client.group.group_case import (
    GROUP,
    LAYOUT,
    GroupCase,
    JavaPeer,
    Member,
    tp,
)

ALL = ["t:0-0", "t:0-1", "t:0-2", "t:0-3"]
LOW, HIGH = ALL[:2], ALL[2:]


def owner_path(text: str) -> str:
    partition = tp(text)
    return LAYOUT.owner(GROUP, partition.topic, partition.partition)


class SharingTests(GroupCase):
    """Several of ours in one group."""

    def test_second(self) -> None:
        """A second member gets its half; what the first keeps is not touched (W1)."""
        first = self.joined("a")
        kept = {one: first.holder.claims[tp(one)] for one in LOW}
        second = self.joined("b")
        self.assertEqual((first.reads(), second.reads()), (LOW, HIGH))
        self.assertEqual(first.holder.log[1:], [("give_up", (one,)) for one in HIGH])
        for one, claim in kept.items():
            self.assertIs(first.holder.reading[tp(one)], claim)

    def test_leaves(self) -> None:
        """What a leaving member had goes to those who stay."""
        first, second = self.joined("a"), self.joined("b")
        first.membership.stop()
        self.world.advance(1)
        self.assertEqual(second.reads(), ALL)

    def test_dies(self) -> None:
        """So does what a dead one had, once its session is over."""
        first, second = self.joined("a"), self.joined("b")
        first.connection.suspend()
        self.world.advance(1)
        self.assertEqual(second.reads(), HIGH)
        first.connection.expire_unnoticed()
        self.world.advance(1)
        self.assertEqual(second.reads(), ALL)

    def test_topics(self) -> None:
        """Each topic is shared among its subscribers alone."""
        self.world.broker("u", 2)
        first, second = self.joined("a", "t u"), self.joined("b", "u")
        self.assertEqual(first.reads(), [*ALL, "u:0-0"])
        self.assertEqual(second.reads(), ["u:0-1"])

    def test_brokers(self) -> None:
        """Partitions come and go with brokers; a slave's are the master's, and the
        larger count wins."""
        member = self.joined("a")
        self.world.broker("t", 5, "0-s1")
        self.world.broker("t", 1, "1-m")
        self.world.advance(1)
        self.assertEqual(member.reads(), [*ALL, "t:0-4", "t:1-0"])
        self.world.broker("t", 0, "0-m")
        self.world.broker("t", 0, "1-m")
        self.world.advance(1)
        self.assertEqual(member.reads(), [*ALL, "t:0-4"])
        self.world.broker("t", 0, "0-s1")
        self.world.advance(1)
        self.assertEqual(member.reads(), [])

    def test_fewer_partitions(self) -> None:
        """A registration whose data alone changes is noticed."""
        member = self.joined("a")
        path = LAYOUT.topic_node(TopicTree.SUBSCRIBE, "t", "0-m")
        data = b'{"numParts":2,"broker":"0-m"}'
        self.successResultOf(self.world.admin.set(path, data))
        self.world.advance(1)
        self.assertEqual(member.reads(), LOW)

    def test_consistent(self) -> None:
        """With the other strategy a group shares as well."""
        options = {"strategy": Strategy.CONSISTENT_HASH}
        first = self.joined("a", **options)
        second = self.joined("b", **options)
        self.assertEqual(sorted(first.reads() + second.reads()), ALL)

    def test_lost_watches(self) -> None:
        """Without any watch it is noticed all the same, later."""
        member = self.joined("a")
        for watch in list(member.connection.watching):
            watch.forget()
        self.world.broker("t", 2, "1-m")
        self.successResultOf(self.world.admin.delete(owner_path("t:0-0")))
        self.world.advance(1)
        self.assertEqual(member.reads(), ALL)
        self.world.advance(80, 0.5)
        self.assertEqual(member.reads(), [*ALL, "t:1-0", "t:1-1"])
        self.assertIsNotNone(self.world.owner(tp("t:0-0")))


class SlowHolderTests(GroupCase):
    """Holders that take their time (W2, W7)."""

    def test_slow_stop(self) -> None:
        """A partition that is slow to stop keeps no other waiting, and its node stays
        until it has stopped."""
        first = self.joined("a")
        first.holder.slow_stops = {tp("t:0-2")}
        second = self.joined("b")
        self.assertEqual(second.reads(), ["t:0-3"])
        self.assertEqual(dict(second.membership.contested), {tp("t:0-2"): "g_a"})
        self.world.broker("t", 1, "1-m")
        self.world.advance(1)
        self.assertIn("t:1-0", second.reads())
        first.holder.finish(tp("t:0-2"))
        self.world.advance(1)
        self.assertIn("t:0-2", first.reads() + second.reads())
        self.assertEqual(dict(second.membership.contested), {})

    def test_wanted_again(self) -> None:
        """What comes back while it is being given up is taken anew after that."""
        first = self.joined("a")
        first.holder.slow_stops = {tp("t:0-2")}
        second = self.joined("b")
        second.membership.stop()
        self.world.advance(1)
        self.assertEqual(first.reads(), ["t:0-0", "t:0-1", "t:0-3"])
        first.holder.finish(tp("t:0-2"))
        self.world.advance(1)
        self.assertEqual(first.reads(), ALL)

    def test_given_back_while_taking(self) -> None:
        """What is to go before the holder has begun it goes after that."""
        first = Member(self.world, "a")
        first.holder.slow_takes = {tp("t:0-3")}
        first.start()
        second = self.member("b")
        self.world.advance(1)
        self.assertEqual(second.reads(), [])
        first.holder.begin()
        self.world.advance(1)
        self.assertEqual((first.reads(), second.reads()), (LOW, HIGH))

    def test_hanging_take(self) -> None:
        """If it never begins, it is given up all the same after a limit."""
        first = Member(self.world, "a")
        first.holder.slow_takes = {tp("t:0-3")}
        first.start()
        self.world.advance(1)
        second = self.member("b")
        self.world.advance(12)
        self.assertEqual(second.reads(), HIGH)
        first.holder.begin()
        self.assertEqual(first.reads(), LOW)

    def test_session_ends_while_taking(self) -> None:
        """The end of a take of an earlier session means nothing for the next one's."""
        member = Member(self.world, "a")
        member.holder.slow_takes = {tp("t:0-0")}
        member.start()
        self.world.advance(1)
        early, member.holder.taking = member.holder.taking, []
        member.connection.renew()
        self.world.advance(1)
        early[0].callback(None)
        self.world.advance(10)
        member.holder.begin()
        self.assertEqual(member.reads(), ALL)


class ContestTests(GroupCase):
    """Owner nodes that are not ours."""

    def test_java_peer(self) -> None:
        """What a Java consumer still holds is claimed the moment it lets go; all else
        at once (W3)."""
        java = JavaPeer(self.world, "a")
        java.join()
        java.balance()
        member = self.joined("b")
        self.assertEqual(member.reads(), [])
        self.assertEqual(set(member.membership.contested), set(map(tp, HIGH)))
        java.balance()
        self.world.advance(0.05)
        self.world.advance(0.05)
        self.assertEqual(member.reads(), HIGH)
        java.leave()
        self.world.advance(1)
        self.assertEqual(member.reads(), ALL)

    def test_never_overwritten(self) -> None:
        """However long it lasts, a foreign node stays as it is; the user is told
        once."""
        path = owner_path("t:0-1")
        self.successResultOf(self.world.admin.create(path, b"g_x", make_parents=True))
        member = self.joined("a")
        self.world.advance(300, 0.5)
        self.assertEqual(member.reads(), ["t:0-0", "t:0-2", "t:0-3"])
        self.assertEqual(self.world.do(self.world.admin.get(path))[1].version, 0)
        (trouble,) = member.holder.troubles
        self.assertIn("t:0-1", trouble)
        self.assertIn("g_x", trouble)
        self.successResultOf(self.world.admin.delete(path))
        self.world.advance(0.1)
        self.assertEqual(member.reads(), ALL)

    def test_own_id_of_another_session(self) -> None:
        """A node with our id but of another session is not ours."""
        path = owner_path("t:0-1")
        self.successResultOf(
            self.world.admin.create(path, b"g_a", ephemeral=True, make_parents=True)
        )
        member = self.joined("a")
        self.assertNotIn("t:0-1", member.reads())
        self.assertEqual(dict(member.membership.contested), {tp("t:0-1"): "g_a"})

    def test_sibling_in_one_session(self) -> None:
        """Two consumers of one client share a session, but no partition."""
        first = self.joined("a")
        second = self.joined("b", connection=first.connection)
        self.assertEqual((first.reads(), second.reads()), (LOW, HIGH))
        first.membership.stop()
        self.world.advance(1)
        self.assertEqual(second.reads(), ALL)

    def test_owner_node_deleted(self) -> None:
        """If somebody deletes our owner node, the partition is lost at once: another
        may have it; then it is claimed again."""
        member = self.joined("a")
        self.successResultOf(self.world.admin.delete(owner_path("t:0-1")))
        self.world.advance(0.1)
        self.assertEqual(
            member.holder.log[1:], [("lose", ("t:0-1",)), ("take", ("t:0-1",))]
        )
        self.assertIsNotNone(self.world.owner(tp("t:0-1")))

    def test_owner_node_stolen(self) -> None:
        """If another claims it then, it stays lost."""
        member = self.joined("a")
        path = owner_path("t:0-1")
        self.successResultOf(self.world.admin.delete(path))
        self.successResultOf(self.world.admin.create(path, b"g_x", ephemeral=True))
        self.world.advance(1)
        self.assertEqual(member.reads(), ["t:0-0", "t:0-2", "t:0-3"])

    def test_owner_node_changed(self) -> None:
        """A node that says another owner is another's."""
        member = self.joined("a")
        self.successResultOf(self.world.admin.set(owner_path("t:0-1"), b"g_x"))
        self.world.advance(1)
        self.assertEqual(member.reads(), ["t:0-0", "t:0-2", "t:0-3"])

    def test_lost_while_giving_up(self) -> None:
        """If the node goes while the holder stops, the claim is over, and nothing of
        the next owner's is deleted."""
        first = self.joined("a")
        first.holder.slow_stops = {tp("t:0-3")}
        self.joined("b")
        claim = first.holder.claims[tp("t:0-3")]
        self.assertTrue(claim.holds())
        self.successResultOf(self.world.admin.delete(owner_path("t:0-3")))
        self.world.advance(1)
        self.assertFalse(claim.holds())
        first.holder.finish(tp("t:0-3"))
        self.world.advance(1)
        owner = self.world.owner(tp("t:0-3"))
        assert owner is not None
        self.assertEqual(owner[0], "g_b")


class FaultTests(GroupCase):
    """A coordinator that fails requests, before or after they are carried out."""

    def test_answer_to_a_claim_lost(self) -> None:
        """A node that was made though the answer was lost is found to be ours, or
        deleted if it is not wanted any more."""
        for seed in range(40):
            member = Member(self.world, f"m{seed}")
            member.connection.faults = random.Random(seed)
            member.connection.fault_rate = 0.4
            member.start()
            self.world.advance(0.5)
            self.world.broker("t", 2)
            self.world.advance(0.5)
            member.connection.fault_rate = 0.0
            self.world.advance(16)
            self.assertEqual(member.reads(), LOW)
            self.assertIsNone(self.world.owner(tp("t:0-3")))
            member.membership.stop()
            self.world.advance(6)
            self.assertEqual(self.world.members(), {})
            self.world.broker("t", 4)

    def test_for_ever(self) -> None:
        """An hour of failures does not end the tries, nor make them many (W3)."""
        member = Member(self.world, "a")
        member.connection.faults = random.Random(1)
        member.connection.fault_rate = 1.0
        member.start()
        self.world.advance(3600, 0.5)
        self.assertLess(member.connection.requests, 3000)
        self.assertEqual(member.outcomes, [])
        member.connection.fault_rate = 0.0
        self.world.advance(10)
        self.assertEqual(member.outcomes, [None])
        self.assertEqual(member.reads(), ALL)

    def test_leaving(self) -> None:
        """Leaving deletes everything in the end, whatever fails meanwhile."""
        for seed in range(20):
            member = self.joined(f"m{seed}")
            member.connection.faults = random.Random(seed)
            member.connection.fault_rate = 0.7
            stopped = member.membership.stop()
            self.world.advance(12)
            self.successResultOf(stopped)
            member.connection.fault_rate = 0.0
            self.world.advance(6)
            self.assertEqual(self.world.members(), {})
            self.assertEqual([self.world.owner(tp(one)) for one in ALL], [None] * 4)

    def test_late_answers(self) -> None:
        """With slow answers members agree as well."""
        members = [Member(self.world, unique) for unique in "abc"]
        for member in members:
            member.connection.latency_s = 0.7
            member.start()
            self.world.advance(1)
        self.world.advance(20)
        self.assertEqual(
            sorted(one for member in members for one in member.reads()), ALL
        )
        members[0].connection.suspend()
        members[0].connection.resume()
        members[1].membership.stop()
        self.world.advance(20)
        held = members[0].reads() + members[2].reads()
        self.assertEqual(sorted(held), ALL)
