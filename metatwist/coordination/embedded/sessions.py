"""Who is there: sessions, their passwords, deadlines and ephemeral znodes."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from metatwist.coordination.embedded.acl import Identity

LEAST_TIMEOUT_MS = 2_000
MOST_TIMEOUT_MS = 60_000
_PASSWORD_BYTES = 16
_ANYONE: frozenset[Identity] = frozenset({("world", "anyone")})


class Attached(Protocol):
    """The connection that a session goes over."""

    def abort(self) -> None:
        """Close at once."""


class Session:
    """One session; `deadline_s` is None for that of the broker itself, which lasts."""

    def __init__(self, timeout_ms: int, deadline_s: float | None) -> None:
        # Never 0, and positive, so that it reads well everywhere.
        self.id = secrets.randbits(62) + 1
        self.password = secrets.token_bytes(_PASSWORD_BYTES)
        self.timeout_ms = timeout_ms
        self.deadline_s = deadline_s
        self.ephemerals: dict[str, None] = {}
        self.identities = _ANYONE
        self.connection: Attached | None = None
        self.open = True


class Sessions:
    """All open sessions; `seconds` is a clock that never jumps."""

    def __init__(
        self,
        seconds: Callable[[], float],
        remove: Callable[[Iterable[str]], object],
    ) -> None:
        self._seconds = seconds
        self._remove = remove
        self._open: dict[int, Session] = {}
        self.expired_total = 0

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._open.values())

    def begin(self, timeout_ms: int) -> Session:
        """A new session, its timeout brought within bounds."""
        granted = _granted(timeout_ms)
        session = Session(granted, self._seconds() + granted / 1000)
        self._open[session.id] = session
        return session

    def begin_lasting(self) -> Session:
        """A session without a timeout, for use within the process."""
        session = Session(MOST_TIMEOUT_MS, None)
        self._open[session.id] = session
        return session

    def resume(
        self, session_id: int, password: bytes, timeout_ms: int
    ) -> Session | None:
        """The session, if it is open and the password is right, with a new timeout."""
        session = self._open.get(session_id)
        if session is None or not hmac.compare_digest(session.password, password):
            return None
        if session.deadline_s is not None:
            session.timeout_ms = _granted(timeout_ms)
        self.touch(session)
        return session

    def touch(self, session: Session) -> None:
        """Something came from it: its time begins anew (spec layout 7.3, 9)."""
        if session.deadline_s is not None:
            session.deadline_s = self._seconds() + session.timeout_ms / 1000

    def end(self, session: Session) -> None:
        """Close it; its ephemeral znodes go in one step."""
        if session.open:
            session.open = False
            del self._open[session.id]
            self._remove(session.ephemerals)

    def expire(self) -> list[Session]:
        """End those whose time is over, and tell which."""
        now_s = self._seconds()
        over = [
            session
            for session in self._open.values()
            if session.deadline_s is not None and session.deadline_s <= now_s
        ]
        for session in over:
            self.end(session)
        self.expired_total += len(over)
        return over

    def forgive(self, pause_s: float) -> None:
        """Give everyone that much more time: it was this process that stood still."""
        for session in self._open.values():
            if session.deadline_s is not None:
                session.deadline_s += pause_s


def _granted(timeout_ms: int) -> int:
    return min(max(timeout_ms, LEAST_TIMEOUT_MS), MOST_TIMEOUT_MS)
