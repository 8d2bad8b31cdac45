"""Retention at work: decide, archive or delete on a thread, then let go of the segment.

A segment stays readable until its file is gone or archived, and stays for good when
that fails. Oldest first, and nothing behind one that had to stay (spec storage 13,
D-12, D-13). What readers cannot see yet stays as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from metatwist.broker.settings import TopicSettings
from metatwist.broker.storage.archive import (
    archive_segment,
    delete_segment,
    remove_leftovers,
)
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.storage.retention import (
    Removal,
    RetentionLimits,
    SegmentAge,
    removable,
)
from metatwist.broker.storage.segment import Segment
from metatwist.broker.topics import Topics
from metatwist.errors import StorageError


class Cleaning:
    """Runs retention over topics; `seconds` is the wall clock."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        pool: ThreadPool,
        topics: Topics,
        files: FileOps,
        seconds: Callable[[], float],
    ) -> None:
        self._reactor = reactor
        self._pool = pool
        self._topics = topics
        self._files = files
        self._seconds = seconds
        self._cleaned: set[PartitionLog] = set()
        self.stopping = False
        self.removed_segments = 0
        self.failed_segments = 0

    def expressions(self) -> dict[str, str]:
        """The `deleteWhen` of every topic that has a store now."""
        stored = self._topics.settings_of_stored()
        return {topic: settings.delete_when for topic, settings in stored.items()}

    @inlineCallbacks
    def run(self, names: Iterable[str]) -> Any:
        """Apply the policies of these topics; fires with the segments removed."""
        wanted, removed = set(names), 0
        settings = self._topics.settings_of_stored()
        for (topic, partition), log in list(self._topics.catalog.logs.items()):
            taken = (topic, partition) in self._topics.busy or log in self._cleaned
            if topic not in wanted or taken or self.stopping:
                continue
            self._cleaned.add(log)
            try:
                count = yield self._clean(log, settings[topic])
            finally:
                self._cleaned.discard(log)
            removed += count
        return removed

    @inlineCallbacks
    def _clean(self, log: PartitionLog, settings: TopicSettings) -> Any:
        removed = 0
        try:
            yield self._in_thread(remove_leftovers, log.directory)
            ages = yield self._in_thread(
                self._ages, list(log.segments), log.readable_end
            )
            limits = RetentionLimits(
                settings.delete_policy.max_age_s, self._size_limit(settings)
            )
            for removal in removable(ages, limits, self._seconds()):
                if self.stopping:
                    break
                yield self._remove(log, removal, settings)
                removed += 1
        except (StorageError, OSError) as error:
            self.failed_segments += 1
            self._log.error("retention: {error}; the segment stays", error=error)
        self.removed_segments += removed
        return removed

    def _size_limit(self, settings: TopicSettings) -> int:
        return settings.retention_bytes or self._topics.settings.retention_bytes

    def _ages(self, segments: list[Segment], readable_end: int) -> list[SegmentAge]:
        last = len(segments) - 1
        return [
            SegmentAge(
                segment.start,
                segment.size_bytes,
                self._files.status(segment.path).modified_s,
                at != last and segment.end <= readable_end,
            )
            for at, segment in enumerate(segments)
        ]

    @inlineCallbacks
    def _remove(
        self, log: PartitionLog, removal: Removal, settings: TopicSettings
    ) -> Any:
        segment = log.segments[0]
        policy = settings.delete_policy
        # Held open, so that reads find it while its name is going away.
        file = log.open(segment)
        try:
            if policy.kind == "archive":
                yield self._in_thread(archive_segment, segment.path, policy.compress)
            else:
                yield self._in_thread(delete_segment, segment.path)
            log.drop_front(segment)
        finally:
            file.release()
        self._log.info(
            "retention: {path} {action}, by {reason}",
            path=str(segment.path),
            action="archived" if policy.kind == "archive" else "deleted",
            reason=removal.reason.value,
        )

    def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._pool, call, *arguments)
