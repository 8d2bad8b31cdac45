"""What can go wrong with a znode or a session, one class a ZooKeeper error code.

Callers branch on type. `error_for(code, path)` is the way from the wire.
"""

from __future__ import annotations

from metatwist.errors import MetatwistError


class CoordinationError(MetatwistError):
    """A request to the coordinator failed; `code` is ZooKeeper's number.

    `retriable` is true where the same request may succeed later, and where it is not
    known whether it was carried out.
    """

    code = -1
    retriable = False
    says = "the coordinator failed"

    def __init__(self, subject: str = "") -> None:
        super().__init__(f"{self.says}: {subject}" if subject else self.says)
        self.subject = subject


class RolledBack(CoordinationError):
    """Another operation of the same transaction failed."""

    code = -2
    says = "rolled back with its transaction"


class ConnectionLost(CoordinationError):
    """The connection broke or never was; a write may have been carried out."""

    code = -4
    retriable = True
    says = "no connection to the coordinator"


class Marshalling(CoordinationError):
    """A request could not be read."""

    code = -5
    says = "malformed request"


class Unimplemented(CoordinationError):
    """The server does not know this operation."""

    code = -6
    says = "operation not implemented"


class OperationTimeout(CoordinationError):
    """No answer in time; a write may have been carried out."""

    code = -7
    retriable = True
    says = "no answer from the coordinator in time"


class BadArguments(CoordinationError):
    """A path or an argument breaks the rules."""

    code = -8
    says = "bad arguments"


class NoNode(CoordinationError):
    """There is no such znode, or its parent is missing."""

    code = -101
    says = "no such node"


class NotAuthorized(CoordinationError):
    """The ACL does not allow it."""

    code = -102
    says = "not authorized"


class BadVersion(CoordinationError):
    """The znode has another version than was asked for."""

    code = -103
    says = "version conflict"


class NoChildrenForEphemerals(CoordinationError):
    """Ephemeral znodes have no children."""

    code = -108
    says = "ephemeral nodes have no children"


class NodeExists(CoordinationError):
    """The znode is there already."""

    code = -110
    says = "node exists"


class NotEmpty(CoordinationError):
    """The znode has children."""

    code = -111
    says = "node has children"


class SessionExpired(CoordinationError):
    """The session is over, and its ephemeral znodes with it."""

    code = -112
    says = "session expired"


class InvalidAcl(CoordinationError):
    """The ACL is empty or names an unknown scheme."""

    code = -114
    says = "invalid ACL"


class AuthenticationFailed(CoordinationError):
    """The credentials were refused."""

    code = -115
    says = "authentication failed"


class SessionMoved(CoordinationError):
    """The session goes on over another connection."""

    code = -118
    says = "session moved to another connection"


class ReadOnly(CoordinationError):
    """The server has lost its quorum and answers reads only."""

    code = -119
    retriable = True
    says = "the coordinator is read-only"


class TransactionFailed(CoordinationError):
    """Operation `index` of a transaction failed with `cause`; none took effect."""

    says = "transaction failed"

    def __init__(self, index: int, cause: CoordinationError) -> None:
        super().__init__(f"operation {index}: {cause}")
        self.index = index
        self.cause = cause
        self.code = cause.code
        self.retriable = cause.retriable


_BY_CODE = {
    kind.code: kind
    for kind in CoordinationError.__subclasses__()
    if kind is not TransactionFailed
}


def error_for(code: int, subject: str = "") -> CoordinationError:
    """The error of a code, a plain `CoordinationError` for an unknown one."""
    kind = _BY_CODE.get(code)
    if kind is not None:
        return kind(subject)
    error = CoordinationError(f"code {code} {subject}".rstrip())
    error.code = code
    return error
