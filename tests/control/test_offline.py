"""Partition folders renumbered and deleted while no broker runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from metatwist.cli.directory_lock import is_in_use, locked
from metatwist.cli.offline import (
    PartitionFolder,
    PartitionRange,
    delete_partitions,
    move_partitions,
)
from metatwist.errors import AdminError, DirectoryInUse


class FolderCase(SynchronousTestCase):
    """A data directory whose partition folders each hold their first name."""

    def setUp(self) -> None:
        self.data = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.data)

    def make(self, *names: str) -> None:
        for name in names:
            (self.data / name).mkdir()
            (self.data / name / "00000000000000000000.meta").write_text(name)

    def content(self) -> dict[str, str]:
        """Each folder's name, and the name it had at first."""
        return {
            folder.name: (folder / "00000000000000000000.meta").read_text()
            for folder in self.data.iterdir()
        }

    def hold_lock(self) -> None:
        """Do as a running broker does."""
        directory_fd = os.open(self.data, os.O_RDONLY)
        fcntl.flock(directory_fd, fcntl.LOCK_EX)
        self.addCleanup(os.close, directory_fd)

    def refused_move(self, first: int, last: int, shift: int) -> str:
        before = self.content()
        range_ = PartitionRange("news", first, last)
        error = self.assertRaises(AdminError, move_partitions, self.data, range_, shift)
        self.assertEqual(self.content(), before)
        return str(error)


class MoveTests(FolderCase):
    """`offline move-partitions`."""

    def test_above_the_highest(self) -> None:
        """No partition moves above what 32 bits can say."""
        self.make("news-0", "news-1")
        self.assertIn("above 2147483647", self.refused_move(0, 1, 2**31 - 1))
        move_partitions(self.data, PartitionRange("news", 0, 1), 2**31 - 2)
        self.assertIn("news-2147483647", self.content())

    def test_up_into_itself(self) -> None:
        """A range may move upwards over its own numbers."""
        self.make("news-0", "news-1", "news-2", "other-0")
        moved = move_partitions(self.data, PartitionRange("news", 0, 2), 1)
        self.assertEqual(moved[0], ("news-2", "news-3"))
        expected = {"news-1": "news-0", "news-2": "news-1", "news-3": "news-2"}
        self.assertEqual(self.content(), {**expected, "other-0": "other-0"})

    def test_down_into_itself(self) -> None:
        """A range may move downwards over its own numbers."""
        self.make("news-2", "news-3", "news-4")
        move_partitions(self.data, PartitionRange("news", 2, 4), -2)
        expected = {"news-0": "news-2", "news-1": "news-3", "news-2": "news-4"}
        self.assertEqual(self.content(), expected)

    def test_missing_source(self) -> None:
        """Nothing moves when a source is missing, and the missing are named."""
        self.make("news-0", "news-2")
        self.assertIn("news-1, news-3", self.refused_move(0, 3, 10))

    def test_target_taken(self) -> None:
        """Nothing moves onto a folder that does not move itself."""
        self.make("news-0", "news-1", "news-2")
        self.assertIn("already in", self.refused_move(0, 1, 1))

    def test_target_taken_by_a_dangling_link(self) -> None:
        """A link to nowhere occupies its name like any folder."""
        self.make("news-0")
        (self.data / "news-1").symlink_to(self.data / "nowhere")
        range_ = PartitionRange("news", 0, 0)
        self.assertRaises(AdminError, move_partitions, self.data, range_, 1)

    def test_senseless_offsets(self) -> None:
        """An offset of 0, or one that leads below partition 0, is refused."""
        self.make("news-0", "news-1")
        self.assertIn("nowhere", self.refused_move(0, 1, 0))
        self.assertIn("below 0", self.refused_move(0, 1, -1))

    def test_in_use(self) -> None:
        """Nothing moves while a broker holds the directory."""
        self.make("news-0")
        self.hold_lock()
        range_ = PartitionRange("news", 0, 0)
        error = self.assertRaises(DirectoryInUse, move_partitions, self.data, range_, 1)
        self.assertIn("stop the broker first", str(error))

    def test_crash_at_each_step(self) -> None:
        """A move that died after any step loses nothing and names its own rest."""
        for shift in (1, 2, 7, -1, -3):
            for steps in range(1, 4):
                with self.subTest(shift=shift, steps=steps):
                    self.crash_and_resume(shift, steps)
                for folder in self.data.iterdir():
                    shutil.rmtree(folder)

    def crash_and_resume(self, shift: int, steps: int) -> None:
        names = [f"news-{n}" for n in range(3, 7)]
        self.make(*names)
        rename = os.rename
        calls = iter(range(steps + 1))

        def dying(*args: object, **kwargs: object) -> None:
            if next(calls) == steps:
                raise OSError(5, "Input/output error")
            rename(*args, **kwargs)  # type: ignore[arg-type]

        with mock.patch("os.rename", dying):
            error = self.assertRaises(
                AdminError,
                move_partitions,
                self.data,
                PartitionRange("news", 3, 6),
                shift,
            )
        self.assertIn(f"{steps} of 4 folders", str(error))
        self.assertEqual(sorted(self.content().values()), names)
        hint = self.refused_move(3, 6, shift).rpartition("its rest is ")[2]
        topic, first, last, again = hint.split()
        rest = PartitionRange(topic, int(first), int(last))
        move_partitions(self.data, rest, int(again))
        expected = {f"news-{n + shift}": f"news-{n}" for n in range(3, 7)}
        self.assertEqual(self.content(), expected)

    def test_each_rename_reaches_the_disk(self) -> None:
        """The directory is synced after every rename, before the next."""
        self.make("news-0", "news-1")
        steps: list[str] = []
        rename, fsync = os.rename, os.fsync

        def seen_rename(*args: object, **kwargs: object) -> None:
            steps.append("rename")
            rename(*args, **kwargs)  # type: ignore[arg-type]

        def seen_fsync(fd: int) -> None:
            steps.append("fsync")
            fsync(fd)

        self.patch(os, "rename", seen_rename)
        self.patch(os, "fsync", seen_fsync)
        move_partitions(self.data, PartitionRange("news", 0, 1), 1)
        self.assertEqual(steps, ["rename", "fsync"] * 2)


