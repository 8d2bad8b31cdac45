"""The znodes, in memory: every rule of spec layout 7.3 that is about nodes.

Time and durability are the caller's: `now_ms` tells the time, and `record` is called
with each persistent znode that has changed, None in its place once it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from metatwist.coordination.embedded import acl as access
from metatwist.coordination.embedded.acl import OPEN, Acl, Entry, Identity, allows
from metatwist.coordination.embedded.paths import check_path, name_of, parent_of
from metatwist.coordination.embedded.store import ALWAYS_THERE, StoredNode
from metatwist.coordination.embedded.watches import Watches
from metatwist.coordination.errors import (
    BadArguments,
    BadVersion,
    CoordinationError,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotAuthorized,
    NotEmpty,
    TransactionFailed,
)
from metatwist.coordination.interface import NodeStat

_MOST_INT = 0x7FFFFFFF
_SEQUENCE_DIGITS = 10


class Caller(Protocol):
    """Who asks: a session."""

    id: int
    identities: frozenset[Identity]
    ephemerals: dict[str, None]


class Node:
    """One znode; `owner` is the session of an ephemeral one, else None.

    `creates` counts the children that it ever had, the source of sequence numbers.
    """

    __slots__ = (
        "acl", "aversion", "children", "creates", "ctime", "czxid", "data", "mtime",
        "mzxid", "owner", "pzxid", "version",
    )  # fmt: skip

    def __init__(self, data: bytes | None, acl: Acl, zxid: int, now_ms: int) -> None:
        self.data = data
        self.acl = acl
        self.owner: Caller | None = None
        self.children: dict[str, None] = {}
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = now_ms
        self.version = self.aversion = self.creates = 0

    @property
    def stat(self) -> NodeStat:
        """As a client sees it."""
        return NodeStat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime=self.ctime,
            mtime=self.mtime,
            version=self.version,
            cversion=self.cversion,
            aversion=self.aversion,
            ephemeral_owner=self.owner.id if self.owner else 0,
            data_length=len(self.data or b""),
            num_children=len(self.children),
            pzxid=self.pzxid,
        )

    @property
    def cversion(self) -> int:
        """Children that came plus children that went, as 32 bits with a sign."""
        changes = 2 * self.creates - len(self.children)
        return (changes + 0x80000000) % 0x100000000 - 0x80000000


class Tree:
    """All znodes by path; `zxid` is the last one given."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        record: Callable[[str, StoredNode | None], object],
        stored: Iterable[StoredNode] = (),
        zxid: int = 0,
    ) -> None:
        self.watches = Watches()
        self.zxid = zxid
        self._now_ms = now_ms
        self._record = record
        self._undo: list[Callable[[], object]] | None = None
        self._effects: list[Callable[[], object]] = []
        self.nodes: dict[str, Node] = {"/": Node(b"", OPEN, 0, 0)}
        for path in ALWAYS_THERE:
            if path not in self.nodes:
                self._attach(path, Node(b"", OPEN, 0, 0))
        for one in sorted(stored, key=lambda node: node.path):
            self._load(one)

    def _load(self, stored: StoredNode) -> None:
        node = self.nodes.get(stored.path) or Node(None, OPEN, 0, 0)
        node.data, node.acl = stored.data, stored.acl
        if stored.acl == OPEN:
            node.acl = OPEN
        node.czxid, node.mzxid, node.pzxid = stored.czxid, stored.mzxid, stored.pzxid
        node.ctime, node.mtime = stored.ctime, stored.mtime
        node.version, node.aversion = stored.version, stored.aversion
        node.creates = stored.creates
        if stored.path not in self.nodes:
            self._attach(stored.path, node)

    def _attach(self, path: str, node: Node) -> None:
        self.nodes[path] = node
        self.nodes[parent_of(path)].children[name_of(path)] = None

    # -- reading ------------------------------------------------------------------

    def find(self, path: str) -> Node:
        """The znode; raises NoNode, or BadArguments for what is no path."""
        node = self.nodes.get(path)
        if node is None:
            check_path(path)
            raise NoNode(path)
        return node

    def read(self, caller: Caller, path: str, permission: int = access.READ) -> Node:
        """The znode, for one with any of the permissions; raises NoNode,
        NotAuthorized."""
        node = self.find(path)
        if node.acl is not OPEN:
            self._demand(caller, path, node, permission)
        return node

    @staticmethod
    def _demand(caller: Caller, path: str, node: Node, permission: int) -> None:
        if not allows(node.acl, permission, caller.identities):
            raise NotAuthorized(path)

    def check(self, caller: Caller, path: str, version: int) -> None:
        """Raises NoNode, NotAuthorized or BadVersion."""
        node = self.read(caller, path)
        if version not in (-1, node.version):
            raise BadVersion(path)

    # -- writing ------------------------------------------------------------------

    def create(
        self,
        caller: Caller,
        path: str,
        data: bytes | None,
        entries: list[Entry] | None = None,
        flags: int = 0,
    ) -> str:
        """Make a znode; `flags` has bit 0 for ephemeral, bit 1 for sequence.

        Answers its path. Raises NoNode for the parent, NodeExists, NotAuthorized,
        NoChildrenForEphemerals, InvalidAcl and BadArguments.
        """
        sequence = flags & 2
        check_path(f"{path}1" if sequence and path else path)
        if path == "/" and not sequence:
            raise NodeExists(path)
        acl = OPEN if entries is None else access.resolve(entries, caller.identities)
        above = parent_of(path)
        parent = self.nodes.get(above)
        if parent is None:
            raise NoNode(path)
        self._demand(caller, path, parent, access.CREATE)
        if sequence:
            path += f"{parent.creates:0{_SEQUENCE_DIGITS}d}"
        if path in self.nodes:
            raise NodeExists(path)
        if parent.owner is not None:
            raise NoChildrenForEphemerals(path)
        self._begin_write()
        node = Node(data, acl, self.zxid, self._now_ms())
        if flags & 1:
            node.owner = caller
        self._insert(above, parent, path, node)
        return path

    def _insert(self, above: str, parent: Node, path: str, node: Node) -> None:
        before = parent.creates, parent.pzxid
        self._attach(path, node)
        parent.creates = (parent.creates + 1) & _MOST_INT
        parent.pzxid = self.zxid
        if node.owner is not None:
            node.owner.ephemerals[path] = None
        if self._undo is not None:
            self._undo.append(lambda: self._uninsert(above, path, *before))
        self._wrote(path)
        self._wrote(above)
        self._tell(lambda: self.watches.created(path, above))

    def _uninsert(self, above: str, path: str, creates: int, pzxid: int) -> None:
        self._detach(above, path)
        self.nodes[above].creates, self.nodes[above].pzxid = creates, pzxid

    def _detach(self, above: str, path: str) -> Node:
        node = self.nodes.pop(path)
        del self.nodes[above].children[name_of(path)]
        if node.owner is not None:
            node.owner.ephemerals.pop(path, None)
        return node

    def delete(self, caller: Caller, path: str, version: int = -1) -> None:
        """Raises NoNode, NotAuthorized, BadVersion, NotEmpty and BadArguments."""
        if path in ALWAYS_THERE:
            raise BadArguments(path)
        check_path(path)
        parent = self.nodes.get(parent_of(path))
        if parent is None:
            raise NoNode(path)
        self._demand(caller, path, parent, access.DELETE)
        node = self.find(path)
        if version not in (-1, node.version):
            raise BadVersion(path)
        if node.children:
            raise NotEmpty(path)
        self._begin_write()
        self._remove(path)

    def _remove(self, path: str) -> None:
        above = parent_of(path)
        parent = self.nodes[above]
        before = parent.pzxid
        node = self._detach(above, path)
        parent.pzxid = self.zxid
        if self._undo is not None:
            self._undo.append(lambda: self._unremove(above, path, node, before))
        if node.owner is None:
            self._journal(path)
        self._wrote(above)
        self._tell(lambda: self.watches.deleted(path, above))

    def _unremove(self, above: str, path: str, node: Node, pzxid: int) -> None:
        self._attach(path, node)
        self.nodes[above].pzxid = pzxid
        if node.owner is not None:
            node.owner.ephemerals[path] = None

    def set_data(
        self, caller: Caller, path: str, data: bytes | None, version: int = -1
    ) -> Node:
        """Raises NoNode, NotAuthorized, BadVersion and BadArguments."""
        node = self.find(path)
        if node.acl is not OPEN:
            self._demand(caller, path, node, access.WRITE)
        if version not in (-1, node.version):
            raise BadVersion(path)
        self._begin_write()
        if self._undo is not None:
            self._save(node)
        node.data = data
        node.mzxid = self.zxid
        node.mtime = self._now_ms()
        node.version = _next_version(node.version)
        self._wrote(path)
        if self._undo is None:
            self.watches.changed(path)
        else:
            self._effects.append(lambda: self.watches.changed(path))
        return node

    def set_acl(
        self, caller: Caller, path: str, entries: list[Entry], aversion: int = -1
    ) -> Node:
        """Raises NoNode, NotAuthorized, BadVersion, InvalidAcl and BadArguments."""
        acl = access.resolve(entries, caller.identities)
        node = self.find(path)
        self._demand(caller, path, node, access.ADMIN)
        if aversion not in (-1, node.aversion):
            raise BadVersion(path)
        self._begin_write()
        node.acl = acl
        node.aversion = _next_version(node.aversion)
        self._wrote(path)
        return node

    def remove_all(self, paths: Iterable[str]) -> None:
        """Delete the ephemerals of a session that has ended, in one step."""
        self.zxid += 1
        for path in list(paths):
            self._remove(path)

    # -- transactions -------------------------------------------------------------

    def transaction(self, steps: Iterable[Callable[[], object]]) -> list[object]:
        """Take all steps under one zxid, or none.

        Answers what they answered; raises TransactionFailed. Watches fire and changes
        are recorded once all have succeeded.
        """
        self._undo, self._effects = [], []
        before = self.zxid
        self.zxid += 1
        answers: list[object] = []
        try:
            for step in steps:
                answers.append(step())
        except CoordinationError as error:
            for undo in reversed(self._undo):
                undo()
            self.zxid = before
            raise TransactionFailed(len(answers), error) from None
        else:
            for effect in self._effects:
                effect()
        finally:
            self._undo, self._effects = None, []
        return answers

    def _save(self, node: Node) -> None:
        before = node.data, node.mzxid, node.mtime, node.version

        def restore() -> None:
            node.data, node.mzxid, node.mtime, node.version = before

        if self._undo is not None:
            self._undo.append(restore)

    def _begin_write(self) -> None:
        if self._undo is None:
            self.zxid += 1

    def _tell(self, call: Callable[[], object]) -> None:
        if self._undo is None:
            call()
        else:
            self._effects.append(call)

    def _wrote(self, path: str) -> None:
        if self.nodes[path].owner is None:
            self._journal(path)

    def _journal(self, path: str) -> None:
        if self._undo is None:
            self._record(path, self._stored(path))
        else:
            self._effects.append(lambda: self._record(path, self._stored(path)))

    def _stored(self, path: str) -> StoredNode | None:
        node = self.nodes.get(path)
        if node is None or node.owner is not None:
            return None
        return StoredNode(
            path=path,
            data=node.data,
            acl=node.acl,
            czxid=node.czxid,
            mzxid=node.mzxid,
            ctime=node.ctime,
            mtime=node.mtime,
            version=node.version,
            aversion=node.aversion,
            pzxid=node.pzxid,
            creates=node.creates,
        )


def _next_version(version: int) -> int:
    """One more, as 32 bits with a sign; -1 stands for any version and is left out."""
    if version == _MOST_INT:
        return -_MOST_INT - 1
    return version + 1 if version != -2 else 0
