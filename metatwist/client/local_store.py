"""Messages parked on the local disk, in order, until they can be sent.

One SQLite file, in use by one process at a time and written by one thread. What has
been appended survives the end of the process and a loss of power: the file is in WAL
mode with `synchronous=FULL`, as is the coordinator's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.checked import count
from metatwist.client.errors import ClientError, LocalStoreFailed
from metatwist.client.message import Message, TopicPartition
from metatwist.client.one_thread import OneThread
from metatwist.client.sqlite_file import (
    CommitInDoubt,
    FileKind,
    explained,
    opened,
    transaction,
)
from metatwist.coordination.names import PartitionName

Run = Callable[..., Deferred[Any]]
Places = list[tuple[str, int, int, int, int]]

_log = Logger()

APPLICATION_ID = 0x4D51504B
_KIND = FileKind(
    APPLICATION_ID,
    1,
    (
        "CREATE TABLE parked (id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT"
        " NULL, broker_id INTEGER NOT NULL, partition INTEGER NOT NULL, attribute TEXT,"
        " body BLOB NOT NULL, key)",
        "CREATE INDEX place ON parked (topic, broker_id, partition, id)",
    ),
)
_COUNT = (
    "SELECT topic, broker_id, partition, count(*), sum(length(body)) FROM parked"
    " GROUP BY topic, broker_id, partition"
)
_INSERT = (
    "INSERT INTO parked (topic, broker_id, partition, attribute, body, key)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
_OLDEST = (
    "SELECT id, attribute, body, key FROM parked"
    " WHERE topic=? AND broker_id=? AND partition=? AND id>? ORDER BY id LIMIT ?"
)


class Parked(NamedTuple):
    """A stored message; `id` is what `remove` needs."""

    id: int
    message: Message


@frozen
class StoreLimits:
    """The most that is kept; more is refused with LocalStoreFailed."""

    most_messages: int = count(500_000)
    most_bytes: int = count(1 << 30)


class _Table:
    """The file; all of it blocks, for one thread at a time.

    | what fails | then |
    |---|---|
    | a write before its COMMIT, a read | the next call may succeed |
    | ROLLBACK | the next call opens the file anew: nothing was committed |
    | COMMIT, unless for want of space; the file is damaged | nothing works any more |
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._lost = False
        self._broken: str | None = None

    def open(self) -> Places:
        """(topic, broker id, partition, messages, bytes of bodies) of each place."""
        with self._explained():
            found = self._connect()
        self._broken = None
        return found

    def _connect(self) -> Places:
        connection = opened(self.path, _KIND)
        try:
            found = connection.execute(_COUNT).fetchall()
        except BaseException:
            connection.close()
            raise
        self._connection, self._lost = connection, False
        return found

    def append(self, entries: Sequence[tuple[TopicPartition, Message]]) -> None:
        """Store all or none, in order."""
        rows = [
            (place.topic, *_numbers(place), one.attribute, one.body, one.key)
            for place, one in entries
        ]
        self._write(_INSERT, rows)

    def remove(self, ids: Sequence[int]) -> None:
        """Delete all or none."""
        self._write("DELETE FROM parked WHERE id=?", [(one,) for one in ids])

    def _write(self, statement: str, rows: list[Any]) -> None:
        with self._explained():
            connection = self._usable()
            try:
                with transaction(connection):
                    connection.executemany(statement, rows)
            except CommitInDoubt as error:
                self._broken = f"{self.path}: {error}"
                raise
            finally:
                if connection.in_transaction:  # it could not be rolled back
                    self._connection, self._lost = None, True
                    with suppress(sqlite3.Error):
                        connection.close()

    def oldest(self, place: TopicPartition, most: int, after: int) -> list[Parked]:
        """The first of a place, in order."""
        with self._explained():
            rows = (
                self._usable()
                .execute(_OLDEST, (place.topic, *_numbers(place), after, most))
                .fetchall()
            )
        return [
            Parked(number, Message(place.topic, body, attribute, key))
            for number, attribute, body, key in rows
        ]

    def close(self) -> None:
        """A second call does nothing."""
        connection, self._connection, self._lost = self._connection, None, False
        if connection is not None:
            with self._explained():
                connection.close()

    def _usable(self) -> sqlite3.Connection:
        if self._broken is not None:
            raise LocalStoreFailed(self._broken)
        if self._lost:
            self._connect()
        if self._connection is None:
            raise LocalStoreFailed(f"{self.path}: not open")
        return self._connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with explained(self.path):
                yield
        except LocalStoreFailed as error:
            if type(error.__cause__) is sqlite3.DatabaseError:  # damaged
                self._broken = str(error)
            raise


