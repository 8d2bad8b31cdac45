"""A control socket in a thread that answers from a script, for the command line."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class FakeBroker:
    """Answers each connection's one request with the next scripted line."""

    def __init__(self, directory: Path, answers: list[bytes]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers = answers
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(directory / "control.sock"))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as lines:
                self.requests.append(json.loads(lines.readline()))
                connection.sendall(answer)

    def close(self) -> None:
        """End the thread; every scripted answer must have been fetched."""
        self._thread.join(timeout=10)
        assert not self._thread.is_alive(), "a scripted answer was never asked for"
        self._listener.close()


@contextmanager
def fake_broker(directory: Path, *answers: bytes) -> Iterator[FakeBroker]:
    """Run a `FakeBroker` while the block runs."""
    broker = FakeBroker(directory, list(answers))
    try:
        yield broker
    finally:
        broker.close()


def accepted(result: object) -> bytes:
    """The line that answers with `result`."""
    return json.dumps({"ok": True, "result": result}).encode() + b"\n"


def refused(sentence: str) -> bytes:
    """The line that refuses with `sentence`."""
    return json.dumps({"ok": False, "error": sentence}).encode() + b"\n"
