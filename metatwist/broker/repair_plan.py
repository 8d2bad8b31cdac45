"""One znode as it is and as it should be: what to do about it (spec layout 9.1)."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from metatwist.coordination.interface import Create, Data, Delete, Operation, SetData


class Fault(Enum):
    """What is wrong with a znode."""

    MISSING = "missing"
    WRONG_DATA = "wrong data"
    WRONG_OWNER = "wrong owner"
    UNWANTED = "unwanted"


@frozen
class Step:
    """The operations that put one znode right; they belong into one transaction."""

    path: str
    fault: Fault
    operations: tuple[Operation, ...]


@frozen
class Wish:
    """An ephemeral znode with that data; None: no such znode.

    `in_place` replaces wrong data where it is, for nodes whose data is watched; others
    are made anew, since clients watch the children of a topic only.
    """

    path: str
    data: bytes | None
    in_place: bool = False


def step_for(wish: Wish, found: Data | None, session_id: int) -> Step | None:
    """How to come from what was found to what is wished, None when it is the same.

    A node of another session is taken over. Deletes demand the version that was seen.
    """
    if found is None:
        if wish.data is None:
            return None
        return Step(wish.path, Fault.MISSING, (_create(wish.path, wish.data),))
    data, stat = found
    delete = Delete(wish.path, stat.version)
    if wish.data is None:
        return Step(wish.path, Fault.UNWANTED, (delete,))
    anew = (delete, _create(wish.path, wish.data))
    if stat.ephemeral_owner != session_id:
        return Step(wish.path, Fault.WRONG_OWNER, anew)
    if data == wish.data:
        return None
    if wish.in_place:
        replace = SetData(wish.path, wish.data, stat.version)
        return Step(wish.path, Fault.WRONG_DATA, (replace,))
    return Step(wish.path, Fault.WRONG_DATA, anew)


def _create(path: str, data: bytes) -> Create:
    return Create(path, data, ephemeral=True)


class Beliefs:
    """What was written or seen in one session, to tell a repair from a first time.

    `repairs` counts over all sessions, by fault.
    """

    def __init__(self) -> None:
        self.repairs: dict[str, int] = {fault.value: 0 for fault in Fault}
        self._nodes: dict[str, bytes | None] = {}

    def __contains__(self, path: str) -> bool:
        return self._nodes.get(path) is not None

    def data(self, path: str) -> bytes | None:
        """What the node is believed to hold; None for no node, and for no belief."""
        return self._nodes.get(path)

    @property
    def present(self) -> int:
        """Nodes that are believed to be there."""
        return sum(data is not None for data in self._nodes.values())

    def hold(self, path: str, data: bytes | None) -> None:
        """Believe that the node is so, None that there is none."""
        self._nodes[path] = data

    def doubt(self, path: str) -> None:
        """Believe nothing about the node."""
        self._nodes.pop(path, None)

    def forget(self) -> None:
        """Believe nothing: the session is another one."""
        self._nodes.clear()

    def count(self, fault: str) -> None:
        """Note a repair."""
        self.repairs[fault] += 1

    def is_surprised(self, path: str, found: Data | None, owner: int) -> bool:
        """Whether the node is not as it was believed to be, with that owner."""
        if path not in self._nodes:
            return False
        believed = self._nodes[path]
        if believed is None or found is None:
            return (believed is None) != (found is None)
        data, stat = found
        return data != believed or stat.ephemeral_owner != owner
