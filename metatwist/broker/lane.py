"""A lane: many connections behind one entry of the reactor.

The reactor spends more on one ready descriptor than a put costs. So the data
connections sit in an epoll set of the lane's own, and the reactor watches only that:
one wake-up serves all that is ready, and what they asked for is done together when the
turn ends: one write per partition, one send per connection. Works under every reactor
that watches descriptors. A system without epoll has no lane: connections are then the
reactor's own, without immediate sends and without sendfile.
"""

from __future__ import annotations

import os
import select
import sys
from time import perf_counter
from typing import Any, Protocol

from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.main import CONNECTION_DONE
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

_MOST_EVENTS = 256
_LONGEST_VISIT_S = 0.002
LOOK_S = 0.00006
_MOST_IN_VAIN = 12
_IN = getattr(select, "EPOLLIN", 1)
_OUT = getattr(select, "EPOLLOUT", 4)
_LOST = getattr(select, "EPOLLERR", 8) | getattr(select, "EPOLLHUP", 16)


class LaneTurn(Protocol):
    """What happens around a round of events; `in_lane` is true during one."""

    in_lane: bool

    def end(self) -> None:
        """Do what was put off."""


class PlainTurn:
    """Nothing is put off."""

    in_lane = False

    def end(self) -> None:
        """Nothing to do."""


@implementer(IReadDescriptor)
class Lane:
    """Watches descriptors as a reactor does, until it is closed.

    `turn.end()` is called once after each round of events; for `look_s` seconds after
    one with a single event it looks for the next. A round has `most_events` at most.
    Transports take the lane as their reactor: `addReader` and its kin are the lane's,
    the rest is the reactor's.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        turn: LaneTurn,
        look_s: float = LOOK_S,
        most_events: int = _MOST_EVENTS,
    ) -> None:
        self._most_events = most_events
        self._reactor = reactor
        self._turn = turn
        self._look_s = look_s
        self._epoll = select.epoll()
        self._descriptors: dict[int, Any] = {}
        self._watched: dict[int, int] = {}
        # On a single core, looking would keep the peer from running.
        alone = len(os.sched_getaffinity(0)) < 2
        self._comes_back = False
        self._in_vain = 0
        self._looks_left_out = sys.maxsize if alone else 0
        reactor.addReader(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def close(self) -> None:
        """Stop watching."""
        self._reactor.removeReader(self)
        self._epoll.close()

    def fileno(self) -> int:
        """The epoll set, itself a descriptor that is readable when something is; -1, as
        for any descriptor that is gone, once it is closed."""
        return -1 if self._epoll.closed else self._epoll.fileno()

    def logPrefix(self) -> str:
        """For the reactor's log."""
        return "lane"

    def connectionLost(self, reason: Failure) -> None:
        """Called by the reactor when it stops."""

    def doRead(self) -> None:
        """Serve all that is ready, then end the turn."""
        self._visit(self._epoll.poll(0, self._most_events))

    def _visit(self, events: list[tuple[int, int]]) -> None:
        # Everybody else waits meanwhile, the commit of offsets for one.
        until_s = perf_counter() + _LONGEST_VISIT_S
        while events:
            self._serve_all(events)
            if len(events) > 1 or self._epoll.closed:
                return
            if perf_counter() > until_s:
                self._come_back()
                return
            events = self._look_again()

    def _come_back(self) -> None:
        """Go on in the next turn, without the sleep of the reactor's poll before it."""
        if not self._comes_back:
            self._comes_back = True
            self._reactor.callLater(0, self._go_on)

    def _go_on(self) -> None:
        self._comes_back = False
        if not self._epoll.closed:
            self._visit(self._look_again())

    def _serve_all(self, events: list[tuple[int, int]]) -> None:
        self._turn.in_lane = True
        try:
            descriptors = self._descriptors
            for fd, kinds in events:
                descriptor = descriptors.get(fd)
                if descriptor is not None:
                    self._serve(descriptor, fd, kinds)
            self._turn.end()
        except (Exception, SystemExit):
            # Passed on, the reactor would drop the lane and all its connections.
            self._log.failure("defect at the end of a turn")
        finally:
            self._turn.in_lane = False

    def _look_again(self) -> list[tuple[int, int]]:
        """A lone peer that waits for each answer sends again within microseconds.

        Going to sleep and being woken costs more than that; so look for a moment. Where
        nothing comes, the next looks are left out, more of them each time.
        """
        if self._looks_left_out:
            self._looks_left_out -= 1
            return []
        poll, until_s = self._epoll.poll, perf_counter() + self._look_s
        while perf_counter() < until_s:
            events = poll(0, self._most_events)
            if events:
                self._in_vain = 0
                return events
        self._in_vain = min(self._in_vain + 1, _MOST_IN_VAIN)
        self._looks_left_out = (1 << self._in_vain) - 1
        return []

    def _serve(self, descriptor: Any, fd: int, events: int) -> None:
        why, reading = None, False
        try:
            if events & _IN or (events & _LOST and not events & _OUT):
                reading = True
                why = descriptor.doRead()
            if events & _OUT and why is None and fd in self._watched:
                reading = False
                why = descriptor.doWrite()
        except (Exception, SystemExit) as error:
            self._log.failure("a connection failed and is closed")
            why, reading = error, False
        if why is not None:
            self._lost(descriptor, why, reading)

    def _lost(self, descriptor: Any, why: BaseException, reading: bool) -> None:
        """As a reactor does it: a peer that only stopped sending may be answered."""
        half_closed = getattr(descriptor, "readConnectionLost", None)
        self.removeReader(descriptor)
        try:
            if why is CONNECTION_DONE and reading and half_closed is not None:
                half_closed(Failure(why))
                return
            self.removeWriter(descriptor)
            descriptor.connectionLost(Failure(why))
        except Exception:
            self._log.failure("defect at the end of a connection")

    def addReader(self, descriptor: Any) -> None:
        """Call `doRead` when there is something to read."""
        self._watch(descriptor, _IN)

    def addWriter(self, descriptor: Any) -> None:
        """Call `doWrite` when there is room to write."""
        self._watch(descriptor, _OUT)

    def removeReader(self, descriptor: Any) -> None:
        """Stop what `addReader` began."""
        self._unwatch(descriptor, _IN)

    def removeWriter(self, descriptor: Any) -> None:
        """Stop what `addWriter` began."""
        self._unwatch(descriptor, _OUT)

    def _watch(self, descriptor: Any, kind: int) -> None:
        fd = descriptor.fileno()
        now = self._watched.get(fd, 0)
        if now & kind:
            return
        if now:
            self._epoll.modify(fd, now | kind)
        else:
            self._epoll.register(fd, kind)
            self._descriptors[fd] = descriptor
        self._watched[fd] = now | kind

    def _unwatch(self, descriptor: Any, kind: int) -> None:
        fd = descriptor.fileno()
        now = self._watched.get(fd, 0)
        if not now & kind or self._descriptors.get(fd) is not descriptor:
            return
        left = now & ~kind
        if left:
            self._epoll.modify(fd, left)
            self._watched[fd] = left
        else:
            del self._watched[fd], self._descriptors[fd]
            self._epoll.unregister(fd)


def has_lanes() -> bool:
    """True where the system has epoll."""
    return hasattr(select, "epoll")
