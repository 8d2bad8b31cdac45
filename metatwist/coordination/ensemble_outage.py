"""Why there is no connection now, for the log and for a status page."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

FIRST_INTERVAL_S = 10.0
LONGEST_INTERVAL_S = 600.0


def session_name(session_id: int) -> str:
    """As ZooKeeper's own log and commands write it."""
    return f"{session_id & (2**64 - 1):#x}"


class Outage:
    """The time without a usable connection.

    The first trouble is logged at once, further ones at growing intervals.

    Attributes:
        target: what is to be reached, for the log.
        since_s: when it began, by the reactor's clock; None while all is well.
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime, target: str) -> None:
        self.target = target
        self.since_s: float | None = None
        self._clock = clock
        self._reason = ""
        self._troubles: dict[str, str] = {}
        self._interval_s = FIRST_INTERVAL_S
        self._next_log_s = 0.0

    @property
    def problem(self) -> str | None:
        """What is wrong, with each server that was tried; None while all is well."""
        if self.since_s is None:
            return None
        found = [
            f"{server}: {text}" if server else text
            for server, text in self._troubles.items()
        ]
        return ": ".join([self._reason, "; ".join(found)] if found else [self._reason])

    def begin(self, reason: str, is_news: bool = True) -> None:
        """There is no usable connection, or another reason why not."""
        self._reason = reason
        if self.since_s is None:
            self.since_s = self._clock.seconds()
            self._interval_s = FIRST_INTERVAL_S
            self._next_log_s = self.since_s
        if is_news:
            self._complain()

    def trouble(self, server: str, text: str) -> None:
        """That server cannot be used, for that reason."""
        # The latest comes last.
        self._troubles.pop(server, None)
        self._troubles[server] = text
        is_due = self.since_s is not None and self._clock.seconds() >= self._next_log_s
        if is_due:
            self._complain()

    def over(self, server: str, session_id: int, is_read_only: bool = False) -> None:
        """There is a connection again."""
        self._troubles.clear()
        began_s = self.since_s
        self.since_s = None
        self._log.info(
            "connected to ZooKeeper {server}, session {session}, after {seconds:.1f} s",
            server=server,
            session=session_name(session_id),
            seconds=0.0 if began_s is None else self._clock.seconds() - began_s,
        )
        if is_read_only:
            self.begin(f"{server} is read-only: it does not see a majority of servers")

    def end(self) -> None:
        """Nobody wants a connection any more."""
        self._troubles.clear()
        self.since_s = None

    def _complain(self) -> None:
        self._next_log_s = self._clock.seconds() + self._interval_s
        self._interval_s = min(self._interval_s * 2, LONGEST_INTERVAL_S)
        self._log.warn(
            "no full connection to ZooKeeper {target}, trying on: {problem}",
            target=self.target,
            problem=self.problem,
        )
