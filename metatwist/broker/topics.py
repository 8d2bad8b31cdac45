"""Topics as the broker knows them now: which puts are legal, what is closed, which log
and commit queue a partition has.

The one place that changes when an operator reloads, closes, moves or deletes; whoever
caches something from here registers with `on_change`.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from metatwist.broker.commit import CommitContext, CommitQueue, FlushLimits
from metatwist.broker.settings import BrokerSettings, TopicSettings
from metatwist.broker.storage.catalog import Catalog, Key
from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.errors import (
    PartitionClosed,
    PartitionMissing,
    PartitionStopped,
    TopicRefused,
    WrongPartition,
)

BROKER_CHOOSES = -1
_MOST_REMEMBERED_NAMES = 10_000


class Topics:
    """Live topics over a catalog; `settings` are those in force.

    `busy` are partitions out of service, and why (moved, deleted). `in_work` are those
    in service whose files retention or verification works on: nobody else may touch
    their directory meanwhile.
    """

    _log = Logger()

    def __init__(
        self, settings: BrokerSettings, catalog: Catalog, commit: CommitContext
    ) -> None:
        self.settings = settings
        self.catalog = catalog
        self.queues: dict[Key, CommitQueue] = {}
        self.closed: set[Key] = set()
        self.busy: dict[Key, str] = {}
        self.in_work: set[Key] = set()
        self._commit = commit
        self._listeners: list[Callable[[], object]] = []
        self._accepted: dict[str, TopicSettings] = {}
        self._writable: dict[str, list[int]] = {}
        self._stored: set[str] = set()
        for (topic, partition), log in catalog.logs.items():
            self._add_queue(topic, partition, log)

    def on_change(self, call: Callable[[], object]) -> None:
        """Call whenever what this object answers may have changed."""
        self._listeners.append(call)

    def changed(self) -> None:
        """Let caches be dropped."""
        self._accepted.clear()
        self._writable.clear()
        for call in self._listeners:
            call()

    def apply(self, settings: BrokerSettings) -> None:
        """Put reloaded settings in force, atomically."""
        self.settings = settings
        for queue in self.queues.values():
            queue.limits = self._limits(queue)
        self.changed()

    def _limits(self, queue: CommitQueue) -> FlushLimits:
        """The queue's limits under the settings in force; its mode stays."""
        found = self._for_stored(queue.topic)
        if (found.unflush_threshold <= 0) != queue.group_commit:
            return FlushLimits(
                queue.limits.unflush_threshold, found.unflush_interval_ms
            )
        return FlushLimits(found.unflush_threshold, found.unflush_interval_ms)

    # -- topics -------------------------------------------------------------------

    def find(self, topic: str) -> TopicSettings | None:
        """The settings under which the topic accepts messages, or None."""
        found = self._accepted.get(topic)
        if found is None:
            found = self.settings.for_topic(topic)
            if found is not None and len(self._accepted) < _MOST_REMEMBERED_NAMES:
                self._accepted[topic] = found
        return found

    def _for_stored(self, topic: str) -> TopicSettings:
        """Settings for a topic that has data, configured or not any more."""
        return self.find(topic) or self.settings.defaults

    def accepts(self, topic: str) -> bool:
        """True when a put to the topic is legal."""
        return self.find(topic) is not None

    def is_counted(self, topic: str) -> bool:
        """True for topics with a section of their own and those that have a store, so
        that invented names cost no memory."""
        return topic in self.settings.topics or topic in self._stored

    def partition_count(self, topic: str) -> int:
        """Configured partitions; raises TopicRefused."""
        found = self.find(topic)
        if found is None:
            raise TopicRefused(topic)
        return found.num_partitions

    def names(self) -> list[str]:
        """All topics with a store and all configured ones, patterns included."""
        return sorted(
            {topic for topic, _ in self.catalog.logs} | {*self.settings.topics}
        )

    def settings_of_stored(self) -> dict[str, TopicSettings]:
        """Settings of each topic that has a store."""
        return {topic: self._for_stored(topic) for topic, _ in self.catalog.logs}

    # -- partitions ---------------------------------------------------------------

    def is_closed(self, topic: str, partition: int) -> bool:
        """True when an operator has closed the partition."""
        return (topic, partition) in self.closed

    def closed_text(self, partition: int) -> str:
        """The words of spec 3.2 step 2."""
        return f"partition[{self.settings.broker_id}-{partition}] has been closed"

    def writable_partitions(self, topic: str) -> list[int]:
        """The partitions that take puts now, ascending; not to be changed.

        Left out are those that are closed, moved, deleted, stopped or that could not be
        loaded. One without a store is in. Remembered until the next change.

        Raises TopicRefused; PartitionClosed when none is left and all are closed or
        being moved or deleted; PartitionStopped when none is left otherwise.
        """
        found = self._writable.get(topic)
        if found is None:
            found = self._find_writable(topic)
            if len(self._writable) < _MOST_REMEMBERED_NAMES:
                self._writable[topic] = found
        return found

    def _find_writable(self, topic: str) -> list[int]:
        found, stopped = [], None
        for number in range(self.partition_count(topic)):
            key = topic, number
            if key in self.closed or key in self.busy:
                continue
            reason = self._stopped_by(key)
            if reason is None:
                found.append(number)
            stopped = stopped or reason
        if found:
            return found
        if stopped is not None:
            raise PartitionStopped(stopped)
        raise PartitionClosed(self.closed_text(BROKER_CHOOSES))

    def _stopped_by(self, key: Key) -> str | None:
        """Why a partition can't be written, None when it can, as far as is known."""
        queue = self.queues.get(key)
        return self.catalog.failed.get(key) if queue is None else queue.log.failure

    def queue_for_put(self, topic: str, partition: int) -> CommitQueue:
        """The partition's queue, its store created on first use.

        Raises TopicRefused, WrongPartition, PartitionStopped or PartitionClosed.
        """
        count = self.partition_count(topic)
        if not 0 <= partition < count:
            raise WrongPartition(partition)
        key = topic, partition
        if key in self.busy:
            raise PartitionClosed(self.closed_text(partition))
        queue = self.queues.get(key)
        if queue is None:
            queue = self._create(topic, partition)
        if queue.log.failure is not None:
            raise PartitionStopped(queue.log.failure)
        return queue

    def _create(self, topic: str, partition: int) -> CommitQueue:
        reason = self.catalog.failed.get((topic, partition))
        if reason is not None:
            raise PartitionStopped(reason)
        root = self._for_stored(topic).data_path
        try:
            log = self.catalog.create(root, topic, partition)
        except OSError as error:
            raise PartitionStopped(str(error)) from None
        queue = self._add_queue(topic, partition, log)
        self.changed()
        return queue

    def _add_queue(self, topic: str, partition: int, log: PartitionLog) -> CommitQueue:
        found = self._for_stored(topic)
        limits = FlushLimits(found.unflush_threshold, found.unflush_interval_ms)
        queue = CommitQueue(topic, partition, log, limits, self._commit)
        self.queues[topic, partition] = queue
        self._stored.add(topic)
        return queue

    def add(self, topic: str, partition: int, log: PartitionLog) -> None:
        """Take in a partition that was moved here."""
        self._add_queue(topic, partition, log)
        self.changed()

    def forget(self, key: Key) -> None:
        """Drop a partition whose directory is gone."""
        self.queues.pop(key, None)
        self.catalog.logs.pop(key, None)
        self._commit.numbers.partitions.pop(key, None)
        if not any(topic == key[0] for topic, _ in self.catalog.logs):
            self._stored.discard(key[0])
        self.closed.discard(key)
        self.changed()

    def may_begin(self, topic: str, partition: int) -> bool:
        """Whether a partition without a store gets one with its first put."""
        found = self.find(topic)
        if found is None or (topic, partition) in self.catalog.failed:
            return False
        return 0 <= partition < found.num_partitions

    def log_for_read(self, topic: str, partition: int) -> PartitionLog:
        """The partition's log.

        Raises PartitionMissing where nothing is stored, PartitionStopped where it could
        not be loaded. Never creates one.
        """
        key = topic, partition
        log = self.catalog.logs.get(key)
        if log is None or key in self.busy:
            reason = self.catalog.failed.get(key)
            if reason is not None:
                raise PartitionStopped(reason)
            raise PartitionMissing(topic, partition)
        return log

    def stopped(self, queue: CommitQueue) -> None:
        """A partition can no longer be written."""
        self.changed()
