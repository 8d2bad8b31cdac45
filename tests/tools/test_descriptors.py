"""Files that become full, and files that end in the middle of a record."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from typing import Any
from unittest import mock

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.message import ReceivedMessage
from metatwist.coordination.names import PartitionName
from metatwist.tools.output import Output, OutputForm


class Pool:
    """A pool of threads whose work is done at once."""

    def callInThreadWithCallback(
        self, told: Any, call: Any, *arguments: Any, **more: Any
    ) -> None:
        """See ThreadPool."""
        try:
            told(True, call(*arguments, **more))
        except OSError as error:
            told(False, error)


class InlineReactor(Clock):
    """A clock with threads."""

    def getThreadPool(self) -> Pool:
        """See IReactorThreads."""
        return Pool()

    def callFromThread(self, call: Any, *arguments: Any, **more: Any) -> None:
        """See IReactorFromThreads."""
        call(*arguments, **more)


def message(body: bytes) -> ReceivedMessage:
    """A message with that body."""
    return ReceivedMessage("t", PartitionName(0, 0), 0, 1, 1, 0, body)


class FullFile(SynchronousTestCase):
    """`self.path` is a file to write to."""

    def setUp(self) -> None:
        """Nothing in it."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.path = os.path.join(folder, "file")
        self.room = 1 << 20

    def open(self, *words: Any) -> Output:
        """The output of some format, into the file."""
        form = evolve(OutputForm(*words), path=self.path)
        opening = Deferred.fromCoroutine(form.open(InlineReactor()))
        output: Output = self.successResultOf(opening)
        self.addCleanup(output.close)
        return output

    def take(self, output: Output, *bodies: bytes) -> Deferred[None]:
        """Write messages, on a disk with `self.room` bytes left."""
        real = os.write

        def write(descriptor: int, data: Any) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = real(descriptor, bytes(data)[: self.room])
            self.room -= written
            return written

        with mock.patch.object(os, "write", write):
            taking = output.take(list(map(message, bodies)))
            return Deferred.fromCoroutine(taking)

    def content(self) -> bytes:
        """What is in the file."""
        with open(self.path, "rb") as file:
            return file.read()

    def put(self, content: bytes) -> None:
        """Write the file."""
        with open(self.path, "wb") as file:
            file.write(content)

    def test_cut_back(self) -> None:
        """A full disk leaves whole records, wherever it becomes full."""
        for room in range(10):
            self.put(b"old\n")
            self.room = room
            failing = self.take(self.open(), b"one", b"two", b"last")
            error = self.failureResultOf(failing, OSError).value
            self.assertEqual(error.filename, self.path)
            whole = (b"", b"one\n", b"one\ntwo\n")[room // 4]
            self.assertEqual(self.content(), b"old\n" + whole, room)

    def test_others_are_left_alone(self) -> None:
        """What another process has appended behind the torn record stays."""
        self.put(b"")
        self.room = 2
        real = os.lseek

        def other_appends(*arguments: int) -> int:
            at = real(*arguments)
            with open(self.path, "ab") as file:
                file.write(b"other\n")
            return at

        with mock.patch.object(os, "lseek", other_appends):
            self.failureResultOf(self.take(self.open(), b"one"), OSError)
        self.assertEqual(self.content(), b"onother\n")

    def test_torn_end(self) -> None:
        """The first record is not glued to a torn one; a whole file gets nothing, and
        none does without a message."""
        for words, before, after in (
            ((), b"a\nto", b"a\nto\nx\n"),
            ((), b"a\n", b"a\nx\n"),
            ((), b"", b"x\n"),
            (("text", b"--"), b"a-", b"a---x--"),
            (("raw",), b"a", b"ax"),
            (("hex",), b"a", b"a\n78\n"),
        ):
            self.put(before)
            output = self.open(*words)
            self.assertEqual(self.content(), before)
            self.successResultOf(self.take(output, b"x"))
            self.assertEqual(self.content(), after)
