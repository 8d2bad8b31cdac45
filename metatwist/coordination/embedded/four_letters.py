"""The four-letter words of monitoring scripts: four bytes, one answer, closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from metatwist import __version__
from metatwist.coordination.embedded.numbers import TreeNumbers

if TYPE_CHECKING:
    from metatwist.coordination.embedded.connection import ClientConnection, TreeServer

# Tools read a ZooKeeper version from it, and choose by it what they send.
_VERSION = f"3.4.14-metatwist-{__version__}, built on Twisted"


def report(word: bytes, server: TreeServer) -> str:
    """The answer to one of `WORDS`; a ZooKeeper's own where we have none."""
    answer = _ANSWERS.get(word)
    if answer is not None:
        return answer(server)
    return f"{word.decode()} is not executed because it is not in the whitelist.\n"


def _ruok(server: TreeServer) -> str:
    return "imok"


def _isro(server: TreeServer) -> str:
    return "rw"


def _envi(server: TreeServer) -> str:
    return f"Environment:\nzookeeper.version={_VERSION}\n"


def _cons(server: TreeServer) -> str:
    return "".join(_line(one) for one in server.connections) + "\n"


def _line(one: ClientConnection) -> str:
    session = one.session
    ends = f",sid={session.id:#x},to={session.timeout_ms}" if session else ""
    return f" /{one.peer}[1](queued=0,recved={one.received},sent={one.sent}{ends})\n"


def _srvr(server: TreeServer) -> str:
    return f"Zookeeper version: {_VERSION}\n{_summary(server)}"


def _stat(server: TreeServer) -> str:
    clients = _cons(server)
    return f"Zookeeper version: {_VERSION}\nClients:\n{clients}{_summary(server)}"


def _summary(server: TreeServer) -> str:
    tree = server.realm.tree
    return (
        f"Received: {server.received}\n"
        f"Sent: {server.sent}\n"
        f"Connections: {len(server.connections)}\n"
        f"Outstanding: {len(server.waiting)}\n"
        f"Zxid: {tree.zxid:#x}\n"
        "Mode: standalone\n"
        f"Node count: {len(tree.nodes)}\n"
    )


def _mntr(server: TreeServer) -> str:
    numbers = TreeNumbers.of(server)
    rows = {
        "zk_version": _VERSION,
        "zk_server_state": "standalone",
        "zk_packets_received": numbers.packets_received,
        "zk_packets_sent": numbers.packets_sent,
        "zk_num_alive_connections": numbers.connections,
        "zk_outstanding_requests": numbers.connections_waiting,
        "zk_znode_count": numbers.znodes,
        "zk_watch_count": numbers.watches,
        "zk_ephemerals_count": numbers.ephemerals,
        "zk_global_sessions": numbers.sessions,
        "zk_sessions_expired": numbers.sessions_expired,
    }
    return "".join(f"{name}\t{value}\n" for name, value in rows.items())


_ANSWERS: dict[bytes, Callable[[TreeServer], str]] = {
    b"ruok": _ruok,
    b"isro": _isro,
    b"envi": _envi,
    b"cons": _cons,
    b"srvr": _srvr,
    b"stat": _stat,
    b"mntr": _mntr,
}
_UNANSWERED = b"conf crst dirs dump gtmk hash srst stmk wchc wchp wchs".split()
WORDS = frozenset((*_ANSWERS, *_UNANSWERED))
"""All that ZooKeeper 3.8 knows. Read as a length each is longer than any frame."""
