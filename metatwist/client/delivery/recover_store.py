"""Rejected messages on the local disk, to be delivered again later (spec client 13)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer

from metatwist.client.delivery.recover_file import RecoverFile, StoredMessage
from metatwist.client.delivery.rejection import IRejection
from metatwist.client.errors import ClientError
from metatwist.client.message import ReceivedMessage
from metatwist.client.one_thread import OneThread

MOST_MESSAGES = 100_000
FILE_NAME = "recover.sqlite3"


@implementer(IRejection)
class RecoverStore:
    """The policy that keeps messages in the SQLite file at `path`, of all groups of
    this process; `Recovery` delivers them again. One process has it at a time.

    With `most_messages` in it, or without a working disk, it refuses with
    LocalStoreFailed, and the partition waits. The file is opened by the first call.
    All Deferreds fail with LocalStoreFailed; cancelling stops the wait alone. After
    `close` they fail with ClientStopped.

    A message that was taken (`take`) is taken by nobody else until `delete`, `failed`
    or `give_back` has answered for it: the consumers of a client share its store.

    `may_hold`: something was left there, or rejected since; else no file is opened, and
    none made, only to find it empty.
    """

    def __init__(
        self,
        reactor: Any,
        path: str | Path,
        most_messages: int = MOST_MESSAGES,
        seconds: Callable[[], float] = time.time,
    ) -> None:
        self._file = RecoverFile(Path(path), most_messages)
        self._thread = OneThread(reactor, f"recover store {path}")
        self._seconds = seconds
        self._taken: set[int] = set()
        self.may_hold = self._file.is_there

    @classmethod
    def in_directory(cls, reactor: Any, directory: str | Path) -> RecoverStore:
        """The store of a directory, which is made when it is needed.

        Several processes may have the same directory: each takes the first of its files
        that no other has open, and what a process that is gone has left comes again to
        the next one that takes its file.
        """
        store = cls(reactor, Path(directory) / FILE_NAME)
        store._file = RecoverFile(store.path, MOST_MESSAGES, spare=True)
        store.may_hold = store._file.is_there
        return store

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def reject(
        self, message: ReceivedMessage, error: ClientError, group: str, consumer: Any
    ) -> Deferred[str]:
        """See IRejection; fires once it is on disk."""
        self.may_hold = True
        stored_s = self._seconds()
        stored = self._thread.run(self._file.add, message, group, stored_s, str(error))
        return stored.addCallback(lambda _: f"stored in {self.path}")

    def after(
        self, topic: str, group: str, sequence: int, most: int
    ) -> Deferred[list[StoredMessage]]:
        """At most `most` messages of a topic and group behind `sequence` (0: all), in
        the order of insertion."""
        return self._thread.run(self._file.after, topic, group, sequence, most)

    def take(
        self, topic: str, group: str, sequence: int, most: int
    ) -> Deferred[list[StoredMessage]]:
        """As `after`, without those that are taken, and takes them; empty when there
        are no more."""
        return Deferred.fromCoroutine(self._take(topic, group, sequence, most))

    async def _take(
        self, topic: str, group: str, sequence: int, most: int
    ) -> list[StoredMessage]:
        # Calls are answered in their order: what is read here and not in `_taken` is
        # not deleted either.
        while True:
            found = await self.after(topic, group, sequence, most)
            free = [one for one in found if one.sequence not in self._taken]
            if free or len(found) < most:
                self._taken.update(one.sequence for one in free)
                return free
            sequence = found[-1].sequence

    def give_back(self, stored: Iterable[StoredMessage]) -> None:
        """These were taken and not delivered."""
        self._taken.difference_update(one.sequence for one in stored)

    def delete(self, sequence: int) -> Deferred[None]:
        """A message is done with."""
        return self._answered(sequence, self._file.delete, sequence)

    def failed(self, sequence: int, error: str) -> Deferred[None]:
        """Count a failed recovery."""
        return self._answered(sequence, self._file.failed, sequence, error)

    def _answered(
        self, sequence: int, call: Callable[..., object], *arguments: object
    ) -> Deferred[None]:
        """Taken until it is known whether the file has it."""

        def free(result: Any) -> Any:
            self._taken.discard(sequence)
            return result

        return self._thread.run(call, *arguments).addBoth(free)

    def expire(self, older_than_s: float) -> Deferred[int]:
        """Delete what has been stored for longer, of all topics, also those nobody
        subscribes any more; fires with how many messages."""
        return self._thread.run(self._file.expire, self._seconds() - older_than_s)

    def count(self) -> Deferred[int]:
        """How many messages wait."""
        return self._thread.run(self._file.count)

    def close(self) -> Deferred[None]:
        """Finish what was begun, close the file. Idempotent; never fails."""
        return self._thread.stop(self._file.close)
