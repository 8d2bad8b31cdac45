"""Members of a group that come and go at random."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import define, field, frozen

from .client_case import GROUP
from .driver_session import DriverSession

_LONGEST_PAUSE_S = 2.5


class Makes(Protocol):
    """Makes a session by name."""

    def __call__(self, name: str) -> DriverSession:
        """A new session that is open."""


@frozen
class Kind:
    """A kind of member.

    Attributes:
        name: `ours`, `java` or `alone`.
        make: a new session.
        most: members of this kind at a time.
        can_be_killed: it has a process of its own.
    """

    name: str
    make: Makes
    most: int
    can_be_killed: bool = True


@define
class Member:
    """One that has joined. `left_s` is when it was told to leave, or was killed."""

    session: DriverSession
    kind: Kind
    topics: tuple[str, ...]
    left_s: float | None = None
    was_killed: bool = False

    @property
    def id(self) -> str:
        """As owner nodes say it."""
        return f"{GROUP}_{self.session.name}"


Join = Callable[[DriverSession, Sequence[str]], object]


@define
class Churn:
    """Changes who is in a group, by a seed.

    Attributes:
        kinds: of members.
        choices: sets of topics, of which a new member takes one.
        join: how a session joins.
        present, gone: who is there, and who was.
        changes: when something changed, and what.
    """

    seed: int
    kinds: Sequence[Kind]
    choices: Sequence[tuple[str, ...]]
    join: Join
    present: list[Member] = field(factory=list)
    gone: list[Member] = field(factory=list)
    changes: list[tuple[float, str]] = field(factory=list)
    _random: random.Random = field(init=False)
    _numbers: itertools.count[int] = field(factory=lambda: itertools.count(1))

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def begin(self) -> None:
        """One member of each kind, that stay or go as all others."""
        for kind in self.kinds:
            self._come(kind)

    def run(self, duration_s: float) -> None:
        """Change something again and again, for that long."""
        end_s = time.monotonic() + duration_s
        while time.monotonic() < end_s:
            self._change()
            time.sleep(self._random.uniform(0, _LONGEST_PAUSE_S))

    def cover(self, topics: Sequence[str]) -> None:
        """Somebody there reads each of these, whoever has left."""
        read = {topic for one in self.present for topic in one.topics}
        if not read.issuperset(topics):
            self._come(self.kinds[0], tuple(topics))

    def _change(self) -> None:
        kind = self._random.choice(self.kinds)
        its = [one for one in self.present if one.kind is kind]
        if len(its) < kind.most and (not its or self._random.random() < 0.5):
            self._come(kind)
        elif its and len(self.present) > 1:
            self.go(self._random.choice(its))

    def _come(self, kind: Kind, topics: tuple[str, ...] | None = None) -> None:
        name = f"{kind.name}{next(self._numbers)}"
        topics = topics or self._random.choice(self.choices)
        self._note(f"{name} joins for {topics}")
        session = kind.make(name)
        self.join(session, topics)
        self.present.append(Member(session, kind, topics))

    def go(self, member: Member) -> None:
        """In order, or by SIGKILL."""
        member.was_killed = member.kind.can_be_killed and self._random.random() < 0.5
        self._note(f"{member.id} {'is killed' if member.was_killed else 'leaves'}")
        self.present.remove(member)
        self.gone.append(member)
        member.left_s = time.monotonic()
        if member.was_killed:
            member.session.driver.kill()
        else:
            member.session.close()
            if member.kind.can_be_killed:
                member.session.driver.stop()

    def _note(self, what: str) -> None:
        self.changes.append((time.monotonic(), what))

    def story(self) -> str:
        """All changes, for a person."""
        if not self.changes:
            return f"seed {self.seed}"
        begun_s = self.changes[0][0]
        lines = [f"{at_s - begun_s:6.2f} {what}" for at_s, what in self.changes]
        return "\n".join([f"seed {self.seed}", *lines])
