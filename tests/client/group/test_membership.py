"""A consumer's life in its group."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.client.errors import DuplicateConsumer, GroupError, NotConnected
from metatwist.client.group.identity import local_address, unique_id
from metatwist.client.group.membership import GroupMembership, MembershipState
from metatwist.client.interfaces import IAssignment
from metatwist.client.settings import ConsumerSettings
from metatwist.coordination.names import is_path_element
from tests.client.group.group_case import (
    GROUP,
    LAYOUT,
    SESSION_TIMEOUT_S,
    GroupCase,
    Member,
    tp,
)

ALL = ["t:0-0", "t:0-1", "t:0-2", "t:0-3"]


class IdentityTests(SynchronousTestCase):
    """Generated consumer ids."""

    def test_unique(self) -> None:
        """No two are the same, and each has the shape of Java's."""
        first, second = unique_id("192.0.2.7"), unique_id("192.0.2.7")
        self.assertNotEqual(first, second)
        self.assertRegex(first, r"\A192\.0\.2\.7-\d+-[0-9a-f-]{36}\Z")

    def test_ipv6(self) -> None:
        """An IPv6 address makes a path element without colons and brackets."""
        for address in ("2001:db8::1", "[fe80::1]"):
            made = unique_id(address)
            self.assertTrue(is_path_element(made))
            self.assertNotRegex(made, r"[:\[\]]")

    def test_local(self) -> None:
        """This host has an address."""
        self.assertTrue(is_path_element(unique_id()))
        self.assertNotIn("%", local_address())


class JoinTests(GroupCase):
    """Joining a group."""

    def test_interface(self) -> None:
        """It is an IAssignment."""
        verifyObject(IAssignment, Member(self.world, "a").membership)

    def test_generated_id(self) -> None:
        """Without an id in the settings one is made."""
        made = GroupMembership(
            self.clock, self.world.connect(), LAYOUT, ConsumerSettings(GROUP), 30
        )
        self.assertTrue(made.consumer.startswith("g_"))

    def test_alone(self) -> None:
        """The only member registers with its topics and takes all, in one call."""
        member = self.joined("a", "t u")
        data, stat = self.successResultOf(
            self.world.admin.get(LAYOUT.member(GROUP, "g_a"))
        )
        self.assertEqual(data, b"t,u")
        self.assertEqual(stat.ephemeral_owner, member.connection.session_id)
        self.assertEqual(member.reads(), ALL)
        self.assertEqual(member.holder.log, [("take", tuple(ALL))])
        self.assertEqual(
            self.world.owner(tp("t:0-0")), ("g_a", member.connection.session_id)
        )
        self.assertIs(member.membership.state, MembershipState.MEMBER)
        parent = self.world.do(self.world.admin.exists(LAYOUT.members(GROUP)))
        self.assertEqual(parent.ephemeral_owner, 0)

    def test_bad_topics(self) -> None:
        """A topic that cannot be listed or be a path is refused at once."""
        for topic in ("a,b", "a/b", "", " "):
            member = Member(self.world, "a")
            started = member.membership.start(member.holder, frozenset({topic}))
            self.failureResultOf(started, GroupError)
            self.assertIs(member.membership.state, MembershipState.IDLE)

    def test_twice(self) -> None:
        """It starts once."""
        member = self.joined("a")
        again = member.membership.start(member.holder, frozenset())
        self.failureResultOf(again, GroupError)
        self.assertEqual(member.reads(), ALL)

    def test_no_topics(self) -> None:
        """A member without topics holds nothing."""
        self.assertEqual(self.joined("a", "").reads(), [])

    def test_waits_for_the_holder(self) -> None:
        """Joining is done when the holder has begun to read."""
        member = Member(self.world, "a")
        member.holder.slow_takes = {tp("t:0-0")}
        member.start()
        self.world.advance(1)
        self.assertEqual(member.outcomes, [])
        member.holder.begin()
        self.assertEqual(member.outcomes, [None])

    def test_does_not_wait_for_ever(self) -> None:
        """A holder that hangs does not keep it from having joined."""
        member = Member(self.world, "a")
        member.holder.slow_takes = {tp("t:0-0")}
        member.start()
        self.world.advance(12)
        self.assertEqual(member.outcomes, [None])
        member.holder.begin()

    def test_waits_for_a_connection(self) -> None:
        """Without a coordinator it waits, and joins when there is one."""
        connection = self.world.connect()
        connection.suspend()
        member = self.member("a", connection=connection)
        self.world.advance(100, 1)
        self.assertEqual(member.outcomes, [])
        connection.resume()
        self.world.advance(1)
        self.assertEqual(member.outcomes, [None])

    def test_cancelled(self) -> None:
        """Cancelling a start that waits stops it, and says what was missing."""
        connection = self.world.connect()
        connection.suspend()
        member = self.member("a", connection=connection)
        assert member.started is not None
        member.started.cancel()
        member.outcomes[0].trap(NotConnected)
        self.world.advance(30)
        self.assertIs(member.membership.state, MembershipState.LEFT)
        connection.resume()
        self.world.advance(5)
        path = LAYOUT.member(GROUP, "g_a")
        self.assertIsNone(self.world.do(self.world.admin.exists(path)))
        self.assertEqual(member.holder.log, [])

    def test_stopped(self) -> None:
        """Stopping a start that waits for another session's node ends it as well."""
        self.joined("a")
        second = self.member("a")
        self.world.advance(1)
        stopped = second.membership.stop()
        second.outcomes[0].trap(GroupError)
        self.world.advance(1)
        self.successResultOf(stopped)
        self.assertEqual(len(self.world.members()), 1)


