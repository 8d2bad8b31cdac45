"""The SQLite file of the recover store; blocking calls, by one thread at a time.

One table, one row a message, all columns plain: any tool can read it. What was added is
on disk when `add` returns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import frozen

from metatwist.client.errors import LocalStoreFailed
from metatwist.client.message import ReceivedMessage
from metatwist.client.sqlite_file import (
    CommitInDoubt,
    FileKind,
    explained,
    is_in_use,
    opened,
    transaction,
)
from metatwist.coordination.names import PartitionName

APPLICATION_ID = 0x4D74_7772
SCHEMA_VERSION = 1
_SPARES = 100

_TABLE = """
CREATE TABLE messages (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL, group_name TEXT NOT NULL,
    broker_id INTEGER NOT NULL, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL, next_offset INTEGER NOT NULL,
    message_id INTEGER NOT NULL, flag INTEGER NOT NULL, payload BLOB NOT NULL,
    stored_s REAL NOT NULL, failures INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL,
    UNIQUE (topic, group_name, broker_id, partition, offset, message_id)
)
"""
_KIND = FileKind(APPLICATION_ID, SCHEMA_VERSION, (_TABLE,))
_ADD = """
INSERT OR IGNORE INTO messages (topic, broker_id, partition, offset, next_offset,
    message_id, flag, payload, group_name, stored_s, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_AFTER = """
SELECT sequence, stored_s, failures, error, topic, broker_id, partition, offset,
    next_offset, message_id, flag, payload
FROM messages WHERE topic = ? AND group_name = ? AND sequence > ?
ORDER BY sequence LIMIT ?
"""


@frozen
class StoredMessage:
    """A message in the store.

    Attributes:
        sequence: rises in the order of insertion.
        message: as it was received.
        stored_s: when, in seconds since 1970.
        failures: of its recovery.
        error: the last one.
    """

    sequence: int
    message: ReceivedMessage
    stored_s: float
    failures: int
    error: str


class RecoverFile:
    """Made by the first call if it is missing; `path` is locked against other
    processes while it is open. Every call raises LocalStoreFailed; after most failures
    the next one opens it anew and may succeed, after a CommitInDoubt none does.

    With `spare`, a file that another process has open is left to it: the first one free
    of `<path>`, `<path>-1`, `<path>-2` ... is taken, and `path` says which. It is kept
    to from then on, as sequences are of one file.
    """

    def __init__(self, path: Path, most_messages: int, spare: bool = False) -> None:
        self.path = path
        self._paths = [path]
        if spare:
            self._paths += [
                path.with_name(f"{path.name}-{number}") for number in range(1, _SPARES)
            ]
        self._most_messages = most_messages
        self._open: sqlite3.Connection | None = None
        self._doubt: str | None = None

    @property
    def is_there(self) -> bool:
        """Whether some process has left a file."""
        return any(path.exists() for path in self._paths)

    def add(
        self, message: ReceivedMessage, group: str, stored_s: float, error: str
    ) -> None:
        """Store durably; a message that is there already stays as it is. Refused when
        there are `most_messages`."""
        partition = message.partition
        row = (message.topic, partition.broker_id, partition.partition, *message[2:])
        with self._used() as file:
            if self._count(file) >= self._most_messages:
                raise LocalStoreFailed(
                    f"{self.path} is full: {self._most_messages} messages wait there"
                )
            file.execute(_ADD, (*row, group, stored_s, _storable(error)))

    def after(
        self, topic: str, group: str, sequence: int, most: int
    ) -> list[StoredMessage]:
        """The next `most` messages of a topic and group behind `sequence`."""
        with self._used() as file:
            rows = file.execute(_AFTER, (topic, group, sequence, most)).fetchall()
        return [_stored(row) for row in rows]

    def delete(self, sequence: int) -> None:
        """A message is done with."""
        with self._used() as file:
            file.execute("DELETE FROM messages WHERE sequence = ?", (sequence,))

    def failed(self, sequence: int, error: str) -> None:
        """A message could not be recovered, once more."""
        with self._used() as file:
            file.execute(
                "UPDATE messages SET failures = failures + 1, error = ?"
                " WHERE sequence = ?",
                (_storable(error), sequence),
            )

    def expire(self, before_s: float) -> int:
        """Delete what was stored before that time, of all topics; how many."""
        with self._used() as file:
            done = file.execute("DELETE FROM messages WHERE stored_s < ?", (before_s,))
            return done.rowcount

    def count(self) -> int:
        """How many messages wait."""
        with self._used() as file:
            return self._count(file)

    def close(self) -> None:
        """Let go of the file; a later call opens it again."""
        file, self._open = self._open, None
        if file is not None:
            with explained(self.path):
                file.close()

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        """The open file, in a transaction."""
        if self._doubt is not None:
            raise LocalStoreFailed(self._doubt)
        file = self._open
        if file is None:
            file = self._open = self._opened()
        with explained(self.path):
            try:
                with transaction(file):
                    yield file
            except sqlite3.Error as error:
                self._open = None
                if isinstance(error, CommitInDoubt):
                    self._doubt = f"{self.path}: not used any more: {error}"
                with suppress(sqlite3.Error):
                    file.close()
                raise

    def _opened(self) -> sqlite3.Connection:
        wait_s = 1 if len(self._paths) == 1 else 0.1
        for path in self._paths:
            self.path = path
            with explained(path):
                try:
                    file = opened(path, _KIND, wait_s)
                except sqlite3.OperationalError as error:
                    if is_in_use(error) and path is not self._paths[-1]:
                        continue
                    raise
            self._paths = [path]
            return file
        raise AssertionError("there is one path at least")

    @staticmethod
    def _count(file: sqlite3.Connection) -> int:
        found: int = file.execute("SELECT count(*) FROM messages").fetchone()[0]
        return found


def _storable(text: str) -> str:
    """The text, without what is no Unicode: errors quote what users sent."""
    return text.encode("utf-8", "backslashreplace").decode()


def _stored(row: tuple[Any, ...]) -> StoredMessage:
    sequence, stored_s, failures, error, topic, broker_id, partition, *rest = row
    message = ReceivedMessage(topic, PartitionName(broker_id, partition), *rest)
    return StoredMessage(sequence, message, stored_s, failures, error)
