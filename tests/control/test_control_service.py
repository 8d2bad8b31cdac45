"""The control socket on a real file system, with the command line's own client."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from metatwist.broker.control import ControlService, Parameter, Verb
from metatwist.cli.control_client import BrokerGone, BrokerUnreachable, ControlClient
from metatwist.errors import AdminError, StorageError

TOPIC = Parameter("topic", str, "the topic", required=False, default="all")


def open_paths() -> list[str]:
    """What the descriptors of this process lead to."""
    folder = Path("/proc/self/fd")
    return [os.readlink(fd) for fd in folder.iterdir() if os.path.lexists(fd)]


class ServiceCase(TestCase):
    """A service in a directory of its own."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.stopping: Deferred[object] = Deferred()
        self.begun: Deferred[object] = Deferred()

    def refuse(self) -> None:
        raise AdminError("not now")

    def hang(self) -> Deferred[object]:
        self.begun.callback(None)
        return self.stopping

    def serve(self, directory: Path) -> ControlService:
        verbs = [
            Verb("flush", "flushes", (TOPIC,), lambda topic: f"flushed {topic}"),
            Verb("refuse", "refuses", (), self.refuse),
            Verb("hang", "hangs", (), self.hang),
            Verb("large", "answers at length", (), lambda: "x" * (4 << 20)),
        ]
        table = {verb.name: verb for verb in verbs}
        service = ControlService(reactor, directory / "control.sock", table)
        service.startService()
        self.addCleanup(service.stopService)
        return service

    def call(self, directory: Path, verb: str, **arguments: object) -> Deferred[Any]:
        return deferToThread(ControlClient(directory).call, verb, **arguments)


class SocketFileTests(ServiceCase):
    """The socket as a file."""

    def test_mode(self) -> None:
        """Only the owner may connect, whatever the umask of the process."""
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        self.serve(self.directory)
        mode = os.stat(self.directory / "control.sock").st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        self.assertEqual(os.umask(0), 0)

    def test_born_private(self) -> None:
        """The socket file is closed to others from its first moment."""
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        born: list[int] = []
        change_mode = os.chmod

        def spy(path: Any, mode: int) -> None:
            born.append(stat.S_IMODE(os.stat(path).st_mode))
            change_mode(path, mode)

        self.patch(os, "chmod", spy)
        self.serve(self.directory)
        self.assertEqual([mode & 0o077 for mode in born], [0])

    @inlineCallbacks
    def test_stale_socket(self) -> Generator[Deferred[Any], Any, None]:
        """The socket that a crash left behind is replaced."""
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(self.directory / "control.sock"))
        left.close()
        self.serve(self.directory)
        result = yield self.call(self.directory, "flush")
        self.assertEqual(result, "flushed all")

    def test_file_in_the_way(self) -> None:
        """A file that is no socket is not deleted; the start says what is wrong."""
        path = self.directory / "control.sock"
        path.write_text("precious")
        error = self.assertRaises(StorageError, self.serve, self.directory)
        self.assertIn(f"{path} is no socket", str(error))
        self.assertEqual(path.read_text(), "precious")

    def test_missing_directory(self) -> None:
        """A socket that cannot be made is a storage error which names it."""
        gone = self.directory / "gone"
        error = self.assertRaises(StorageError, self.serve, gone)
        self.assertIn(str(gone / "control.sock"), str(error))

    @inlineCallbacks
    def test_removed_at_stop(self) -> Generator[Deferred[Any], Any, None]:
        """A stop removes the socket, and the service may start again."""
        service = self.serve(self.directory)
        yield service.stopService()
        self.assertEqual(os.listdir(self.directory), [])
        service.startService()
        self.assertEqual(os.listdir(self.directory), ["control.sock"])

    @inlineCallbacks
    def test_removed_by_hand(self) -> Generator[Deferred[Any], Any, None]:
        """A stop succeeds although somebody has removed the socket."""
        service = self.serve(self.directory)
        os.unlink(self.directory / "control.sock")
        yield service.stopService()
        self.assertFalse(service.running)

    @inlineCallbacks
    def test_deep_directory(self) -> Generator[Deferred[Any], Any, None]:
        """Data directories deeper than a socket address can name work all the same."""
        deep = self.directory.joinpath(*["d" * 60] * 4)
        deep.mkdir(parents=True)
        service = self.serve(deep)
        result = yield self.call(deep, "flush", topic="news")
        self.assertEqual(result, "flushed news")
        yield service.stopService()
        self.assertEqual(os.listdir(deep), [])
        self.assertNotIn(str(deep), open_paths())


class CallTests(ServiceCase):
    """Calls from the command line's client."""

    @inlineCallbacks
    def test_refused(self) -> Generator[Deferred[Any], Any, None]:
        """A refusal arrives as an AdminError with the broker's sentence."""
        self.serve(self.directory)
        error = yield self.assertFailure(
            self.call(self.directory, "refuse"), AdminError
        )
        self.assertEqual(str(error), "not now")

    @inlineCallbacks
    def test_large_answer(self) -> Generator[Deferred[Any], Any, None]:
        """An answer may be longer than a request."""
        self.serve(self.directory)
        result = yield self.call(self.directory, "large")
        self.assertEqual(len(result), 4 << 20)

    @inlineCallbacks
    def test_stop_amid_a_verb(self) -> Generator[Deferred[Any], Any, None]:
        """A stop does not wait for a running verb; its client learns of it."""
        service = self.serve(self.directory)
        call = self.call(self.directory, "hang")
        yield self.begun
        yield service.stopService()
        error = yield self.assertFailure(call, BrokerGone)
        self.assertIn("hang may or may not have been done", str(error))

    @inlineCallbacks
    def test_stop_with_an_answer_unread(self) -> Generator[Deferred[Any], Any, None]:
        """A client that never reads its answer cannot prevent the stop."""
        service = self.serve(self.directory)
        self.patch(service, "stop_grace_s", 0.05)
        with socket.socket(socket.AF_UNIX) as lazy:
            lazy.connect(str(self.directory / "control.sock"))
            lazy.sendall(b'{"verb": "large"}\n')
            yield self.call(self.directory, "flush")
            yield service.stopService()
        self.assertEqual(os.listdir(self.directory), [])

    @inlineCallbacks
    def test_stop_with_an_answer_half_read(self) -> Generator[Deferred[Any], Any, None]:
        """An answer that was given before the stop still arrives whole."""
        service = self.serve(self.directory)
        self.patch(service, "stop_grace_s", 3600)
        with socket.socket(socket.AF_UNIX) as slow:
            slow.settimeout(10)  # a failure shall not hang the run
            slow.connect(str(self.directory / "control.sock"))
            slow.sendall(b'{"verb": "large"}\n')
            yield self.call(self.directory, "flush")
            stopped = service.stopService()
            answer = yield deferToThread(slow.makefile("rb").read)
            yield stopped
        self.assertGreater(len(answer), 4 << 20)
        self.assertTrue(answer.endswith(b"}\n"))

    @inlineCallbacks
    def test_after_stop(self) -> Generator[Deferred[Any], Any, None]:
        """After a stop there is nobody to reach."""
        service = self.serve(self.directory)
        yield service.stopService()
        error = yield self.assertFailure(
            self.call(self.directory, "flush"), BrokerUnreachable
        )
        self.assertIn(f"no broker runs on {self.directory}", str(error))