class SameIdTests(GroupCase):
    """Two consumers with one id (W5)."""

    def test_living(self) -> None:
        """A living consumer with the same id makes the start fail, in bounded time."""
        first = self.joined("a")
        second = self.member("a")
        self.world.advance(1.4 * SESSION_TIMEOUT_S, 0.5)
        self.assertEqual(second.outcomes, [])
        self.world.advance(0.2 * SESSION_TIMEOUT_S, 0.5)
        second.outcomes[0].trap(DuplicateConsumer)
        self.assertIs(second.membership.state, MembershipState.LEFT)
        self.assertEqual(second.holder.log, [])
        self.assertEqual(first.reads(), ALL)

    def test_same_session(self) -> None:
        """Nor may another consumer of the same client have it."""
        first = self.joined("a")
        second = self.member("a", connection=first.connection)
        self.world.advance(1.6 * SESSION_TIMEOUT_S, 0.5)
        second.outcomes[0].trap(DuplicateConsumer)
        self.assertEqual(first.reads(), ALL)
        self.assertIn("g_a", self.world.members())

    def test_earlier_life(self) -> None:
        """The node of a life before a quick restart is waited out."""
        first = self.joined("a")
        first.connection.suspend()  # killed: its session goes on for a while
        second = self.member("a")
        self.world.advance(20, 0.5)
        self.assertEqual(second.outcomes, [])
        first.connection.expire_unnoticed()
        self.world.advance(1)
        self.assertEqual(second.outcomes, [None])
        self.assertEqual(second.reads(), ALL)

    def test_later(self) -> None:
        """Once it has joined, another's node is trouble, and it goes on trying."""
        first = self.joined("a")
        first.connection.expire_unnoticed()
        path = LAYOUT.member(GROUP, "g_a")
        self.successResultOf(self.world.admin.create(path, b"t", ephemeral=True))
        first.connection.renew()
        self.world.advance(2 * SESSION_TIMEOUT_S, 0.5)
        self.assertEqual(len(first.holder.troubles), 1)
        self.assertIs(first.membership.state, MembershipState.MEMBER)
        self.assertEqual(first.reads(), [])
        self.successResultOf(self.world.admin.delete(path))
        self.world.advance(1)
        self.assertEqual(first.reads(), ALL)


