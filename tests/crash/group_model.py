"""A consumer group's part of the tree: requests, and what each of them must make of it.

Every group is written by one session at a time, so its part is known from the requests
alone. Ephemeral znodes are not in the model: after a kill there are none.
"""

from __future__ import annotations

from typing import Any

from attrs import Factory, define, frozen

from tests.interop.zookeeper_script import records
from tests.interop.zookeeper_script.records import EPHEMERAL, SEQUENCE, Reply

_NO_VERSION = 0x7FFFFFF0
Result = str | int | None


@frozen
class Change:
    """One operation; `code` is its opcode, `flags` those of a create."""

    code: int
    path: str
    data: bytes | None = None
    flags: int = 0
    version: int = -1

    @property
    def body(self) -> bytes:
        """The record on the wire."""
        if self.code == records.CREATE:
            return records.create(self.path, self.data, self.flags)
        if self.code == records.SET:
            return records.set_data(self.path, self.data, self.version)
        return records.versioned(self.path, self.version)


@frozen
class Request:
    """One change, or several in a transaction; one that is `refused` has a last
    operation that fails, and so does nothing."""

    changes: tuple[Change, ...]
    refused: bool = False

    def packed(self) -> tuple[int, bytes]:
        """(opcode, body)."""
        if len(self.changes) == 1 and not self.refused:
            return self.changes[0].code, self.changes[0].body
        operations = [(one.code, one.body) for one in self.changes]
        if self.refused:
            check = records.versioned("/", _NO_VERSION)
            operations.append((records.CHECK, check))
        return records.MULTI, records.multi(operations)

    def results(self, reply: Reply) -> list[Result] | None:
        """What a reply says: a path for each create, a version for each set, None for
        each delete; None for a transaction that was refused.

        Raises ValueError for what is no answer to this request.
        """
        code, _ = self.packed()
        if reply.error:
            raise ValueError(f"{self} answered {reply}")
        fields = reply.fields
        if code != records.MULTI:
            return [_result(code, fields)]
        found: list[Result] = []
        while True:
            kind, done, _ = fields.take("i?i")
            if done:
                return found
            if kind < 0:
                return None
            found.append(_result(kind, fields))


def _result(code: int, fields: records.RecordReader) -> Result:
    if code == records.CREATE:
        return fields.text()
    if code == records.SET:
        version: int = fields.stat().version
        return version
    return None


@frozen
class Found:
    """A znode as it was read."""

    data: bytes | None
    stat: Any

    @property
    def creates(self) -> int:
        """How many children it ever had."""
        total: int = self.stat.cversion + self.stat.numChildren
        return total // 2

    def node(self) -> ModelNode:
        """The same in a model."""
        its = self.stat
        zxids = its.czxid, its.mzxid, its.pzxid
        return ModelNode(self.data, its.version, self.creates, *zxids)


@define
class ModelNode:
    """A persistent znode; a zxid is None where no answer has told it."""

    data: bytes | None
    version: int = 0
    creates: int = 0
    czxid: int | None = None
    mzxid: int | None = None
    pzxid: int | None = None

    def is_like(self, found: Found | None) -> bool:
        """Whether content and counts are the same."""
        return found is not None and (self.data, self.version, self.creates) == (
            found.data,
            found.stat.version,
            found.creates,
        )


def parent_of(path: str) -> str:
    """The path of the parent."""
    return path.rpartition("/")[0]


@define
class GroupModel:
    """The persistent znodes of one group, by path; `root` is the uppermost."""

    root: str
    nodes: dict[str, ModelNode] = Factory(dict)

    def apply(self, request: Request, zxid: int | None = None) -> list[Result] | None:
        """Do what the request does, under that zxid; answers its results."""
        if request.refused:
            return None
        return [self._change(one, zxid) for one in request.changes]

    def _change(self, change: Change, zxid: int | None) -> Result:
        path = change.path
        if change.code == records.SET:
            node = self.nodes[path]
            node.data, node.mzxid = change.data, zxid
            node.version += 1
            return node.version
        parent = self.nodes.get(parent_of(path))
        if parent is not None:
            parent.pzxid = zxid
        if change.code == records.DELETE:
            self.nodes.pop(path, None)
            return None
        if parent is not None:
            path = numbered(change, parent.creates)
            parent.creates += 1
        if not change.flags & EPHEMERAL:
            self.nodes[path] = ModelNode(change.data, 0, 0, zxid, zxid, zxid)
        return path

    def children(self, path: str) -> list[str]:
        """The paths of its children."""
        return [one for one in self.nodes if parent_of(one) == path]

    def touched(self, results: list[Result] | None, request: Request) -> set[str]:
        """The paths whose znodes a request may have changed."""
        made = [one for one in results or () if isinstance(one, str)]
        paths = {*made, *(change.path for change in request.changes)}
        return paths | {parent_of(one) for one in paths}


def numbered(change: Change, creates: int) -> str:
    """The path that a create makes below a parent that had `creates` children."""
    if change.flags & SEQUENCE:
        return f"{change.path}{creates:010d}"
    return change.path
