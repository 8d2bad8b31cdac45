"""What kazoo logs about a server that cannot be used, in words for an operator."""

from __future__ import annotations

import errno
import logging
import os

from attrs import frozen

from metatwist.coordination.ensemble_settings import server_name
from metatwist.coordination.foreign_text import shown

SILENT = "no answer"
MUTE = "accepts connections but does not answer: is that a ZooKeeper?"
SHUT = (
    "closed the connection at once: is that a ZooKeeper, and does it have a quorum and"
    " room for another connection?"
)
GARBLED = "answered what cannot be read: is that a ZooKeeper?"
MOST_CHARACTERS = 200

SESSION_CREATED = "Session created"
_CONNECTING = "Connecting to %s"
_DROPPED = "Connection dropped: "
_TIMED_OUT = "Connection time-out: "
_ERROR = "socket connection error: "
_UNREADABLE = "Exception raised during deserialization"
_ENDS = {
    "socket connection broken",
    *map(os.strerror, (errno.ECONNRESET, errno.EPIPE)),
}
# What follows from these is told by a change of state.
_NOISE = ("Transition to CONNECTING", "Session has expired", "Found a RW server")


@frozen
class Attempt:
    """How far kazoo came with a server, `host:port`: whether that accepted the
    connection, and a session was granted on it. `scheme` is that of our credentials,
    if there are any."""

    server: str
    is_accepted: bool = False
    has_session: bool = False
    scheme: str | None = None

    @property
    def silence(self) -> str:
        """What it means that nothing comes back."""
        return MUTE if self.is_accepted and not self.has_session else SILENT


@frozen
class Trouble:
    """What is wrong, with that server (empty: with none or all)."""

    server: str
    text: str


def attempted(record: logging.LogRecord) -> str | None:
    """The server that kazoo says to connect to now; None for any other record."""
    if not str(record.msg).startswith(_CONNECTING) or len(record.args or ()) < 3:
        return None
    assert isinstance(record.args, tuple)
    host, _, port = record.args[:3]
    assert isinstance(port, int)
    return server_name(str(host), port)


def granted_s(record: logging.LogRecord) -> float | None:
    """The session timeout that a server has granted; None for any other record."""
    if not str(record.msg).startswith(SESSION_CREATED) or len(record.args or ()) < 3:
        return None
    assert isinstance(record.args, tuple)
    granted_ms = record.args[2]
    return granted_ms / 1000 if isinstance(granted_ms, int) else None


def trouble_of(record: logging.LogRecord, attempt: Attempt) -> Trouble | None:
    """What a warning or an error of kazoo's tells; None where that is nothing new."""
    text = record.getMessage()
    if record.levelno < logging.WARNING or text.startswith(_NOISE):
        return None
    if text.startswith("Cannot resolve") and isinstance(record.args, tuple):
        host, reason = record.args
        return Trouble(str(host), shown(f"cannot be resolved: {reason}"))
    if record.exc_info and record.exc_info[1] is not None:
        text = f"{text}: {record.exc_info[1]!r}"
    return Trouble(attempt.server, shown(_words(text, attempt), MOST_CHARACTERS))


def _words(text: str, attempt: Attempt) -> str:
    if text.startswith("AUTH_FAILED") and attempt.scheme is not None:
        return f"refused the credentials of scheme {attempt.scheme}"
    if text.startswith(_TIMED_OUT):
        return attempt.silence
    if text.startswith(_UNREADABLE) and not attempt.has_session:
        return GARBLED
    if not text.startswith(_DROPPED):
        return text
    reason = text.removeprefix(_DROPPED).removeprefix(_ERROR)
    if reason == "None":  # a time-out of the system's
        return attempt.silence
    if reason in _ENDS:
        return "closed the connection" if attempt.has_session else SHUT
    return {
        "invalid server response": GARBLED,
        "outstanding heartbeat ping not received": f"{SILENT} to a heartbeat",
    }.get(reason, reason)