class DeleteTests(FolderCase):
    """`offline delete-partitions`."""

    def setUp(self) -> None:
        super().setUp()
        self.asked: list[PartitionFolder] = []

    def agree(self, folders: Sequence[PartitionFolder]) -> bool:
        self.asked.extend(folders)
        return True

    def delete(self, first: int, last: int, topic: str = "news") -> list[str]:
        return delete_partitions(
            self.data, PartitionRange(topic, first, last), self.agree
        )

    def test_delete(self) -> None:
        """Exactly the folders of the range go."""
        self.make("news-0", "news-1", "news-2", "news-10", "my-news-1")
        self.assertEqual(self.delete(1, 5), ["news-1", "news-2"])
        self.assertEqual(sorted(self.content()), ["my-news-1", "news-0", "news-10"])

    def test_question(self) -> None:
        """The question states how much each folder holds."""
        self.make("news-0")
        self.delete(0, 0)
        self.assertEqual(self.asked, [PartitionFolder("news-0", 1, 6)])

    def test_declined(self) -> None:
        """Without consent nothing goes."""
        self.make("news-0")
        range_ = PartitionRange("news", 0, 0)
        gone = delete_partitions(self.data, range_, lambda folders: False)
        self.assertEqual((gone, list(self.content())), ([], ["news-0"]))

    def test_nothing_there(self) -> None:
        """A range of which nothing exists is refused, in few words if it is long."""
        error = self.assertRaises(AdminError, self.delete, 0, 99)
        self.assertIn("news-0, news-1, news-2, news-3, ..., news-99", str(error))

    def test_link(self) -> None:
        """A partition that is a symbolic link is refused before anything goes."""
        self.make("news-0", "elsewhere")
        (self.data / "news-1").symlink_to(self.data / "elsewhere")
        error = self.assertRaises(AdminError, self.delete, 0, 1)
        self.assertIn("news-1", str(error))
        self.assertIn("news-0", self.content())

    def test_crash_leaves_no_half_partition(self) -> None:
        """A deletion that died is out of the brokers' sight; the next one ends it."""
        self.make("news-0", "news-1")
        with mock.patch("shutil.rmtree", side_effect=OSError(5, "I/O error")):
            self.assertRaises(AdminError, self.delete, 0, 0)
        left = set(os.listdir(self.data)) - {"news-1"}
        self.assertFalse([name for name in left if "-" in name])
        self.delete(1, 1)
        self.assertEqual(self.content(), {})

    def test_in_use(self) -> None:
        """Nothing goes, and nobody is asked, while a broker holds the directory."""
        self.make("news-0")
        self.hold_lock()
        self.assertRaises(DirectoryInUse, self.delete, 0, 0)
        self.assertEqual((self.asked, list(self.content())), ([], ["news-0"]))

    def test_path_as_topic(self) -> None:
        """A topic cannot lead out of the data directory."""
        for topic in ("../news", "", "a/b", "a\0b"):
            self.assertRaises(AdminError, self.delete, 0, 0, topic)


class LockTests(FolderCase):
    """The lock of the data directory."""

    def test_exclusive_and_released(self) -> None:
        """The lock excludes others while held, and leaves no trace after."""
        with locked(self.data):
            self.assertTrue(is_in_use(self.data))
        self.assertFalse(is_in_use(self.data))
        self.assertEqual(os.listdir(self.data), [])

    def test_no_directory(self) -> None:
        """A directory that is not there is in nobody's use, and cannot be locked."""
        self.assertFalse(is_in_use(self.data / "gone"))
        context = locked(self.data / "gone")
        error = self.assertRaises(AdminError, context.__enter__)
        self.assertIn("gone: No such file", str(error))
