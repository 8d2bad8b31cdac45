"""A server as a child process: start until it answers, stop in order, or kill."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60


class PeerError(Exception):
    """A child process, or getting its program, failed; the text quotes its output."""


def free_port() -> int:
    """A TCP port of loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int, request: bytes, expected: bytes, timeout_s: float = 1.0) -> bool:
    """Whether the server on loopback `port` begins its reply to `request` so."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as peer:
            peer.sendall(request)
            reply = b""
            while len(reply) < len(expected):
                received = peer.recv(4096)
                if not received:
                    return False
                reply += received
            return reply.startswith(expected)
    except OSError:
        return False


def answers_version(port: int) -> bool:
    """Whether a broker on loopback `port` answers `version` (spec wire 3.6)."""
    return answers(port, b"version 7\r\n", b"result 200 ")


class ChildProcess:
    """A server with one port, in its own work directory; a base class.

    Attributes:
        port: the loopback port, kept over restarts.
        output_path: what it printed.
        answered_after_s: from the last start to the first answer of the port.
    """

    def __init__(self, work_dir: Path, port: int | None = None) -> None:
        self.work_dir = work_dir.resolve()
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.output_path = self.work_dir / "output.log"
        self.answered_after_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            PeerError: it does not run.
        """
        if self._process is None:
            raise PeerError(f"{type(self).__name__} does not run")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def _argv(self) -> list[str]:
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _answers(self) -> bool:
        raise NotImplementedError

    def _has_settled(self) -> bool:
        """Whether it has also done what it does after opening its port."""
        return True

    def start(self) -> None:
        """Start the process and return once it answers and has settled.

        Raises:
            PeerError: it ended or did not answer within START_TIMEOUT_S.
        """
        begun_s = time.monotonic()
        with open(self.output_path, "ab") as output:
            self._process = subprocess.Popen(
                self._argv(),
                cwd=self.work_dir,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_until(self._answers, START_TIMEOUT_S)
            self.answered_after_s = time.monotonic() - begun_s
            self._wait_until(self._has_settled, START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise

    def _wait_until(self, is_so: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_so():
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                why = "ended" if ended else f"gave no answer in {timeout_s:.0f} s"
                raise PeerError(f"{type(self).__name__} {why}:\n{self.log_tail()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """SIGTERM, then wait for the exit; does nothing when it does not run.

        Raises:
            PeerError: it was still there after STOP_TIMEOUT_S, and was killed.
        """
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise PeerError(
                f"{type(self).__name__} did not stop:\n{self.log_tail()}"
            ) from error
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to it and its helpers; does nothing when it does not run."""
        if self._process is not None:
            # It leads a session of its own, so the group holds nothing else.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _log_paths(self) -> list[Path]:
        return [self.output_path]

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of what it printed and logged, for an error message."""
        texts = []
        for path in self._log_paths():
            if path.exists():
                text = path.read_text(errors="replace").splitlines()[-lines:]
                texts.append("\n".join([f"{path}:", *text]))
        return "\n".join(texts)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()
