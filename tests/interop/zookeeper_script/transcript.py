"""Steps and their answers, and the notes that make answers comparable."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable

from attrs import frozen
from kazoo.exceptions import KazooException
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat
from kazoo.security import ACL

LONGEST_SHOWN_BYTES = 60
FAR_MS = 60_000


@frozen
class Step:
    """What was asked, as `scene: words`, and what came back."""

    name: str
    answer: str

    def __str__(self) -> str:
        return f"{self.name} -> {self.answer}"


class Ledger:
    """Names for what differs from run to run: zxids and session ids.

    A zxid is named when it is first met, `z1`, `z2` and so on; one that is smaller
    than another met before is named with its place, `z5<z2`. So equal names on two
    servers mean the same order.

    Attributes:
        tells_times: whether the scene lets time pass before each change, so that its
            mtime is above its ctime.
    """

    def __init__(self) -> None:
        self.tells_times = False
        self._zxids: dict[int, str] = {}
        self._sessions: dict[int, str] = {0: "none"}

    def zxid(self, value: int) -> str:
        """The name of a zxid; 0 and -1 stand for themselves."""
        if value in (0, -1):
            return str(value)
        if value not in self._zxids:
            name = f"z{len(self._zxids) + 1}"
            above = [known for known in self._zxids if known > value]
            if above:
                name += f"<{self._zxids[min(above)].partition('<')[0]}"
            self._zxids[value] = name
        return self._zxids[value]

    def name_session(self, session_id: int, name: str) -> None:
        """Have `session` answer `name` for it."""
        self._sessions[session_id] = name

    def session(self, session_id: int) -> str:
        """The name of a session; `none` is 0."""
        return self._sessions.get(session_id, "unknown")

    def stat(self, stat: ZnodeStat) -> str:
        """All fields of a stat, comparable."""
        zxids = " ".join(
            f"{name}={self.zxid(getattr(stat, name))}"
            for name in ("czxid", "mzxid", "pzxid")
        )
        return (
            f"[{zxids} v={stat.version} cv={stat.cversion} av={stat.aversion}"
            f" len={stat.dataLength} kids={stat.numChildren}"
            f" owner={self.session(stat.ephemeralOwner)} {self._times(stat)}]"
        )

    def _times(self, stat: ZnodeStat) -> str:
        if abs(stat.mtime - time.time() * 1000) > FAR_MS or stat.mtime < stat.ctime:
            return f"ctime={stat.ctime} mtime={stat.mtime}"
        if stat.version and not self.tells_times:
            return "mtime>=ctime"
        return "mtime=ctime" if stat.mtime == stat.ctime else "mtime>ctime"

    def show(self, value: object) -> str:
        """Any answer of kazoo's, comparable; lists of names come sorted."""
        if isinstance(value, ZnodeStat):
            return self.stat(value)
        if isinstance(value, KazooException):
            return f"{type(value).__name__}({getattr(value, 'code', '')})"
        if isinstance(value, ACL):
            return f"{value.perms}:{value.id.scheme}:{value.id.id}"
        if isinstance(value, WatchedEvent):
            return show_event(value)
        if isinstance(value, bytes):
            return show_bytes(value)
        if isinstance(value, tuple):
            return f"({', '.join(self.show(one) for one in value)})"
        if isinstance(value, list):
            named = all(isinstance(one, str) for one in value)
            parts: Iterable[object] = sorted(value) if named else value
            return f"[{', '.join(self.show(one) for one in parts)}]"
        return ascii(value)


def show_bytes(value: bytes) -> str:
    """Short bytes themselves, long ones by size and digest."""
    if len(value) <= LONGEST_SHOWN_BYTES:
        return repr(value)
    return f"<{len(value)} bytes {hashlib.sha1(value).hexdigest()[:8]}>"


def show_event(event: WatchedEvent) -> str:
    """An event as kazoo hands it to a watch function."""
    if event.type == EventType.NONE:
        return f"NONE {event.state}"
    return f"{event.type} {event.path}"