class LeaveTests(GroupCase):
    """Leaving a group."""

    def test_leave(self) -> None:
        """It stops and commits, deletes the owner nodes, then its own node."""
        member = self.joined("a")
        seen: list[tuple[object, bool]] = []

        def committing(partition: object) -> None:
            owner = self.world.owner(tp(str(partition)))
            claim = member.holder.claims[tp(str(partition))]
            seen.append((owner is not None, claim.holds()))

        member.holder.on_give_up = committing
        stopped = member.membership.stop()
        self.assertEqual(seen, [(True, True)] * 4)
        self.world.advance(0.1)
        self.successResultOf(stopped)
        self.assertEqual(self.world.members(), {})
        self.assertIsNone(self.world.owner(tp("t:0-0")))
        self.assertIs(member.membership.state, MembershipState.LEFT)
        claims = member.holder.claims.values()
        self.assertFalse(any(claim.holds() for claim in claims))

    def test_nothing_left(self) -> None:
        """Afterwards no timer runs and no watch is set."""
        member = self.joined("a")
        member.membership.stop()
        self.world.advance(1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(member.connection.watching, {})

    def test_before_start(self) -> None:
        """What never started has left at once, and starts no more."""
        member = Member(self.world, "a")
        self.successResultOf(member.membership.stop())
        member.start()
        member.outcomes[0].trap(GroupError)

    def test_twice(self) -> None:
        """Each call fires; cancelling one stops that wait alone."""
        member = self.joined("a")
        member.holder.slow_stops = {tp("t:0-0")}
        waits: list[Deferred[None]] = [member.membership.stop() for _ in range(3)]
        waits[0].cancel()
        self.failureResultOf(waits[0])
        member.holder.finish(tp("t:0-0"))
        self.world.advance(0.1)
        self.assertIsNone(self.successResultOf(waits[1]))
        self.assertIsNone(self.successResultOf(waits[2]))
        self.successResultOf(member.membership.stop())

    def test_slow_holder(self) -> None:
        """The others get what is ready at once, a stuck one after a limit."""
        member = self.joined("a")
        member.holder.slow_stops = {tp("t:0-0")}
        stopped = member.membership.stop()
        self.world.advance(0.1)
        self.assertIsNone(self.world.owner(tp("t:0-1")))
        self.assertIsNotNone(self.world.owner(tp("t:0-0")))
        self.world.advance(20.1)
        self.successResultOf(stopped)
        self.assertIn(("lose", ("t:0-0",)), member.holder.log)
        self.assertIsNone(self.world.owner(tp("t:0-0")))
        member.holder.finish(tp("t:0-0"))

    def test_while_registering(self) -> None:
        """A node that is being made when it is stopped does not stay behind."""
        for after_s in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3):
            connection = self.world.connect()
            connection.latency_s = 0.2
            member = self.member("a", connection=connection)
            self.world.advance(after_s)
            stopped = member.membership.stop()
            self.world.advance(3)
            self.successResultOf(stopped)
            self.assertEqual(len(member.outcomes), 1)
            self.assertEqual(self.world.members(), {})
            self.assertEqual(connection.watching, {})
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_coordinator_away(self) -> None:
        """Without a coordinator leaving takes no time; what is left behind is deleted
        when it is back with the session alive."""
        member = self.joined("a")
        member.connection.suspend()
        stopped = member.membership.stop()
        self.world.advance(0.1)
        self.successResultOf(stopped)
        self.assertIn("g_a", self.world.members())
        member.connection.resume()
        self.world.advance(6)
        self.assertEqual(self.world.members(), {})
        self.assertIsNone(self.world.owner(tp("t:0-3")))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_coordinator_gone(self) -> None:
        """If its session ends meanwhile, nothing more is tried."""
        member = self.joined("a")
        member.connection.suspend()
        member.membership.stop()
        self.world.advance(0.1)
        member.connection.close()
        self.world.advance(0.1)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class SessionTests(GroupCase):
    """What becomes of a member with its session."""

    def test_expired(self) -> None:
        """A new session loses all that was held, registers and takes it again."""
        member = self.joined("a")
        old = dict(member.holder.claims)
        member.connection.renew()
        self.assertEqual(member.holder.log[-1], ("lose", tuple(ALL)))
        self.world.advance(1)
        self.assertEqual(member.reads(), ALL)
        self.assertFalse(any(claim.holds() for claim in old.values()))
        self.assertEqual(
            self.world.owner(tp("t:0-0")), ("g_a", member.connection.session_id)
        )

    def test_renewed_while_joining(self) -> None:
        """Whenever in joining the session is another, it has joined soon after."""
        for number in range(14):
            late = self.world.connect()
            late.latency_s = 0.1
            late_one = self.member(f"late{number}", connection=late)
            self.world.advance(0.05 * number, 0.05)
            late.renew()
            self.world.advance(5)
            self.assertIs(late_one.membership.state, MembershipState.MEMBER, number)

    def test_short_outage(self) -> None:
        """An outage below the session timeout changes nothing (row 29)."""
        member = self.joined("a")
        member.connection.suspend()
        self.world.advance(10)
        member.connection.resume()
        self.world.advance(70)
        self.assertEqual(member.holder.log, [("take", tuple(ALL))])
        self.assertEqual(member.holder.doubts, [])

    def test_while_giving_up(self) -> None:
        """A partition that the holder is still stopping when the session ends is not
        taken again before it has stopped."""
        member = self.joined("a")
        member.holder.slow_stops = {tp("t:0-2"), tp("t:0-3")}
        other = self.joined("b")
        member.connection.renew()
        other.membership.stop()
        self.world.advance(1)
        self.assertEqual(member.reads(), ["t:0-0", "t:0-1"])
        member.holder.finish(tp("t:0-2"))
        member.holder.finish(tp("t:0-3"))
        self.world.advance(1)
        self.assertEqual(member.reads(), ALL)

    def test_closed(self) -> None:
        """A coordinator that is closed takes everything with it."""
        member = self.joined("a")
        member.connection.close()
        self.assertEqual(member.holder.log[-1], ("lose", tuple(ALL)))
        self.assertEqual(member.reads(), [])

    def test_own_node_deleted(self) -> None:
        """If somebody deletes its id node, it registers again."""
        member = self.joined("a")
        self.successResultOf(self.world.admin.delete(LAYOUT.member(GROUP, "g_a")))
        self.world.advance(1)
        self.assertIn("g_a", self.world.members())
        self.assertEqual(member.reads(), ALL)
        self.assertEqual(member.holder.log, [("take", tuple(ALL))])

    def test_own_node_overwritten(self) -> None:
        """If somebody changes its topics, it puts them right."""
        self.joined("a")
        path = LAYOUT.member(GROUP, "g_a")
        self.successResultOf(self.world.admin.set(path, b"other"))
        self.world.advance(1)
        self.assertEqual(self.world.members(), {"g_a": frozenset({"t"})})
