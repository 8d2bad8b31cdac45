"""What everyone in the embedded coordinator shares: tree, sessions and journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from attrs import frozen

from metatwist.coordination.embedded.sessions import Sessions
from metatwist.coordination.embedded.store import StoredNode
from metatwist.coordination.embedded.tree import Tree


class ChangeLog(Protocol):
    """Where changes of persistent znodes go; tickets rise (see `journal`)."""

    @property
    def recorded(self) -> int:
        """The ticket of the last change."""

    @property
    def durable(self) -> int:
        """The last ticket whose change is on disk, with all before it."""

    def record(self, path: str, node: StoredNode | None) -> object:
        """Take a change."""

    def on_durable(self, call: Callable[[int], object]) -> None:
        """Call with each new `durable`."""


class NoJournal:
    """For a tree that nothing shall remember."""

    recorded = 0
    durable = 0

    def record(self, path: str, node: StoredNode | None) -> None:
        """Forget it."""

    def on_durable(self, call: Callable[[int], object]) -> None:
        """Everything is as durable as it ever gets."""


@frozen
class Realm:
    """One znode tree with its sessions."""

    tree: Tree
    sessions: Sessions
    journal: ChangeLog

    @classmethod
    def over(
        cls,
        journal: ChangeLog,
        seconds: Callable[[], float],
        now_ms: Callable[[], int],
        stored: Iterable[StoredNode] = (),
        epoch: int = 1,
    ) -> Realm:
        """A tree of what was stored; `seconds` is for deadlines, `now_ms` for stats.

        Zxids start above those of all earlier epochs (spec layout 7.3, 7).
        """
        tree = Tree(now_ms, journal.record, stored, epoch << 32)
        return cls(tree, Sessions(seconds, tree.remove_all), journal)
