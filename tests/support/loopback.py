"""Real sockets under a test's own control: no reactor runs, tests call its turns."""

from __future__ import annotations

import select
import socket
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

WAIT_S = 10.0


class WatchingReactor(Clock):
    """A reactor that only remembers what it should watch; time is a `Clock`'s."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[Any] = set()
        self.writers: set[Any] = set()

    def addReader(self, descriptor: Any) -> None:
        """See IReactorFDSet."""
        self.readers.add(descriptor)

    def addWriter(self, descriptor: Any) -> None:
        """See IReactorFDSet."""
        self.writers.add(descriptor)

    def removeReader(self, descriptor: Any) -> None:
        """See IReactorFDSet."""
        self.readers.discard(descriptor)

    def removeWriter(self, descriptor: Any) -> None:
        """See IReactorFDSet."""
        self.writers.discard(descriptor)


def loopback_pair(
    case: SynchronousTestCase, buffer_bytes: int | None = None
) -> tuple[socket.socket, socket.socket]:
    """(peer, ours): the two ends of a TCP connection on 127.0.0.1.

    `buffer_bytes` bounds what the kernel keeps for them, roughly.
    """
    with socket.socket() as listener:
        if buffer_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        peer = socket.socket()
        case.addCleanup(peer.close)
        if buffer_bytes is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        peer.settimeout(WAIT_S)
        peer.connect(listener.getsockname())
        ours, _ = listener.accept()
    case.addCleanup(ours.close)
    return peer, ours


def wait_readable(end: socket.socket) -> None:
    """Return once what was sent to `end`, or its end, has arrived."""
    ready, _, _ = select.select([end], [], [], WAIT_S)
    assert ready, "nothing arrived"
