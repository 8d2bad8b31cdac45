"""Sessions: how long they last, who may resume them, and what goes with them."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded.sessions import (
    LEAST_TIMEOUT_MS,
    MOST_TIMEOUT_MS,
    Session,
    Sessions,
)

TIMEOUT_MS = 10_000


class SessionsTests(SynchronousTestCase):
    """`Sessions` under a clock."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.removed: list[list[str]] = []
        self.sessions = Sessions(self.clock.seconds, self.remove)

    def remove(self, paths: Iterable[str]) -> None:
        """Note what went, at once or not at all."""
        self.removed.append(sorted(paths))

    def begin(self, *ephemerals: str, timeout_ms: int = TIMEOUT_MS) -> Session:
        """A session that owns these."""
        session = self.sessions.begin(timeout_ms)
        session.ephemerals = dict.fromkeys(ephemerals)
        return session

    def resume(self, session: Session, timeout_ms: int = TIMEOUT_MS) -> Session | None:
        """Resume it with the right password."""
        return self.sessions.resume(session.id, session.password, timeout_ms)

    def test_timeout_is_kept_within_bounds(self) -> None:
        """Any timeout can be asked for; a sensible one is granted."""
        for asked, granted in (
            (TIMEOUT_MS, TIMEOUT_MS),
            (0, LEAST_TIMEOUT_MS),
            (-1, LEAST_TIMEOUT_MS),
            (LEAST_TIMEOUT_MS - 1, LEAST_TIMEOUT_MS),
            (MOST_TIMEOUT_MS + 1, MOST_TIMEOUT_MS),
            (0x7FFFFFFF, MOST_TIMEOUT_MS),
        ):
            session = self.sessions.begin(asked)
            self.assertEqual(session.timeout_ms, granted)
            self.assertEqual(self.resume(session, asked), session)
            self.assertEqual(session.timeout_ms, granted)

    def test_ids_and_passwords(self) -> None:
        """Ids are positive 64-bit numbers, passwords 16 bytes, no two alike."""
        some = [self.begin() for _ in range(200)]
        self.assertTrue(all(0 < one.id < 1 << 63 for one in some))
        self.assertEqual({len(one.password) for one in some}, {16})
        self.assertEqual(len({one.id for one in some}), 200)
        self.assertEqual(len({one.password for one in some}), 200)
        self.assertEqual(len(self.sessions), 200)

    def test_expires(self) -> None:
        """A session of which nothing was heard for the whole timeout ends, with its
        ephemerals; not a moment before."""
        session = self.begin("/a", "/b")
        self.clock.advance(9.99)
        self.assertEqual(self.sessions.expire(), [])
        self.assertTrue(session.open)
        self.clock.advance(0.01)
        self.assertEqual(self.sessions.expire(), [session])
        self.assertFalse(session.open)
        self.assertEqual(self.removed, [["/a", "/b"]])
        self.assertEqual(self.sessions.expire(), [])
        self.assertEqual(self.sessions.expired_total, 1)
        self.assertIsNone(self.resume(session))

    def test_touched(self) -> None:
        """Whatever comes from a session begins its time anew; of no other."""
        silent, alive = self.begin(), self.begin()
        self.clock.advance(6)
        self.sessions.touch(alive)
        self.clock.advance(6)
        self.assertEqual(self.sessions.expire(), [silent])
        self.assertEqual(list(self.sessions), [alive])

    def test_resumed(self) -> None:
        """Resuming gives the same session, with the timeout now asked for."""
        session = self.begin("/a")
        self.clock.advance(9)
        self.assertIs(self.resume(session, 20_000), session)
        self.assertEqual(session.timeout_ms, 20_000)
        self.clock.advance(19)
        self.assertEqual(self.sessions.expire(), [])
        self.clock.advance(1)
        self.assertEqual(self.sessions.expire(), [session])

    def test_refused(self) -> None:
        """Without the right password a session is not resumed, nor is its time
        prolonged."""
        session = self.begin()
        self.clock.advance(9)
        for password in (
            b"",
            bytes(16),
            session.password[:-1],
            session.password + b"x",
        ):
            self.assertIsNone(self.sessions.resume(session.id, password, TIMEOUT_MS))
        wrong_id = session.id + 1
        self.assertIsNone(self.sessions.resume(wrong_id, session.password, TIMEOUT_MS))
        self.clock.advance(1)
        self.assertEqual(self.sessions.expire(), [session])

    def test_ended(self) -> None:
        """A session that is ended is gone at once, and is ended once."""
        session = self.begin("/a")
        self.sessions.end(session)
        self.sessions.end(session)
        self.assertEqual(self.removed, [["/a"]])
        self.assertEqual(len(self.sessions), 0)
        self.assertIsNone(self.resume(session))
        self.clock.advance(100)
        self.assertEqual(self.sessions.expire(), [])
        self.assertEqual(self.sessions.expired_total, 0)

    def test_lasting(self) -> None:
        """The broker's own session has no timeout, whatever happens to it."""
        session = self.sessions.begin_lasting()
        self.sessions.touch(session)
        self.sessions.forgive(1)
        self.assertIs(self.resume(session), session)
        self.clock.advance(1e9)
        self.assertEqual(self.sessions.expire(), [])
        self.sessions.end(session)
        self.assertEqual(len(self.sessions), 0)

    def test_forgiven(self) -> None:
        """All sessions get as much more time as the process stood still."""
        first = self.begin()
        self.clock.advance(5)
        second = self.begin()
        self.clock.advance(100)
        self.sessions.forgive(100)
        self.assertEqual(self.sessions.expire(), [])
        self.clock.advance(5)
        self.assertEqual(self.sessions.expire(), [first])
        self.clock.advance(5)
        self.assertEqual(self.sessions.expire(), [second])
