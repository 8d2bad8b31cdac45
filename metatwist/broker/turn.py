"""What is done once at the end of a turn, for all that happened in it.

Within a lane's round of events the lane ends the turn; outside of one (TLS, a thread
that reports back, a timer) the end is scheduled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from metatwist.broker.batch import FAILED, Batch
from metatwist.broker.commit import CommitQueue
from metatwist.broker.pressure import DiskPressure
from metatwist.broker.replies import ReplyQueue
from metatwist.broker.storage.partition_log import SyncJob
from metatwist.broker.syncing import Done, ISyncer


class Turn:
    """Collects commit queues with new puts and reply queues with settled answers.

    `lone`: the queue whose `turn_ended` is called has nobody beside it.
    """

    _log = Logger()

    def __init__(self, reactor: Any, pressure: DiskPressure) -> None:
        self._reactor = reactor
        self._pressure = pressure
        self._touched: list[CommitQueue] = []
        self._ready: dict[ReplyQueue, None] = {}
        self._busy: dict[CommitQueue, None] = {}
        self._afterwards: list[Callable[[], None]] = []
        self._scheduled = False
        self._syncing = False
        self.syncer: ISyncer | None = None
        self.in_lane = False
        self.lone = False

    def sync(self, job: SyncJob, done: Done) -> None:
        """Hand a job to the syncer; all of a turn begin together."""
        assert self.syncer is not None
        self.syncer.sync(job, done)
        self._syncing = True
        if not self.in_lane:
            self._schedule()

    def touch(self, queue: CommitQueue) -> None:
        """Call the queue's `turn_ended`."""
        self._touched.append(queue)
        if not self.in_lane:
            self._schedule()

    def settled(self, batch: Batch) -> None:
        """Let the connections that wait for this batch send its answers."""
        failed = batch.state == FAILED
        for group in batch.waiters:
            group.waiting -= 1
            group.failed |= failed
            if not group.waiting:
                self._ready[group.replies] = None
        batch.waiters.clear()
        if not self.in_lane:
            self._schedule()

    def afterwards(self, call: Callable[[], None]) -> None:
        """Call once, when the answers of this turn have left."""
        self._afterwards.append(call)
        if not self.in_lane:
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._scheduled_end)

    def _scheduled_end(self) -> None:
        self._scheduled = False
        self.end()

    def end(self) -> None:
        """Write, begin flushes, answer, and see who may read on."""
        while self._touched or self._ready:
            touched, self._touched = self._touched, []
            self.lone = len(touched) == 1
            for queue in touched:
                self._end_for(queue)
                self._busy[queue] = None
            if self._syncing:
                self._submit()
            ready, self._ready = self._ready, {}
            for replies in ready:
                self._send(replies)
        if self._syncing:
            self._submit()
        if self._afterwards:
            self._do_the_rest()
        if self._busy or self._pressure.turn_bytes:
            for queue in [queue for queue in self._busy if queue.idle]:
                del self._busy[queue]
            self._pressure.turn_ended(self._busy)

    def _end_for(self, queue: CommitQueue) -> None:
        """A defect met here stops the one partition, not the broker."""
        try:
            queue.turn_ended()
        except Exception as defect:
            self._log.failure("defect while storing to {name}", name=queue.name)
            queue.stop(f"internal error: {defect!r}")

    def _send(self, replies: ReplyQueue) -> None:
        """A defect met here concerns one connection."""
        try:
            replies.send_ready()
        except Exception:
            self._log.failure("defect while answering; the connection is closed")
            replies.abort()

    def _do_the_rest(self) -> None:
        calls, self._afterwards = self._afterwards, []
        for call in calls:
            try:
                call()
            except Exception:
                self._log.failure("defect after the answers of a turn")

    def _submit(self) -> None:
        self._syncing = False
        if self.syncer is not None and not self.syncer.submit():
            self._syncing = True
            self._schedule()
