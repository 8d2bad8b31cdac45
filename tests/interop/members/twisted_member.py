"""The child process behind `MemberDriver`; its argument is a directory for files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.stdio import StandardIO
from twisted.internet.task import react
from twisted.logger import globalLogBeginner, textFileLogObserver
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure

from tests.interop.members.member_session import MemberSession

_MOST_LINE_BYTES = 256 * 1024 * 1024


def write(line: dict[str, Any]) -> None:
    """Write now: what was delivered is known even if we are killed the next moment."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Requests(LineReceiver):
    """Takes requests; see `line_driver`."""

    delimiter = b"\n"
    MAX_LENGTH = _MOST_LINE_BYTES

    def __init__(self, reactor: Any, directory: Path, ended: Deferred[None]) -> None:
        self._reactor = reactor
        self._directory = directory
        self._ended = ended
        self._sessions: dict[str, MemberSession] = {}

    def connectionMade(self) -> None:
        """Say that we are here."""
        write({"event": "ready"})

    def lineReceived(self, line: bytes) -> None:
        """Perform a request and answer it."""
        request = json.loads(line)
        name = request["session"]
        if name not in self._sessions:
            self._sessions[name] = MemberSession(
                self._reactor, name, self._directory, write
            )
        performing = Deferred.fromCoroutine(self._sessions[name].perform(request))
        performing.addCallbacks(
            lambda result: write({"number": request["number"], "result": result}),
            lambda failure: self._failed(request["number"], failure),
        )

    def _failed(self, number: int, failure: Failure) -> None:
        error = repr(failure.value)
        write({"number": number, "error": error, "trace": failure.getTraceback()})

    def connectionLost(self, reason: object = None) -> None:
        """Close all sessions, and end."""
        closing = [
            Deferred.fromCoroutine(one.close()) for one in self._sessions.values()
        ]
        DeferredList(closing).addCallback(lambda _: self._ended.callback(None))


def main(reactor: Any, directory: str) -> Deferred[None]:
    """Run until standard input ends."""
    ended: Deferred[None] = Deferred()
    # It would make our real output non-blocking, which then could break off.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    requests = Requests(reactor, Path(directory), ended)
    StandardIO(requests, stdout=nowhere, reactor=reactor)
    return ended


if __name__ == "__main__":
    globalLogBeginner.beginLoggingTo(
        [textFileLogObserver(sys.stderr)], redirectStandardIO=False
    )
    react(main, sys.argv[1:])
