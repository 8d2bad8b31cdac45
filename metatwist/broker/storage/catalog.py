"""Which partitions there are: data roots, their locks, directories, logs.

A partition is served from the directory it is found in. A lock on each root itself (no
file is left behind) keeps a second broker out (spec storage 2, D-21).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from errno import EEXIST
from pathlib import Path

from attrs import Factory, define, frozen

from metatwist.broker.storage.partition_log import LogContext, PartitionLog
from metatwist.broker.storage.recovery import Recovered, RecoveryReport, recover
from metatwist.broker.storage.segment import parse_name
from metatwist.data_directory import TRASH_PREFIX
from metatwist.errors import DirectoryInUse, StorageError

Key = tuple[str, int]
_QUIET_NAMES = ("transactions",)
_HIGHEST_PARTITION = (1 << 31) - 1


@frozen
class PartitionDirectory:
    """Where one partition lies."""

    topic: str
    partition: int
    path: Path

    @property
    def key(self) -> Key:
        """(topic, partition)."""
        return self.topic, self.partition


@define
class Discovery:
    """What is in the data roots; `problems` are sentences for an operator.

    `leftovers`: directories whose deletion began and did not end.
    """

    directories: list[PartitionDirectory] = Factory(list)
    leftovers: list[Path] = Factory(list)
    problems: list[str] = Factory(list)


def split_name(name: str) -> Key | None:
    """(topic, partition) of a directory name, split at its last `-`; None if it is
    not a partition's."""
    topic, dash, digits = name.rpartition("-")
    if not (dash and topic and digits.isascii() and digits.isdigit()):
        return None
    partition = int(digits)
    return (topic, partition) if partition <= _HIGHEST_PARTITION else None


class Catalog:
    """The logs of a broker by topic and partition.

    `load` runs on worker threads and touches no state here; all else belongs to the
    reactor's thread. `failed` holds the reason for partitions that could not be loaded.
    """

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._locks: list[int] = []
        self.logs: dict[Key, PartitionLog] = {}
        self.failed: dict[Key, str] = {}
        self.reports: list[RecoveryReport] = []
        self.problems: list[str] = []

    def lock(self, roots: Iterable[Path]) -> None:
        """Create the data roots, their names synced, and lock them; blocking.

        Raises DirectoryInUse when another broker runs on one of them, StorageError when
        one cannot be made or opened.
        """
        files = self._context.files
        for root in dict.fromkeys(path.resolve() for path in roots):
            try:
                for made in files.make_directory(root):
                    files.sync_directory(made.parent)
                fd = files.lock_directory(root)
            except OSError as error:
                self.unlock()
                raise StorageError(f"data directory {root}: {error.strerror}") from None
            if fd is None:
                self.unlock()
                raise DirectoryInUse(
                    f"data directory {root} is in use by another broker; stop that one"
                    " or set another dataPath"
                )
            self._locks.append(fd)

    def unlock(self) -> None:
        """Give the data roots free."""
        while self._locks:
            self._context.files.close(self._locks.pop())

    def discover(self, roots: Iterable[Path]) -> Discovery:
        """Find the partitions in the roots, the first root winning where two have one.

        Raises StorageError when a root cannot be listed.
        """
        found = Discovery()
        seen: dict[Key, Path] = {}
        for root in dict.fromkeys(path.resolve() for path in roots):
            for path in self._directories(root):
                key = split_name(path.name)
                if key is None:
                    if path.name.startswith(TRASH_PREFIX):
                        found.leftovers.append(path)
                        found.problems.append(
                            f"{path}: its deletion was interrupted; it is removed now"
                        )
                    elif path.name not in _QUIET_NAMES and "-" in path.name:
                        found.problems.append(f"{path}: not a partition, ignored")
                elif key in seen:
                    found.problems.append(
                        f"{path}: the same partition as {seen[key]}, which is served;"
                        " this one is ignored"
                    )
                else:
                    seen[key] = path
                    found.directories.append(PartitionDirectory(*key, path))
        return found

    def _directories(self, root: Path) -> Iterator[Path]:
        try:
            entries = list(self._context.files.entries(root))
        except OSError as error:
            raise StorageError(f"data directory {root}: {error.strerror}") from None
        for name, is_directory in entries:
            if is_directory:
                yield root / name

    def remove_leftover(self, path: Path) -> None:
        """Finish a deletion; blocking. Raises OSError."""
        self._context.files.remove_tree(path)

    def load(self, directory: PartitionDirectory) -> Recovered:
        """Read and repair one partition; blocking. Raises StorageError."""
        return recover(self._context.files, directory.path, directory.path.name)

    def loaded(
        self, directory: PartitionDirectory, recovered: Recovered
    ) -> PartitionLog:
        """Take in what `load` returned."""
        log = PartitionLog(directory.path, recovered, self._context)
        self.logs[directory.key] = log
        self.failed.pop(directory.key, None)
        self.reports.append(recovered.report)
        return log

    def load_failed(self, directory: PartitionDirectory, reason: str) -> None:
        """Remember that a partition is there and cannot be used."""
        self.failed[directory.key] = reason

    def create(self, root: Path, topic: str, partition: int) -> PartitionLog:
        """Begin a partition that has no data yet; OSError when that fails.

        FileExistsError where segments lie that were not loaded: they are not touched.
        """
        path = root.resolve() / f"{topic}-{partition}"
        files = self._context.files
        files.make_directory(path)
        if any(parse_name(name) is not None for name, _ in files.entries(path)):
            reason = "holds messages that were not loaded; restart the broker"
            raise FileExistsError(EEXIST, reason, str(path))
        log = PartitionLog(
            path, Recovered([], RecoveryReport(path.name)), self._context
        )
        self.logs[topic, partition] = log
        return log

    def partitions_of(self, topic: str) -> list[int]:
        """The partitions of a topic that have a store, ascending."""
        return sorted(number for name, number in self.logs if name == topic)

    @property
    def last_id(self) -> int:
        """The newest message id in any partition, 0 when there is none."""
        return max((log.last_id for log in self.logs.values()), default=0)

    def close(self) -> None:
        """Leave clean-stop markers, close files, release the roots."""
        for log in self.logs.values():
            log.close()
        self._context.pool.close()
        self.unlock()
