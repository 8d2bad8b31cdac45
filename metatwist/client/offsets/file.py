"""Offsets in a local file, in the form of the Java client's (spec client 15.2).

Nothing of the file is kept in memory: each write reads it again under a lock, changes
its own partitions and replaces it as a whole, so that processes and groups that share
a file do not erase each other's offsets (spec client 21 W16). A Java client on the same
file does not know of the lock: give it a file of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from typing_extensions import Self

from metatwist.client.durable_file import locked, replace_file
from metatwist.client.errors import LocalStoreFailed
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.gathering import GatheringOffsets, Records
from metatwist.client.offsets.java_file import read_group, read_groups, write_groups
from metatwist.coordination.names import group_problem

LOCK_LIMIT_S = 10.0


class FileOffsets(GatheringOffsets):
    """See IOffsetStorage; the offsets of `group` in the file `path`.

    `<path>.lock` is its lock, `<path>.metatwist.tmp` what becomes the file. A file that
    cannot be read is left alone: loads and commits fail and name it, until somebody has
    repaired or removed it. `pool` has the threads, by default those of the reactor. It
    is the reactor's thread that asks claims, right before a thread is asked to write.
    """

    def __init__(self, reactor: Any, path: Path | str, group: str, pool: Any = None):
        super().__init__(f"group {group} in {path}")
        self.path = Path(path)
        self._group = group
        self._reactor = reactor
        self._pool = pool

    @classmethod
    def in_directory(cls, reactor: Any, directory: Path | str, group: str) -> Self:
        """In a file of the group's own, `<group>.offsets.json`.

        Raises ValueError for a group that no consumer may have.
        """
        problem = group_problem(group)
        if problem is not None:
            raise ValueError(f"group {group!r} {problem}")
        return cls(reactor, Path(directory) / f"{group}.offsets.json", group)

    def _read(self, partitions: frozenset[TopicPartition]) -> Deferred[Records]:
        return self._on_thread(self._read_group)

    def _write(self, records: Records) -> Deferred[None]:
        return self._on_thread(self._merge, records)

    def _on_thread(self, call: Any, *arguments: Any) -> Deferred[Any]:
        pool = self._pool or self._reactor.getThreadPool()
        return deferToThreadPool(self._reactor, pool, call, *arguments)

    # -- on a thread ------------------------------------------------------------

    def _read_group(self) -> Records:
        path = self._real_path()
        groups = _groups_in(path)
        return _group_in(path, groups, self._group)

    def _merge(self, records: Records) -> None:
        path = self._real_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f"{path.name}.lock"), LOCK_LIMIT_S):
            groups = _groups_in(path)
            merged = {**_group_in(path, groups, self._group), **records}
            replace_file(path, write_groups(groups, self._group, merged))

    def _real_path(self) -> Path:
        # A rename would put the file in the place of a link to it.
        return self.path.resolve()


def _groups_in(path: Path) -> dict[str, Any]:
    try:
        return read_groups(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _broken(path, error) from None


def _group_in(path: Path, groups: dict[str, Any], group: str) -> Records:
    try:
        return read_group(groups, group)
    except ValueError as error:
        raise _broken(path, error) from None


def _broken(path: Path, error: ValueError) -> LocalStoreFailed:
    return LocalStoreFailed(
        f"{path} is no offset file and was left alone: {error}; repair it, or move it"
        " away to begin without offsets"
    )
