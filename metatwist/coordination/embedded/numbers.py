"""How much an embedded coordinator has to do: for `mntr` and for the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from metatwist.coordination.embedded.connection import TreeServer


@frozen
class TreeNumbers:
    """Counts of now; of the last three since the start.

    `sessions` include the broker's own, `znodes` those that are always there, and
    `connections_waiting` have replies that wait for the disk.
    """

    sessions: int
    connections: int
    connections_waiting: int
    watches: int
    znodes: int
    ephemerals: int
    sessions_expired: int
    packets_received: int
    packets_sent: int

    @classmethod
    def of(cls, server: TreeServer) -> TreeNumbers:
        """Those of a server and what it serves."""
        tree, sessions = server.realm.tree, server.realm.sessions
        return cls(
            sessions=len(sessions),
            connections=len(server.connections),
            connections_waiting=len(server.waiting),
            watches=tree.watches.count,
            znodes=len(tree.nodes),
            ephemerals=sum(len(one.ephemerals) for one in sessions),
            sessions_expired=sessions.expired_total,
            packets_received=server.received,
            packets_sent=server.sent,
        )
