"""Partition folders renumbered and deleted while no broker runs.

The original's offline tools (spec storage 14), which trusted that the broker was
down. These hold the lock that a broker holds, a `flock` of the data directory itself.
Every step is one rename followed by an fsync of the directory, in an order in which
no folder is ever overwritten and what a crash leaves can be continued.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

from metatwist.cli.directory_lock import locked
from metatwist.data_directory import HIGHEST_PARTITION, TRASH_PREFIX
from metatwist.errors import AdminError


@frozen
class PartitionRange:
    """Partitions `first` to `last`, both included, of one topic."""

    topic: str
    first: int
    last: int

    def __attrs_post_init__(self) -> None:
        if not self.topic or "/" in self.topic or "\0" in self.topic:
            raise AdminError(f"{self.topic!r} cannot be the name of a topic")
        if not 0 <= self.first <= self.last:
            raise AdminError(f"{self.first} to {self.last} is no range of partitions")

    @property
    def numbers(self) -> range:
        """The partition numbers, rising."""
        return range(self.first, self.last + 1)

    def folder(self, number: int) -> str:
        """Name of the folder of partition `number` of this topic."""
        return f"{self.topic}-{number}"


@frozen
class PartitionFolder:
    """What a partition folder holds, for the question before its deletion."""

    name: str
    files: int
    size_bytes: int


def move_partitions(
    directory: Path, partitions: PartitionRange, shift: int
) -> list[tuple[str, str]]:
    """Rename each folder `topic-n` of the range to `topic-(n + shift)`.

    Returns the old and new names in the order done. Raises `AdminError`, having
    renamed nothing, when a source is missing or a target is taken by a folder that
    does not move itself.
    """
    with locked(directory) as directory_fd:
        steps = _planned_moves(directory, partitions, shift)
        for done, (source, target) in enumerate(steps):
            try:
                os.rename(
                    source, target, src_dir_fd=directory_fd, dst_dir_fd=directory_fd
                )
                os.fsync(directory_fd)
            except OSError as error:
                raise AdminError(
                    f"{source} could not become {target}: {error.strerror}; "
                    f"{done} of {len(steps)} folders have been renamed"
                ) from error
    return steps


def _planned_moves(
    directory: Path, partitions: PartitionRange, shift: int
) -> list[tuple[str, str]]:
    if shift == 0 or partitions.first + shift < 0:
        raise AdminError(
            f"an offset of {shift} moves partition {partitions.first} "
            + ("nowhere" if shift == 0 else "below 0")
        )
    if partitions.last + shift > HIGHEST_PARTITION:
        raise AdminError(
            f"an offset of {shift} moves partition {partitions.last} above "
            f"{HIGHEST_PARTITION}, the highest number of a partition"
        )
    missing = [
        n for n in partitions.numbers if not _is_folder(directory, partitions, n)
    ]
    if missing:
        raise AdminError(
            f"not in {directory}: {_names(partitions, missing)}"
            + _resume_hint(directory, partitions, shift, missing)
        )
    taken = [
        number + shift
        for number in partitions.numbers
        if number + shift not in partitions.numbers
        and os.path.lexists(directory / partitions.folder(number + shift))
    ]
    if taken:
        raise AdminError(f"already in {directory}: {_names(partitions, taken)}")
    # Away from the others first: each target is then free when its turn comes.
    order = reversed(partitions.numbers) if shift > 0 else partitions.numbers
    return [(partitions.folder(n), partitions.folder(n + shift)) for n in order]


def _resume_hint(
    directory: Path, partitions: PartitionRange, shift: int, missing: Sequence[int]
) -> str:
    """Name the rest of a move that stopped half-way, if that explains the gap."""
    if shift > 0:
        rest = range(partitions.first, missing[0])
        moved = range(missing[0] + shift, partitions.last + shift + 1)
    else:
        rest = range(missing[-1] + 1, partitions.last + 1)
        moved = range(partitions.first + shift, missing[-1] + shift + 1)
    explained = all(_is_folder(directory, partitions, n) for n in [*rest, *moved])
    if not (rest and explained):
        return ""
    return (
        "; if this move stopped half-way, its rest is "
        f"{partitions.topic} {rest[0]} {rest[-1]} {shift}"
    )


def delete_partitions(
    directory: Path,
    partitions: PartitionRange,
    confirm: Callable[[Sequence[PartitionFolder]], bool],
) -> list[str]:
    """Delete the folders of the range that exist, once `confirm` agrees to them.

    A folder is renamed out of the brokers' sight first, so a crash leaves it whole or
    gone, never a partition with holes. Returns the deleted names, none if `confirm`
    declined. Raises `AdminError` when there is nothing, or a link, to delete.
    """
    with locked(directory) as directory_fd:
        _empty_trash(directory)
        found = [
            partitions.folder(n)
            for n in partitions.numbers
            if _is_folder(directory, partitions, n)
        ]
        _refuse_odd(directory, partitions, found)
        if not confirm([_folder_facts(directory / name) for name in found]):
            return []
        for number, name in enumerate(found):
            _delete(directory, directory_fd, name, f"{TRASH_PREFIX}{number}")
    return found


def _refuse_odd(
    directory: Path, partitions: PartitionRange, found: Sequence[str]
) -> None:
    if not found:
        raise AdminError(
            f"not in {directory}: {_names(partitions, list(partitions.numbers))}"
        )
    links = [name for name in found if (directory / name).is_symlink()]
    if links:
        raise AdminError(
            f"{', '.join(links)} in {directory} is a symbolic link; delete what it "
            "points to and the link by hand"
        )


def _delete(directory: Path, directory_fd: int, name: str, trash: str) -> None:
    try:
        os.rename(name, trash, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
        os.fsync(directory_fd)
        shutil.rmtree(directory / trash)
    except OSError as error:
        raise AdminError(f"cannot delete {directory / name}: {error}") from error


def _empty_trash(directory: Path) -> None:
    """Finish the deletions that a crash interrupted."""
    for left in directory.glob(f"{TRASH_PREFIX}*"):
        try:
            shutil.rmtree(left)
        except OSError as error:
            raise AdminError(f"cannot delete {left}: {error}") from error


def _folder_facts(folder: Path) -> PartitionFolder:
    sizes = [entry.stat().st_size for entry in folder.rglob("*") if entry.is_file()]
    return PartitionFolder(folder.name, len(sizes), sum(sizes))


def _is_folder(directory: Path, partitions: PartitionRange, number: int) -> bool:
    return (directory / partitions.folder(number)).is_dir()


def _names(partitions: PartitionRange, numbers: Sequence[int]) -> str:
    names = [partitions.folder(number) for number in numbers]
    if len(names) > 5:
        names[4:-1] = ["..."]
    return ", ".join(names)
