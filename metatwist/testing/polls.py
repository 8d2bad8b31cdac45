"""The polls that wait at a fake broker (spec: docs/protocol.md).

A poll is a get that waits while it would find nothing yet: until something happens to
its partition, its time is over, or its connection ends.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from attrs import frozen
from twisted.internet.interfaces import IDelayedCall

from metatwist.testing.store import FakeStore
from metatwist.testing.turns import Turns
from metatwist.wire.commands import GetCommand, PollCommand

MOST_WAIT_MS = 30_000


class IPeer(Protocol):
    """Whose poll it is."""

    def ask(self, command: GetCommand) -> None:
        """Answer a get, when it can be answered."""


@frozen(eq=False)
class _Poll:
    command: PollCommand
    peer: IPeer
    timeout: IDelayedCall


class WaitingPolls:
    """All polls that wait; `clock` has the `callLater` of a reactor."""

    def __init__(self, clock: Any, turns: Turns, store: FakeStore) -> None:
        self._clock = clock
        self._turns = turns
        self._store = store
        self._waiting: dict[int, _Poll] = {}
        self._taken = 0
        self._look_is_due = False
        store.changed = self.changed

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, command: PollCommand, peer: IPeer) -> None:
        """Have it answered once by `peer.ask`, maybe at once."""
        wait_ms = min(command.wait_ms, MOST_WAIT_MS)
        if wait_ms <= 0 or not self._must_wait(command):
            peer.ask(command.get)
            return
        self._taken += 1
        over = partial(self._answer, self._taken)
        timeout = self._clock.callLater(wait_ms / 1000, over)
        self._waiting[self._taken] = _Poll(command, peer, timeout)

    def _must_wait(self, command: PollCommand) -> bool:
        store, key = self._store, (command.topic, command.partition)
        if command.max_size <= 0 or key in store.closed:
            return False
        found = store.partitions.get(key)
        if found is None:
            return 0 <= command.partition < store.topics.get(command.topic, 0)
        return command.offset == found.end

    def changed(self) -> None:
        """Something has happened to partitions: look soon who need not wait."""
        if self._waiting and not self._look_is_due:
            self._look_is_due = True
            self._turns.later(self._look)

    def _look(self) -> None:
        self._look_is_due = False
        for number, poll in list(self._waiting.items()):
            if not self._must_wait(poll.command):
                self._answer(number)

    def _answer(self, number: int) -> None:
        poll = self._forget(number)
        if poll is not None:
            poll.peer.ask(poll.command.get)

    def _forget(self, number: int) -> _Poll | None:
        poll = self._waiting.pop(number, None)
        if poll is not None and poll.timeout.active():
            poll.timeout.cancel()
        return poll

    def finish(self, peer: IPeer) -> None:
        """Its connection is to end: answer all its polls now."""
        for number in self._of(peer):
            self._answer(number)

    def forget(self, peer: IPeer) -> None:
        """Its connection is lost."""
        for number in self._of(peer):
            self._forget(number)

    def _of(self, peer: IPeer) -> list[int]:
        return [number for number, poll in self._waiting.items() if poll.peer is peer]
