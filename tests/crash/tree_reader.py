"""Reading a whole tree of znodes, and asking for sessions, over one connection each."""

from __future__ import annotations

from collections.abc import Sequence

from tests.interop.zookeeper_script import records
from tests.interop.zookeeper_script.raw_client import (
    Closed,
    ConnectRequest,
    RawClient,
    Session,
)
from tests.interop.zookeeper_script.records import Reply

from .group_model import Found
from .ledger import Breach

_IN_FLIGHT = 200


class TreeReader(RawClient):
    """A session that reads; use it in a `with` block."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port))
        if not self.connect().timeout_ms:
            raise Breach("a new session was refused")

    def found(self, path: str) -> Found | None:
        """One znode, None where there is none."""
        return self._all_of([path])[0]

    def tree(self, path: str) -> dict[str, Found]:
        """A znode and all below it."""
        found: dict[str, Found] = {}
        level = [path]
        while level:
            for one, node in zip(level, self._all_of(level), strict=True):
                if node is None:
                    raise Breach(f"{one} is listed, and is not there")
                found[one] = node
            level = self._children_of(
                [one for one in level if found[one].stat.numChildren]
            )
        return found

    def _all_of(self, paths: Sequence[str]) -> list[Found | None]:
        replies = self._ask_all(records.GET, paths)
        return [_found(reply) for reply in replies]

    def _children_of(self, paths: Sequence[str]) -> list[str]:
        replies = self._ask_all(records.CHILDREN, paths)
        return [
            f"{path.rstrip('/')}/{name}"
            for path, reply in zip(paths, replies, strict=True)
            if not reply.error
            for name in reply.fields.names()
        ]

    def _ask_all(self, code: int, paths: Sequence[str]) -> list[Reply]:
        found: list[Reply] = []
        for start in range(0, len(paths), _IN_FLIGHT):
            some = paths[start : start + _IN_FLIGHT]
            xids = [self.send(code, records.read(path)) for path in some]
            found += [self.reply_to(xid) for xid in xids]
        self.take_arrived()
        return found


def _found(reply: Reply) -> Found | None:
    if reply.error:
        return None
    fields = reply.fields
    return Found(fields.buffer(), fields.stat())


def check_refused(port: int, session: Session) -> None:
    """Raise Breach unless a session of an earlier life is refused as over: timeout 0,
    id 0, zeros for a password, and the end (spec layout 7.3, 7)."""
    with RawClient(("127.0.0.1", port)) as client:
        request = ConnectRequest(session_id=session.id, password=session.password)
        try:
            granted = client.connect(request)
        except Closed:
            raise Breach("an old session was turned away without an answer") from None
        if (granted.timeout_ms, granted.id, granted.password) != (0, 0, bytes(16)):
            raise Breach(f"an old session {session} was answered {granted}")
        if client.end() != "closed":
            raise Breach("an old session was refused, and not closed")
