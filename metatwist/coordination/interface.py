"""What a coordinator is: nodes, ephemerals, watches, session events.

The verbs are those of txzookeeper, each answering a Deferred on the reactor's thread.
Paths are absolute; a chroot is the coordinator's affair. All failures are
`metatwist.coordination.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum

from attrs import frozen
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface


@frozen
class NodeStat:
    """ZooKeeper's stat of a znode; times in ms since 1970, sizes in bytes.

    `ephemeral_owner` is a session id, 0 for a persistent znode.
    """

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class EventKind(IntEnum):
    """What happened to a watched znode, by ZooKeeper's numbers."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN = 4


@frozen
class NodeEvent:
    """One firing of a watch."""

    kind: EventKind
    path: str


class SessionState(Enum):
    """How the coordinator's session does.

    CONNECTING: none yet, or the last one expired; SUSPENDED: the session may live, but
    its connection is broken; READ_ONLY: only reads are answered; CLOSED: stopped.
    """

    CONNECTING = "connecting"
    CONNECTED = "connected"
    READ_ONLY = "read-only"
    SUSPENDED = "suspended"
    CLOSED = "closed"


@frozen
class Create:
    """Create a znode; operation of a transaction."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequence: bool = False


@frozen
class Delete:
    """Delete a znode of that version, -1 for any; operation of a transaction."""

    path: str
    version: int = -1


@frozen
class SetData:
    """Replace the data of a znode of that version; operation of a transaction."""

    path: str
    data: bytes | None
    version: int = -1


@frozen
class Check:
    """Demand that a znode has that version, -1 for any; operation of a transaction."""

    path: str
    version: int = -1


Operation = Create | Delete | SetData | Check
Data = tuple[bytes, NodeStat]
"""What `get` answers; no data reads as b""."""

WatchedData = tuple[bytes, NodeStat, Deferred[NodeEvent]]
WatchedStat = tuple[NodeStat | None, Deferred[NodeEvent]]
WatchedChildren = tuple[list[str], Deferred[NodeEvent]]
StateListener = Callable[[SessionState], object]


class ICoordinator(Interface):
    """A session with a znode tree; a Twisted service as well.

    It connects in the background once started and for as long as it takes, and opens a
    new session by itself when one expires. A request without a connection fails with
    `ConnectionLost`. A watch is a Deferred that comes with the answer of the call that
    set it: it fires once, with a NodeEvent, or fails with `SessionExpired` when the
    session ends first; cancelling it forgets it.
    """

    state = Attribute("SessionState")
    session_id = Attribute("int: the session's id, 0 while there is none")
    session_timeout_s = Attribute(
        "float | None: of the present or last session, as granted; None while that is"
        " not known, and where sessions do not expire"
    )
    description = Attribute("str: what it is connected to, for people")

    def on_state(call: StateListener) -> Callable[[], None]:
        """Call with each new state; returns how to stop that.

        CONNECTED with another `session_id` than before means that all ephemeral nodes
        and watches of the old one are gone.
        """

    def create(
        path: str,
        data: bytes | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> Deferred[str]:
        """Create a znode; fires with its path, which `sequence` gives ten digits more.

        `make_parents` makes missing parents, persistent and without data. Fails with
        NodeExists, NoNode, NoChildrenForEphemerals.
        """

    def delete(path: str, version: int = -1) -> Deferred[None]:
        """Delete; fails with NoNode, BadVersion, NotEmpty."""

    def exists(path: str) -> Deferred[NodeStat | None]:
        """The znode's stat, None where there is none."""

    def get(path: str) -> Deferred[Data]:
        """Data and stat; fails with NoNode."""

    def set(path: str, data: bytes | None, version: int = -1) -> Deferred[NodeStat]:
        """Replace the data; fails with NoNode, BadVersion."""

    def get_children(path: str) -> Deferred[list[str]]:
        """Names of the children, sorted; fails with NoNode."""

    def exists_and_watch(path: str) -> Deferred[WatchedStat]:
        """`exists`, and a watch for creation, change or deletion."""

    def get_and_watch(path: str) -> Deferred[WatchedData]:
        """`get`, and a watch for change or deletion; no watch is left by a failure."""

    def get_children_and_watch(path: str) -> Deferred[WatchedChildren]:
        """`get_children`, and a watch for children coming or going, or deletion."""

    def transaction(operations: Sequence[Operation]) -> Deferred[list[object]]:
        """All or nothing; fires with a path for each Create, a NodeStat for each
        SetData and None for the others. Fails with TransactionFailed."""

    def sync(path: str) -> Deferred[None]:
        """Wait until the server has seen all that came before."""
