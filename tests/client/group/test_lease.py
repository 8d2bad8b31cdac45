"""The own clock: what may be done while the session cannot be proven."""

from __future__ import annotations

from twisted.internet.defer import fail

from metatwist.client.group.lease import steady_seconds
from metatwist.coordination.errors import ConnectionLost
from tests.client.group.group_case import (
    GROUP,
    LAYOUT,
    SESSION_TIMEOUT_S,
    GroupCase,
    Member,
    tp,
)

SAFE_S = SESSION_TIMEOUT_S * 2 / 3


class LeaseTests(GroupCase):
    """Of a member that reads."""

    def setUp(self) -> None:
        super().setUp()
        self.member = self.joined("a")
        self.claim = self.member.holder.claims[tp("t:0-0")]
        self.doubts = self.member.holder.doubts

    def test_steady(self) -> None:
        """The clock for it does not go back."""
        self.assertLessEqual(steady_seconds(), steady_seconds())

    def test_idle_hour(self) -> None:
        """With a coordinator that answers nothing is ever in doubt."""
        for _ in range(3600):
            self.clock.advance(1)
            self.assertTrue(self.claim.holds())
        self.assertEqual(self.doubts, [])

    def test_cheap(self) -> None:
        """A quiet hour costs few requests."""
        before = self.member.connection.requests
        self.world.advance(3600, 1)
        self.assertLess(self.member.connection.requests - before, 1500)

    def test_outage(self) -> None:
        """Doubt begins before the session can have ended, whenever the last contact
        was, and not long before."""
        self.member.connection.suspend()
        self.world.advance(SAFE_S - SESSION_TIMEOUT_S / 3 - 0.1)
        self.assertTrue(self.claim.holds())
        self.world.advance(SESSION_TIMEOUT_S / 3 + 0.2)
        self.assertFalse(self.claim.holds())
        self.assertEqual(self.doubts, [True])
        self.assertEqual(self.member.reads(), [])
        self.assertEqual(len(self.member.membership.held), 4)

    def test_granted_less(self) -> None:
        """Where the server has granted less than was asked for, that counts."""
        self.member.connection.session_timeout_s = SESSION_TIMEOUT_S / 3
        self.member.connection.suspend()
        self.world.advance(SAFE_S / 3 + 0.1)
        self.assertFalse(self.claim.holds())
        self.assertEqual(self.doubts, [True])

    def test_back_in_time(self) -> None:
        """The same session again ends the doubt; nothing has moved."""
        self.member.connection.suspend()
        self.world.advance(SAFE_S + 1)
        self.member.connection.resume()
        self.assertEqual(self.doubts, [True, False])
        self.assertTrue(self.claim.holds())
        self.assertEqual(len(self.member.holder.log), 1)

    def test_back_too_late(self) -> None:
        """Another session loses all, and ends the doubt when it is registered."""
        self.member.connection.suspend()
        self.world.advance(SESSION_TIMEOUT_S)
        self.member.connection.expire_unnoticed()
        self.world.advance(1)
        self.member.connection.renew()
        self.world.advance(1)
        self.assertEqual(self.doubts, [True, False])
        self.assertFalse(self.claim.holds())
        self.assertEqual(len(self.member.reads()), 4)

    def test_frozen(self) -> None:
        """A process that stood still knows it by the clock alone, before any timer,
        event or answer is handled; who asks first brings up the doubt."""
        self.clock.rightNow += SAFE_S + 1
        self.assertFalse(self.claim.holds())
        self.assertEqual(self.doubts, [True])
        self.clock.advance(0)
        self.assertTrue(self.claim.holds())  # the session lives, as an answer says
        self.assertEqual(self.doubts, [True, False])

    def test_frozen_for_good(self) -> None:
        """If its session is over when it wakes, nothing it does makes the old claim
        hold."""
        self.member.connection.suspend()
        self.clock.rightNow += 2 * SESSION_TIMEOUT_S
        self.member.connection.expire_unnoticed()
        self.assertFalse(self.claim.holds())
        self.clock.advance(0)
        self.assertEqual(self.doubts, [True])
        self.member.connection.renew()
        self.world.advance(1)
        self.assertFalse(self.claim.holds())

    def test_clock_set_back(self) -> None:
        """A clock that goes back proves nothing."""
        self.clock.rightNow -= 100
        self.assertFalse(self.claim.holds())

    def test_silent_coordinator(self) -> None:
        """A connection that stays up without an answer is no proof; an answer counts
        from when the question was sent."""
        self.member.connection.latency_s = SAFE_S - 5
        self.world.advance(SESSION_TIMEOUT_S)
        self.assertFalse(self.claim.holds())
        self.assertEqual(self.doubts, [True])
        self.member.connection.latency_s = 0
        self.world.advance(SESSION_TIMEOUT_S / 3)
        self.assertEqual(self.doubts, [True, False])

    def test_failing_contact(self) -> None:
        """Contact that fails proves nothing, and is made again."""
        connection = self.member.connection
        failing = self.patch(connection, "sync", lambda _: fail(ConnectionLost()))
        self.world.advance(SAFE_S + 11)
        self.assertEqual(self.doubts, [True])
        failing.restore()
        self.world.advance(SESSION_TIMEOUT_S / 3)
        self.assertEqual(self.doubts, [True, False])

    def test_contact_finds_the_node_gone(self) -> None:
        """Contact notices a missing id node even if its watch was lost."""
        for watch in list(self.member.connection.watching):
            watch.forget()
        path = LAYOUT.member(GROUP, "g_a")
        self.successResultOf(self.world.admin.delete(path))
        self.world.advance(SESSION_TIMEOUT_S / 3 + 1)
        self.assertIn("g_a", self.world.members())

    def test_stopped(self) -> None:
        """What has left proves nothing, and tells nothing."""
        self.member.membership.stop()
        self.world.advance(2 * SESSION_TIMEOUT_S)
        self.assertFalse(self.claim.holds())
        self.assertEqual(self.doubts, [])


class WithoutGroupTests(GroupCase):
    """Before anything is proven."""

    def test_unregistered(self) -> None:
        """A member that waits for its coordinator tells of no doubt."""
        connection = self.world.connect()
        connection.suspend()
        member: Member = self.member("a", connection=connection)
        self.world.advance(100, 1)
        self.assertEqual(member.holder.doubts, [])
