"""A child process that holds sessions of a client, and is steered by lines of JSON.

A request on its standard input names a number, a session and a verb. Its one answer on
standard output carries the number and a result or an error. Between answers come
events: lines with a member `event`; the first is `ready`. When its input ends it closes
all sessions and ends.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any

from ..support.child_process import (
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    ChildProcess,
    PeerError,
)
from .driver_session import ClientZooKeeper, DriverSession, JsonObject

ANSWER_LIMIT_S = 60.0


class LineDriver(ChildProcess):
    """A base class; sessions end with the process. What it told stays after its end,
    also when it is started again."""

    def __init__(self, work_dir: Path) -> None:
        super().__init__(work_dir)
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Any]] = {}
        self._last_number = 0
        self._events: list[JsonObject] = []
        self._ready = threading.Event()
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Start the process and return once it takes requests.

        Raises:
            PeerError: it ended or did not get there within START_TIMEOUT_S.
        """
        begun_s = time.monotonic()
        with open(self.output_path, "ab") as output:
            self._process = subprocess.Popen(
                self._argv(),
                cwd=self.work_dir,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        self._ready.clear()
        self._reader = threading.Thread(
            target=self._read, args=(self._process,), daemon=True
        )
        self._reader.start()
        try:
            self._wait_until(self._ready.is_set, START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise
        self.answered_after_s = time.monotonic() - begun_s

    def stop(self) -> None:
        """Shut all sessions down and end; does nothing when it does not run.

        Raises:
            PeerError: it was still there after STOP_TIMEOUT_S, and was killed.
        """
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"the driver did not stop:\n{self.log_tail()}") from error
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL; does nothing when it does not run."""
        process = self._process
        super().kill()
        if process is not None and self._reader is not None:
            self._reader.join()
            assert process.stdin is not None and process.stdout is not None
            process.stdout.close()
            process.stdin.close()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for text in process.stdout:
            if text.endswith(b"\n"):  # else it was killed as it wrote
                self._take(json.loads(text))
        with self._lock:
            unanswered, self._pending = self._pending, {}
        for one in unanswered.values():
            one.set_exception(PeerError(f"the driver ended:\n{self.log_tail()}"))

    def _take(self, line: JsonObject) -> None:
        kind = line.get("event")
        if kind == "ready":
            self._ready.set()
        elif kind is not None:
            with self._lock:
                self._events.append(line)
        else:
            self._answer(line)

    def _answer(self, line: JsonObject) -> None:
        with self._lock:
            pending = self._pending.pop(line["number"])
        if "error" in line:
            pending.set_exception(PeerError(f"{line['error']}\n{line['trace']}"))
        else:
            pending.set_result(line["result"])

    def begin(self, session: str, verb: str, **members: object) -> Future[Any]:
        """Send a request; its Future has the result, or a PeerError."""
        assert self._process is not None and self._process.stdin is not None
        future: Future[Any] = Future()
        with self._lock:
            self._last_number += 1
            number = self._last_number
            self._pending[number] = future
            request = {"number": number, "session": session, "verb": verb, **members}
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        return future

    def call(self, session: str, verb: str, **members: object) -> Any:
        """Send a request and wait for its result.

        Raises:
            PeerError: the client threw, or gave no answer within ANSWER_LIMIT_S.
        """
        return self.wait(self.begin(session, verb, **members), verb)

    def wait(self, future: Future[Any], what: str) -> Any:
        """The result of `begin`; raises as `call`."""
        try:
            return future.result(ANSWER_LIMIT_S)
        except FutureTimeoutError as error:
            raise PeerError(
                f"no answer to {what} in {ANSWER_LIMIT_S:.0f} s:\n{self.log_tail()}"
            ) from error

    def events(self, kind: str, session: str | None = None) -> list[JsonObject]:
        """The events of that kind so far, in order: `received`, `connected`,
        `disconnected` (of brokers), `failed`, `happened` (what ours tell its user)."""
        with self._lock:
            return [
                event
                for event in self._events
                if event["event"] == kind and session in (None, event["session"])
            ]

    def session(self, name: str, zookeeper: str | ClientZooKeeper) -> DriverSession:
        """Open a session; a closed one's name may be used again. Raises as `call`."""
        settings = (
            ClientZooKeeper(zookeeper) if isinstance(zookeeper, str) else zookeeper
        )
        self.call(
            name,
            "open",
            zkConnect=settings.connect,
            zkRoot=settings.root,
            sessionTimeoutMs=settings.session_timeout_ms,
            connectionTimeoutMs=settings.connection_timeout_ms,
            syncTimeMs=settings.sync_time_ms,
        )
        return DriverSession(self, name)
