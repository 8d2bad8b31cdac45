"""A slow and plain model of the znode tree, to compare the real one with."""

from __future__ import annotations

from typing import Any

import attrs
from attrs import define, frozen
from hypothesis import strategies as st

from metatwist.coordination.embedded.acl import Identity
from metatwist.coordination.embedded.tree import Tree
from metatwist.coordination.errors import (
    BadArguments,
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
)
from metatwist.coordination.interface import NodeStat


class Person:
    """Somebody with a session."""

    def __init__(self, session_id: int, *identities: Identity) -> None:
        self.id = session_id
        self.identities = frozenset(identities)
        self.ephemerals: dict[str, None] = {}


@frozen
class Step:
    """One write; `flags` is for creates, `version` for the others."""

    verb: str
    path: str
    data: bytes | None = None
    flags: int = 0
    version: int = -1
    person: int = 0

    def play(self, tree: Tree, people: list[Person]) -> object:
        """Do it to a tree."""
        person = people[self.person]
        if self.verb == "create":
            return tree.create(person, self.path, self.data, flags=self.flags)
        if self.verb == "set":
            return tree.set_data(person, self.path, self.data, self.version).stat
        if self.verb == "delete":
            return tree.delete(person, self.path, self.version)
        return tree.check(person, self.path, self.version)


def _steps() -> st.SearchStrategy[Step]:
    names = st.sampled_from("ab")
    paths = st.lists(names, min_size=1, max_size=3).map(
        lambda all_: "/" + "/".join(all_)
    )
    versions = st.sampled_from([-1, -1, -1, 0, 1, 2])
    data = st.sampled_from([None, b"", b"x", b"yz"])
    people = st.sampled_from([0, 1])
    flags = st.sampled_from([0, 0, 0, 1, 2, 3])
    return st.one_of(
        st.builds(Step, st.just("create"), paths, data, flags, person=people),
        st.builds(Step, st.just("set"), paths | st.just("/"), data, version=versions),
        st.builds(Step, st.just("delete"), paths | st.just("/"), version=versions),
        st.builds(Step, st.just("check"), paths, version=versions),
    )


steps = _steps()
"""Any step: about half of them succeed."""


@define
class ModelNode:
    """A znode; its children are found by looking through all paths."""

    data: bytes | None
    owner: int
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int = 0
    cversion: int = 0
    created: int = 0


class Model:
    """All znodes by path."""

    def __init__(self) -> None:
        self.zxid = 0
        self.now_ms = 0
        self.nodes: dict[str, ModelNode] = {
            "/": self._new(b"", cversion=-1),
            "/zookeeper": self._new(b"", cversion=-2),
            "/zookeeper/config": self._new(b""),
            "/zookeeper/quota": self._new(b""),
        }

    def _new(self, data: bytes | None, owner: int = 0, cversion: int = 0) -> ModelNode:
        zxid, now_ms = self.zxid, self.now_ms
        return ModelNode(
            data, owner, zxid, zxid, zxid, now_ms, now_ms, cversion=cversion
        )

    def children(self, path: str) -> list[str]:
        """Paths of the children."""
        above = path.rstrip("/") + "/"
        return [
            one
            for one in self.nodes
            if one != "/" and one.startswith(above) and "/" not in one[len(above) :]
        ]

    def stat(self, path: str) -> NodeStat:
        """As clients see it."""
        node = self.nodes[path]
        return NodeStat(
            node.czxid,
            node.mzxid,
            node.ctime,
            node.mtime,
            node.version,
            node.cversion,
            0,
            node.owner,
            len(node.data or b""),
            len(self.children(path)),
            node.pzxid,
        )

    def play(self, step: Step, person: Person) -> object:
        """Do a step under the zxid that is set; raises what the tree should raise."""
        calls: dict[str, Any] = {
            "create": self._create,
            "set": self._set,
            "delete": self._delete,
            "check": self._check,
        }
        return calls[step.verb](step, person)

    def _create(self, step: Step, person: Person) -> str:
        above = step.path.rpartition("/")[0] or "/"
        if above not in self.nodes:
            raise NoNode
        parent = self.nodes[above]
        path = step.path + (f"{parent.created:010d}" if step.flags & 2 else "")
        if path in self.nodes:
            raise NodeExists
        if parent.owner:
            raise NoChildrenForEphemerals
        self.nodes[path] = self._new(step.data, person.id if step.flags & 1 else 0)
        parent.created += 1
        parent.cversion += 1
        parent.pzxid = self.zxid
        return path

    def _set(self, step: Step, _: Person) -> NodeStat:
        self._check(step)
        node = self.nodes[step.path]
        node.data, node.mzxid, node.mtime = step.data, self.zxid, self.now_ms
        node.version += 1
        return self.stat(step.path)

    def _delete(self, step: Step, _: Person) -> None:
        if step.path == "/":
            raise BadArguments
        self._check(step)
        if self.children(step.path):
            raise NotEmpty
        self.remove(step.path)

    def remove(self, path: str) -> None:
        """Take it away."""
        del self.nodes[path]
        parent = self.nodes[path.rpartition("/")[0] or "/"]
        parent.cversion += 1
        parent.pzxid = self.zxid

    def _check(self, step: Step, _: Person | None = None) -> None:
        if step.path not in self.nodes:
            raise NoNode
        if step.version not in (-1, self.nodes[step.path].version):
            raise BadVersion

    def copy(self) -> Model:
        """A copy that shares nothing."""
        found = Model()
        found.zxid, found.now_ms = self.zxid, self.now_ms
        found.nodes = {path: attrs.evolve(node) for path, node in self.nodes.items()}
        return found
