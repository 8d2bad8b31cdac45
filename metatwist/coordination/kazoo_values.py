"""Between kazoo's values and ours: errors, stats, events, ACLs, transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType
from kazoo.security import ACL as Acl
from kazoo.security import (
    ANYONE_ID_UNSAFE,
    AUTH_IDS,
    OPEN_ACL_UNSAFE,
    Permissions,
)

from metatwist.coordination.embedded.paths import check_path
from metatwist.coordination.errors import (
    ConnectionLost,
    CoordinationError,
    RolledBack,
    TransactionFailed,
    error_for,
)
from metatwist.coordination.interface import (
    Check,
    Create,
    Delete,
    EventKind,
    NodeEvent,
    NodeStat,
    Operation,
    SetData,
)

_KINDS = {
    EventType.CREATED: EventKind.CREATED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.CHILD: EventKind.CHILDREN,
}
_INNOCENT = (RolledBackError, RuntimeInconsistency)


def is_interruption(error: BaseException) -> bool:
    """Whether kazoo gave up a request because of its connection, of which it tells by
    a change of state as well."""
    ends = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, AuthFailedError)
    return isinstance(error, ends)


def error_from(error: BaseException, subject: str) -> CoordinationError:
    """Our error for one of kazoo's, by its code."""
    if isinstance(error, _INNOCENT):
        return RolledBack(subject)
    if isinstance(error, ConnectionClosedError):
        return ConnectionLost(subject)
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return error_for(code, subject)
    return CoordinationError(f"{subject}: {error!r}")


def stat_from(stat: Any) -> NodeStat:
    """kazoo keeps the fields in the order of the wire, as we do."""
    return NodeStat(*stat)


def event_from(event: Any) -> NodeEvent | None:
    """What happened to a znode, None if it was the connection."""
    kind = _KINDS.get(event.type)
    return None if kind is None else NodeEvent(kind, event.path)


def acl_for(policy: str, node: Create) -> list[Acl]:
    """Who may do what with a znode that is about to be created.

    `open`: everybody everything, as Java writes it (spec layout 2). `creator`:
    everything for the credentials that create it; the world, since no client of the
    old ones has credentials, gets what it needs and no more (spec layout 3, 5):

    * ephemeral: read. Nobody else's business.
    * persistent without data, a directory: read, and create children, for producers,
      consumers and slaves register below directories that a broker made. Not delete:
      whoever may delete children of a topic's directory can hide a broker. So Java
      brokers cannot take back what they registered there before their session ends,
      and brokers of one tree need the same credentials.
    * persistent with data, in this layout an offset record: read and write, or a
      consumer could not commit where an operator has moved its offset.
    """
    if policy == "open":
        everybody: list[Acl] = OPEN_ACL_UNSAFE
        return everybody
    world = Permissions.READ
    if not node.ephemeral:
        world |= Permissions.CREATE if node.data is None else Permissions.WRITE
    return [Acl(Permissions.ALL, AUTH_IDS), Acl(world, ANYONE_ID_UNSAFE)]


def check_operation(operation: Operation) -> None:
    """Look at its path: kazoo would mend some wrong ones, and tell of their events
    under another name. A sequence may consist of numbers alone.

    Raises:
        BadArguments: no znode can have that path.
    """
    is_sequence = isinstance(operation, Create) and operation.sequence
    check_path(f"{operation.path}0" if is_sequence else operation.path)


def fill_transaction(
    transaction: Any, operations: Sequence[Operation], policy: str
) -> None:
    """Add the operations to kazoo's transaction."""
    for one in operations:
        check_operation(one)
        if isinstance(one, Create):
            acl = acl_for(policy, one)
            transaction.create(
                one.path, one.data or b"", acl, one.ephemeral, one.sequence
            )
        elif isinstance(one, SetData):
            transaction.set_data(one.path, one.data or b"", one.version)
        elif isinstance(one, Delete):
            transaction.delete(one.path, one.version)
        else:
            transaction.check(one.path, one.version)
        if isinstance(one, (Create, SetData)) and one.data is None:
            # kazoo's builder takes bytes only; the wire knows null.
            added = transaction.operations[-1]
            transaction.operations[-1] = added._replace(data=None)


def results_from(operations: Sequence[Operation], answers: list[Any]) -> list[object]:
    """What `ICoordinator.transaction` answers.

    Raises:
        TransactionFailed: one of the answers is an error.
    """
    errors = [isinstance(answer, Exception) for answer in answers]
    if any(errors):
        guilty = [
            index
            for index, answer in enumerate(answers)
            if errors[index] and not isinstance(answer, _INNOCENT)
        ]
        index = guilty[0] if guilty else errors.index(True)
        raise TransactionFailed(
            index, error_from(answers[index], operations[index].path)
        )
    return [
        _result(one, answer) for one, answer in zip(operations, answers, strict=True)
    ]


def _result(operation: Operation, answer: Any) -> object:
    if isinstance(operation, Create):
        return answer
    if isinstance(operation, SetData):
        return stat_from(answer)
    assert isinstance(operation, (Delete, Check))
    return None
