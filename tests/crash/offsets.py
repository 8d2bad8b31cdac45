"""Sessions that write offsets and more, many requests in flight, and take notes.

They speak ZooKeeper's protocol with frames of their own and share no code with the
coordinator.
"""

from __future__ import annotations

import contextlib
import copy
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence

from attrs import Factory, define

from tests.interop.zookeeper_script.raw_client import (
    Closed,
    ConnectRequest,
    RawClient,
    Session,
)
from tests.interop.zookeeper_script.records import Reply

from .group_model import GroupModel, Request, Result
from .group_traffic import GroupTraffic

_DEPTHS = (1, 4, 16, 64)


@define
class Notes:
    """What one session did: all requests in the order sent, and the zxids of the
    answers, which came in the same order."""

    root: str
    requests: list[Request] = Factory(list)
    zxids: list[int] = Factory(list)
    session: Session | None = None

    @property
    def answered(self) -> int:
        """How many requests were answered."""
        return len(self.zxids)


class Consumer:
    """One session of a group, which nobody else writes to meanwhile."""

    def __init__(self, port: int, group: GroupModel, source: random.Random) -> None:
        self.notes = Notes(group.root)
        self.after_answer: Callable[[], object] = lambda: None
        self._depth = source.choice(_DEPTHS)
        self._traffic = GroupTraffic(copy.deepcopy(group), source)
        self._awaited: deque[list[Result] | None] = deque()
        self._client = RawClient(("127.0.0.1", port))
        self._highest_zxid = 0

    def connect(self) -> None:
        """Open the session; raises Closed."""
        session = self._client.connect(ConnectRequest())
        if not session.timeout_ms:
            raise ValueError("a new session was refused")
        self.notes.session = session

    def send_burst(self) -> None:
        """Fill up what may be in flight."""
        while len(self._awaited) < self._depth:
            request = self._traffic.next()
            self._awaited.append(self._traffic.model.apply(request))
            self.notes.requests.append(request)
            self._client.send(*request.packed())

    def take_replies(self, at_most_open: int | None = None) -> None:
        """Take answers until half or `at_most_open` requests are in flight.

        Raises Closed, or ValueError for a wrong answer.
        """
        most = self._depth // 2 if at_most_open is None else at_most_open
        while len(self._awaited) > most:
            reply = self._client.receive()
            self.after_answer()
            self._take(reply)
        self._client.take_arrived()

    def _take(self, reply: Reply) -> None:
        number = self.notes.answered
        request, expected = self.notes.requests[number], self._awaited.popleft()
        if reply.xid != number + 1:
            raise ValueError(f"reply {reply.xid} to request {number + 1}")
        results = request.results(reply)
        if results != expected:
            raise ValueError(f"{request} answered {results}, not {expected}")
        rises = reply.zxid > self._highest_zxid
        if not (rises or (request.refused and reply.zxid == self._highest_zxid)):
            raise ValueError(
                f"zxid {reply.zxid:#x} after {self._highest_zxid:#x}: {request}"
            )
        self._highest_zxid = reply.zxid
        self.notes.zxids.append(reply.zxid)

    def drain(self) -> None:
        """Take what has arrived before the end of the connection."""
        with contextlib.suppress(Closed):
            self.take_replies(0)

    def drop(self) -> None:
        """Leave the session without a word."""
        self._client.drop()


class OffsetWriter(threading.Thread):
    """A few sessions in turn, until the coordinator goes away or it is told to stop.

    Attributes, to be read after `join`:
        notes: one for each session.
        error: what the coordinator did that it must not do.

    `strike` may be set at any time; it is called at once when the next answer comes.
    """

    def __init__(
        self, port: int, groups: Sequence[GroupModel], source: random.Random
    ) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._groups = groups
        self._random = source
        self._consumers: list[Consumer] = []
        self._told_to_stop = False
        self.error: str | None = None
        self.strike: Callable[[], object] | None = None

    @property
    def notes(self) -> list[Notes]:
        """What became of all that was sent."""
        return [consumer.notes for consumer in self._consumers]

    def finish(self) -> None:
        """Send no more; take the answers that are due."""
        self._told_to_stop = True

    def run(self) -> None:
        """The thread's work."""
        try:
            with contextlib.suppress(Closed, ConnectionError):
                self._write()
            for consumer in self._consumers:
                consumer.drain()
        except (OSError, ValueError, KeyError) as error:
            self.error = f"{type(error).__name__}: {error}"
        finally:
            for consumer in self._consumers:
                consumer.drop()

    def _write(self) -> None:
        for group in self._groups:
            consumer = Consumer(self._port, group, self._random)
            consumer.after_answer = self._answered
            self._consumers.append(consumer)
            consumer.connect()
        while not self._told_to_stop:
            for consumer in self._consumers:
                consumer.send_burst()
            for consumer in self._consumers:
                consumer.take_replies()

    def _answered(self) -> None:
        strike, self.strike = self.strike, None
        if strike is not None:
            strike()
