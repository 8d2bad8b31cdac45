"""What commit queues and connections share: batches to store, groups to answer.

A batch holds puts of many connections for one partition; a group holds the puts of one
read for many partitions. Each knows the other only until the batch is settled.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from metatwist.wire.records import message_id_of

if TYPE_CHECKING:
    from metatwist.broker.commit import CommitQueue
    from metatwist.broker.replies import ReplyQueue

Answer = tuple["Batch | None", int, str]
WAITING, STORED, FAILED = range(3)


class Batch:
    """Puts of one partition that are stored together.

    `buffers`: header, payload, header, payload, ... `waiters`: the groups that have an
    answer of this batch, each once; `newest` is the last of them.
    """

    __slots__ = (
        "buffers",
        "newest",
        "queue",
        "size",
        "start",
        "started_s",
        "state",
        "waiters",
    )

    def __init__(self, queue: CommitQueue, start: int) -> None:
        self.queue = queue
        self.start = start
        self.buffers: list[bytes] = []
        self.waiters: list[PutGroup] = []
        self.newest: PutGroup | None = None
        self.state = WAITING
        self.size = 0
        self.started_s = perf_counter()

    @property
    def count(self) -> int:
        """Messages in the batch."""
        return len(self.buffers) >> 1

    @property
    def last_id(self) -> int:
        """Id of the last message."""
        return message_id_of(self.buffers[-2])


class PutGroup:
    """The puts of one read.

    `answers` are (batch, opaque, text), the text being right unless the batch fails;
    `waiting` counts the batches that are not settled, `failed` is True once one failed.
    """

    __slots__ = ("answers", "failed", "replies", "waiting")

    def __init__(self, replies: ReplyQueue) -> None:
        self.replies = replies
        self.answers: list[Answer] = []
        self.waiting = 0
        self.failed = False
