"""From accepted puts to stored ones: one commit queue for each partition.

Puts gather in an open batch. In direct mode it is written when the turn ends, and
answered. In group commit it is written and synced as soon as the sync before it has
ended, and answered when its own has: while one flush runs, the next batch gathers.

A batch is stored whole or not at all: when its write fails it is cut from the file and
all its puts fail; when its sync fails the partition stops (design: an fsync error is
never tried again as if it could succeed).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from time import perf_counter

from attrs import define, frozen
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from metatwist.broker.batch import FAILED, STORED, Batch
from metatwist.broker.numbers import BrokerNumbers, PartitionNumbers, TopicNumbers
from metatwist.broker.storage.partition_log import PartitionLog, SyncJob
from metatwist.broker.syncing import Done
from metatwist.wire.records import HEADER_BYTES

_MESSAGE_OVERHEAD_BYTES = 256
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_RETRY_S = 0.2


@define
class CommitContext:
    """What the commit queues of a broker share.

    `sync(job, done)` is `ISyncer.sync`; `inline(job, messages)` may do it at once: then
    it answers a tuple of the error or None, else None. `settled(batch)` is told of
    each batch that is stored or has failed; `touch(queue)` asks for a call of
    `turn_ended`; `stopped(queue)` is told when a partition can no longer be written;
    `call_later` is the reactor's `callLater`.
    """

    sync: Callable[[SyncJob, Done], None]
    numbers: BrokerNumbers
    settled: Callable[[Batch], None]
    touch: Callable[[CommitQueue], None]
    stopped: Callable[[CommitQueue], None]
    inline: Callable[[SyncJob, int], tuple[OSError | None] | None]
    call_later: Callable[[float, Callable[[], object]], IDelayedCall]


@frozen
class FlushLimits:
    """`unflushThreshold` and `unflushInterval`; a threshold of 0 or less means group
    commit (spec storage 7)."""

    unflush_threshold: int
    unflush_interval_ms: int


class CommitQueue:
    """The only writer of one `PartitionLog`.

    `end` is the offset the next put gets: the log's end and what waits to be written.
    The mode is fixed when the queue is made, as in the original. `when_readable` is
    called once, and None then, when the log's `readable_end` has moved.
    """

    _log = Logger()

    def __init__(
        self,
        topic: str,
        partition: int,
        log: PartitionLog,
        limits: FlushLimits,
        context: CommitContext,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.log = log
        self.limits = limits
        self.group_commit = limits.unflush_threshold <= 0
        self.numbers: PartitionNumbers = context.numbers.partition(topic, partition)
        self.topic_numbers: TopicNumbers = context.numbers.topic(topic)
        self.end = log.log_end
        self.open: Batch | None = None
        self.when_readable: Callable[[], None] | None = None
        self._context = context
        self._flushing: Batch | None = None
        self._syncing = False
        self._sync_began_s = 0.0
        self._unflushed = 0
        self._timer: IDelayedCall | None = None
        self._when_idle: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        """`topic-partition`, as its directory is called."""
        return f"{self.topic}-{self.partition}"

    @property
    def waiting_bytes(self) -> int:
        """Memory held by puts that are not stored yet."""
        waiting_bytes = 0
        for batch in (self._flushing, self.open):
            if batch is not None:
                size = batch.size or self.end - batch.start
                waiting_bytes += size + _MESSAGE_OVERHEAD_BYTES * batch.count
        return waiting_bytes

    @property
    def idle(self) -> bool:
        """True when no put waits and no sync is under way."""
        return self.open is None and not self._syncing

    def begin(self) -> Batch:
        """Open a batch for the puts that come now."""
        batch = self.open = Batch(self, self.end)
        self._context.touch(self)
        return batch

    def turn_ended(self) -> None:
        """Write what has gathered, unless a flush is under way that it must await."""
        batch = self.open
        if batch is None or (self.group_commit and self._syncing):
            return
        batch.size = self.end - batch.start
        stored = self._write(batch)
        # Not before: a defect in the write must find the batch, to fail it.
        self.open = None
        if not stored:
            self._tell_idle()
            return
        if self.group_commit:
            self._flushing = batch
            self.flush()
            return
        self.log.mark_readable(self.log.log_end)
        if self.when_readable is not None:
            self._tell_readable()
        self._unflushed += batch.count
        self._settle(batch, STORED)
        if self._unflushed > self.limits.unflush_threshold:
            self.flush()
        elif self._timer is None:
            self._start_timer()
        self._tell_idle()

    def _start_timer(self) -> None:
        """In direct mode nothing stays unsynced for longer than the interval."""
        delay_s = self.limits.unflush_interval_ms / 1000
        self._timer = self._context.call_later(delay_s, self._timed_out)

    def _timed_out(self) -> None:
        self._timer = None
        if self._unflushed:
            self.flush()

    def cancel_timer(self) -> None:
        """For the end of the broker or of the partition."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _write(self, batch: Batch) -> bool:
        """Append a batch to the log; False, the batch failed, when that is refused."""
        reason = self.log.failure
        if reason is None:
            try:
                self.log.append(batch.buffers, batch.size, batch.last_id)
                return True
            except OSError as error:
                reason = str(error)
                self._context.numbers.write_failed += 1
                self._log.error(
                    "{name}: {count} puts refused, nothing of them stored: {reason}",
                    name=self.name,
                    count=batch.count,
                    reason=reason,
                )
        self.end = self.log.log_end
        self._fail(batch)
        return False

    def flush(self) -> None:
        """Begin to sync all that is written; nothing to do while a sync runs."""
        if not self._syncing and self.log.failure is None:
            self._syncing = True
            self._begin_sync()

    def _begin_sync(self) -> None:
        if self.log.failure is not None:
            self._sync_is_over()
            return
        try:
            job = self.log.sync_job()
        except OSError as error:
            if error.errno in _NO_DESCRIPTOR:
                self._retry(self._begin_sync)
                return
            self._syncing = False
            self._stop(None, f"cannot open {self.name} to sync it: {error}")
            return
        self._unflushed = 0
        self._sync_began_s = perf_counter()
        self._context.numbers.syncs_under_way += 1
        waiting = self._flushing.count if self._flushing is not None else 0
        synced = self._context.inline(job, waiting)
        if synced is not None:
            self._synced(job, *synced)
        else:
            self._context.sync(job, partial(self._synced, job))

    def _retry(self, call: Callable[[], None]) -> None:
        """No descriptor was left to begin an fsync with; that passes."""
        self._context.numbers.flush_retries += 1
        self._context.call_later(_RETRY_S, call)

    def _synced(self, job: SyncJob, error: OSError | None) -> None:
        """A defect met here stops the one partition, not the broker."""
        if error is not None and error.errno in _NO_DESCRIPTOR:
            again = partial(self._context.sync, job, partial(self._synced, job))
            self._retry(again)
            return
        try:
            self._sync_ended(job, error)
        except Exception as defect:
            self._log.failure("defect after a sync of {name}", name=self.name)
            self.stop(f"internal error: {defect!r}")
        self._sync_is_over()

    def _sync_ended(self, job: SyncJob, error: OSError | None) -> None:
        numbers = self._context.numbers
        numbers.flushes += 1
        numbers.syncs_under_way -= 1
        numbers.flush_duration.observe(perf_counter() - self._sync_began_s)
        if self.log.failure is not None:  # the partition was stopped meanwhile
            job.release()
        elif error is not None:
            numbers.flush_failed += 1
            self._stop(job, f"fsync failed: {error}")
        else:
            self.log.synced(job)
            batch, self._flushing = self._flushing, None
            if self.group_commit:
                self.log.mark_readable(self.log.durable_end)
                if self.when_readable is not None:
                    self._tell_readable()
            if batch is not None:
                self._settle(batch, STORED)

    def _sync_is_over(self) -> None:
        """Go on with what has gathered meanwhile."""
        self._syncing = False
        if self.open is not None:
            self._context.touch(self)
        if self._unflushed > self.limits.unflush_threshold > 0:
            self.flush()
        elif self._unflushed and self._timer is None:
            self._start_timer()
        self._tell_idle()

    def stop(self, reason: str) -> None:
        """Take no more puts, for a reason that lies outside.

        A sync that is under way keeps its files until it ends.
        """
        self._stop(None, reason)

    def _stop(self, job: SyncJob | None, reason: str) -> None:
        """The partition takes no more puts until the broker has been restarted."""
        if job is not None:
            self.log.sync_failed(job, reason)
        else:
            self.log.stop(reason)
        self._log.critical(
            "{name}: STOPPED, puts are refused: {reason}. What was acknowledged before"
            " is still served. Check the disk, then restart the broker.",
            name=self.name,
            reason=reason,
        )
        self.end = self.log.log_end
        batches = self._flushing, self.open
        self._flushing = self.open = None
        for batch in batches:
            if batch is not None:
                self._fail(batch)
        self._context.stopped(self)
        self._tell_idle()

    def _fail(self, batch: Batch) -> None:
        count = batch.count
        self._context.numbers.put_failed += count
        self.numbers.put_failed += count
        self.topic_numbers.put_failed += count
        self._settle(batch, FAILED)

    def _settle(self, batch: Batch, state: int) -> None:
        batch.state = state
        count = batch.count
        # Its answers hold the batch: without this, every batch would wait for the
        # garbage collector, and all its messages with it.
        batch.newest = None
        batch.buffers.clear()
        numbers = self._context.numbers
        numbers.cmd_put += count
        self.topic_numbers.put += count
        if state == STORED:
            payload_bytes = batch.size - count * HEADER_BYTES
            self.numbers.messages_in += count
            self.numbers.bytes_in += payload_bytes
            numbers.messages_in += count
            numbers.bytes_in += payload_bytes
            self.topic_numbers.message_size += count
            self.topic_numbers.message_size_bytes += payload_bytes
            numbers.put_latency.observe(perf_counter() - batch.started_s, count)
        self._context.settled(batch)

    def _tell_readable(self) -> None:
        call, self.when_readable = self.when_readable, None
        if call is not None:
            call()

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call once no put waits and no sync is under way, now if that is so."""
        self._when_idle.append(call)
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._when_idle and self.idle:
            calls, self._when_idle = self._when_idle, []
            for call in calls:
                call()
