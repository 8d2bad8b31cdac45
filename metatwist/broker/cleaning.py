"""Retention at work: decide, archive or delete on a thread, then let go of the segment.

A segment stays readable until its file is gone or archived, and stays for good when
that fails. Oldest first, and nothing behind one that had to stay (spec storage 13,
D-12, D-13). What readers cannot see yet stays as well. A segment whose file somebody
has removed by hand is let go of when it is the oldest: its messages are gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from attrs import Factory, define
from twisted.internet.defer import inlineCallbacks
from twisted.logger import Logger

from metatwist.broker.background import Background
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


@define
class _Found:
    """What retention decides by; `missing` are segments without a file."""

    ages: list[SegmentAge] = Factory(list)
    missing: list[Segment] = Factory(list)


@define
class Cleaned:
    """What a run did; `failed` has a sentence for each partition where it ended early.

    `removed` counts segments, those that were archived included.
    """

    removed: int = 0
    archived: int = 0
    failed: list[str] = Factory(list)


class Cleaning:
    """Runs retention over topics; `seconds` is the wall clock."""

    _log = Logger()

    def __init__(
        self,
        background: Background,
        topics: Topics,
        files: FileOps,
        seconds: Callable[[], float],
    ) -> None:
        self._background = background
        self._topics = topics
        self._files = files
        self._seconds = seconds
        self._told: set[Segment] = set()
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
        done = yield self.clean(names)
        return done.removed

    @inlineCallbacks
    def clean(self, names: Iterable[str]) -> Any:
        """As `run`; fires with a `Cleaned`.

        A partition at which other work goes on is left to the next run.
        """
        wanted, done = set(names), Cleaned()
        topics = self._topics
        settings = topics.settings_of_stored()
        for key in list(topics.catalog.logs):
            log = topics.catalog.logs.get(key)
            taken = key in topics.busy or key in topics.in_work
            if key[0] not in wanted or log is None or taken or self.stopping:
                continue
            topics.in_work.add(key)
            try:
                yield self._clean(log, settings[key[0]], done)
            finally:
                topics.in_work.discard(key)
        return done

    @inlineCallbacks
    def _clean(self, log: PartitionLog, settings: TopicSettings, done: Cleaned) -> Any:
        try:
            yield self._background.run(remove_leftovers, log.directory)
            found = yield self._background.run(
                self._look, list(log.segments), log.readable_end
            )
            self._tell(found.missing)
            limits = RetentionLimits(
                settings.delete_policy.max_age_s, self._size_limit(settings)
            )
            for removal in removable(found.ages, limits, self._seconds()):
                if self.stopping:
                    break
                if log.segments[0] in found.missing:
                    self._let_go(log)
                    continue
                yield self._remove(log, removal, settings)
                self.removed_segments += 1
                done.removed += 1
                done.archived += settings.delete_policy.kind == "archive"
        except (StorageError, OSError) as error:
            self.failed_segments += 1
            done.failed.append(f"{log.directory.name}: {error}; the segment stays")
            self._log.error("retention: {error}; the segment stays", error=error)

    def _size_limit(self, settings: TopicSettings) -> int:
        return settings.retention_bytes or self._topics.settings.retention_bytes

    def _look(self, segments: list[Segment], readable_end: int) -> _Found:
        found = _Found()
        for segment in segments:
            sealed = segment is not segments[-1] and segment.end <= readable_end
            size, modified_s = segment.size_bytes, -math.inf
            try:
                modified_s = self._files.status(segment.path).modified_s
            except FileNotFoundError:
                if segment is segments[-1]:
                    raise
                found.missing.append(segment)
                size = 0
            found.ages.append(SegmentAge(segment.start, size, modified_s, sealed))
        return found

    def _tell(self, missing: list[Segment]) -> None:
        for segment in missing:
            if segment not in self._told:
                self._told.add(segment)
                self._log.error(
                    "retention: {path} is not there any more, removed by somebody else;"
                    " its messages, offsets {start} to {end}, are lost",
                    path=str(segment.path),
                    start=segment.start,
                    end=segment.end,
                )

    def _let_go(self, log: PartitionLog) -> None:
        """Forget the oldest segment, whose file is missing; readers go on behind it."""
        segment = log.segments[0]
        log.drop_front(segment)
        self._told.discard(segment)
        self._log.warn(
            "retention: {path} is forgotten, its partition now begins at {start}",
            path=str(segment.path),
            start=log.start,
        )

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
                archive = archive_segment, segment.path, policy.compress
                yield self._background.run(*archive)
            else:
                yield self._background.run(delete_segment, segment.path)
            log.drop_front(segment)
        finally:
            file.release()
        self._log.info(
            "retention: {path} {action}, by {reason}",
            path=str(segment.path),
            action="archived" if policy.kind == "archive" else "deleted",
            reason=removal.reason.value,
        )