def store_error(failure: Failure) -> ClientError:
    """Why a call of a store failed; what is no ClientError is a defect, and logged."""
    if isinstance(failure.value, ClientError):
        return failure.value
    _log.failure("defect in a local store", failure)
    return LocalStoreFailed(f"a defect: {failure.value!r}")


def _numbers(place: TopicPartition) -> tuple[int, int]:
    return place.partition.broker_id, place.partition.partition


class LocalStore:
    """Parked messages by place, which is a topic and partition.

    `run` calls on a thread, never two calls at once, and `ended` is called when the
    store is closed; see `on_thread`. All Deferreds fail with LocalStoreFailed, or with
    ClientStopped once it is closed; cancelling one stops the wait, not the work.

    `counts` has the places that are not empty, `size_bytes` is that of all bodies; both
    are of the last call that ended.
    """

    def __init__(
        self,
        path: Path,
        run: Run,
        ended: Callable[[], object] = lambda: None,
        limits: StoreLimits | None = None,
    ) -> None:
        self.path = path
        self.counts: dict[TopicPartition, int] = {}
        self.size_bytes = 0
        self._limits = limits or StoreLimits()
        self._table = _Table(path)
        self._run = run
        self._ended = ended
        self._coming = (0, 0)

    @classmethod
    def on_thread(
        cls, reactor: Any, path: Path, limits: StoreLimits | None = None
    ) -> LocalStore:
        """One with a thread of its own."""
        thread = OneThread(reactor, f"local store {path.name}")
        return cls(path, thread.run, thread.stop, limits)

    def open(self) -> Deferred[None]:
        """Create the file if there is none; `counts` is right then."""

        def opened(rows: Places) -> None:
            for topic, broker_id, partition, messages, size_bytes in rows:
                place = TopicPartition(topic, PartitionName(broker_id, partition))
                self.counts[place] = messages
                self.size_bytes += size_bytes

        return self._run(self._table.open).addCallback(opened)

    def append(
        self, entries: Sequence[tuple[TopicPartition, Message]]
    ) -> Deferred[None]:
        """Store behind what is there; fires when durable. All or none."""
        size_bytes = sum(len(message.body) for _, message in entries)
        messages = len(entries)
        problem = self._too_much(messages, size_bytes)

        def write() -> None:
            if problem is not None:
                raise LocalStoreFailed(problem)
            self._table.append(entries)

        def over(result: Any) -> Any:
            self._come(-messages, -size_bytes)
            return result

        def appended(_: None) -> None:
            self.size_bytes += size_bytes
            for place, _message in entries:
                self.counts[place] = self.counts.get(place, 0) + 1

        self._come(messages, size_bytes)
        return self._run(write).addBoth(over).addCallback(appended)

    def _come(self, messages: int, size_bytes: int) -> None:
        self._coming = self._coming[0] + messages, self._coming[1] + size_bytes

    def _too_much(self, messages: int, size_bytes: int) -> str | None:
        limits = self._limits
        messages += sum(self.counts.values()) + self._coming[0]
        size_bytes += self.size_bytes + self._coming[1]
        if messages <= limits.most_messages and size_bytes <= limits.most_bytes:
            return None
        return (
            f"{self.path}: full, at most {limits.most_messages} messages and"
            f" {limits.most_bytes} bytes are kept"
        )

    def oldest(
        self, place: TopicPartition, most: int, after: int = 0
    ) -> Deferred[list[Parked]]:
        """The first ones of a place behind the id `after`, in order."""
        return self._run(self._table.oldest, place, most, after)

    def remove(self, place: TopicPartition, parked: Sequence[Parked]) -> Deferred[None]:
        """Delete some of a place; fires when durable."""

        def removed(_: None) -> None:
            self.size_bytes -= sum(len(one.message.body) for one in parked)
            left = self.counts.get(place, 0) - len(parked)
            if left > 0:
                self.counts[place] = left
            else:
                self.counts.pop(place, None)

        ids = [one.id for one in parked]
        return self._run(self._table.remove, ids).addCallback(removed)

    def close(self) -> Deferred[None]:
        """After the calls under way; the last call."""

        def closed(result: Any) -> Any:
            self._ended()
            return result

        return self._run(self._table.close).addBoth(closed)
