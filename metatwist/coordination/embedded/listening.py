"""Why the coordinator's port cannot be listened on, and what to do about that."""

from __future__ import annotations

import errno
import socket

from metatwist.errors import MetatwistError

_TAKEN = (
    "A ZooKeeper or another broker may run here: to use a ZooKeeper, name it in"
    " [zookeeper] zk.zkConnect; to keep a second coordinator, give coordinatorEndpoint"
    " another port"
)
_NOT_OURS = (
    "`interface` has to be an address of this machine; without it, as in tcp:2181, all"
    " of them are listened on"
)
_FORBIDDEN = (
    "The user that the broker runs as may not do this, for TCP ports below 1024 take"
    " special rights: give coordinatorEndpoint another one"
)
_ADVICE = {
    errno.EADDRINUSE: _TAKEN,
    errno.EADDRNOTAVAIL: _NOT_OURS,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
}


class CoordinatorPortTaken(MetatwistError):
    """The coordinator's port cannot be listened on; `reason` is what the system says,
    and decides what is advised."""

    def __init__(self, endpoint: str, reason: object) -> None:
        parts = [
            f"[metatwist] coordinatorEndpoint: cannot listen on {endpoint}: {reason}",
            _advice(reason),
            "To do without a coordinator, set [metatwist] coordinator=none",
        ]
        super().__init__(". ".join(part for part in parts if part))


def _advice(reason: object) -> str:
    if isinstance(reason, socket.gaierror):
        return _NOT_OURS
    number = reason.errno if isinstance(reason, OSError) else None
    return _ADVICE.get(number, "") if number is not None else ""


def is_plain(endpoint: str) -> bool:
    """Whether connections of a server endpoint have no layer, such as TLS, between
    socket and protocol, as far as we know it."""
    return endpoint.partition(":")[0] in ("tcp", "tcp6", "unix")


def place_of(endpoint: str, port: object) -> str:
    """What is listened on, with the number where the system has chosen one; `port` is
    Twisted's."""
    found = getattr(getattr(port, "getHost", lambda: None)(), "port", None)
    named = found is None or str(found) in endpoint.replace("=", ":").split(":")
    return endpoint if named else f"{endpoint} (port {found})"
