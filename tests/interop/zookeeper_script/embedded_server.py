"""The embedded coordinator as a process of its own: `PORT DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path

from metatwist.coordination.embedded.service import (
    EmbeddedCoordinator,
    EmbeddedSettings,
)


def main(port: str, directory: str) -> None:
    """Serve on loopback until SIGTERM."""
    from twisted.internet import reactor

    endpoint = f"tcp:{port}:interface=127.0.0.1"
    coordinator = EmbeddedCoordinator(
        reactor, EmbeddedSettings(Path(directory), endpoint)
    )
    reactor.addSystemEventTrigger("before", "shutdown", coordinator.stopService)
    coordinator.ready.addErrback(_failed)
    reactor.callWhenRunning(coordinator.startService)
    reactor.run()


def _failed(failure: object) -> None:
    from twisted.internet import reactor

    print(failure, file=sys.stderr)
    reactor.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])
