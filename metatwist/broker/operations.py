"""What an operator may ask of a running broker at any time: flush, retain, look up."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, DeferredList, inlineCallbacks

from metatwist.broker.background import Background
from metatwist.broker.cleaning import Cleaning
from metatwist.broker.commit import CommitQueue
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.times import offset_at
from metatwist.broker.topics import Topics
from metatwist.errors import AdminError


class Operations:
    """Each answers a Deferred of a JSON value, or raises AdminError."""

    def __init__(
        self,
        background: Background,
        files: FileOps,
        topics: Topics,
        cleaning: Cleaning,
    ) -> None:
        self._background = background
        self._files = files
        self._topics = topics
        self._cleaning = cleaning

    @inlineCallbacks
    def flush(self, topic: str | None) -> Any:
        """Sync all that is written, of one topic or of all."""
        queues = self._queues_of(topic)
        yield DeferredList([synced(queue) for queue in queues])
        failed = {
            queue.name: queue.log.failure for queue in queues if queue.log.failure
        }
        return {"flushed": len(queues) - len(failed), "failed": failed}

    def _queues_of(self, topic: str | None) -> list[CommitQueue]:
        queues = self._topics.queues.values()
        found = [queue for queue in queues if topic in (None, queue.topic)]
        if topic is not None and not found:
            raise AdminError(f"nothing is stored in a topic {topic!r}")
        return found

    @inlineCallbacks
    def retain(self, topic: str | None) -> Any:
        """Run retention now, whatever `deleteWhen` says."""
        names = {queue.topic for queue in self._queues_of(topic)}
        done = yield self._cleaning.clean(names)
        return {
            "removed_segments": done.removed,
            "deleted_segments": done.removed - done.archived,
            "archived_segments": done.archived,
            "failed": done.failed,
        }

    @inlineCallbacks
    def offset_at(self, topic: str, partition: int, time_ms: int) -> Any:
        """The offset of the first message stored at or after a time."""
        key = topic, partition
        log = self._topics.catalog.logs.get(key)
        if log is None:
            raise AdminError(f"nothing is stored in {topic}-{partition}")
        if key in self._topics.busy:
            raise AdminError(f"{topic}-{partition} is {self._topics.busy[key]}")
        segments, end = tuple(log.segments), log.readable_end
        offset = yield self._background.run(
            offset_at, segments, end, time_ms, self._files
        )
        return {"topic": topic, "partition": partition, "offset": offset, "end": end}


def synced(queue: CommitQueue) -> Deferred[None]:
    """Fires when all of a queue is on disk, or known to have failed."""
    done: Deferred[None] = Deferred()

    def idle() -> None:
        if queue.log.unsynced_bytes and queue.log.failure is None:
            queue.flush()
            queue.when_idle(idle)
        else:
            done.callback(None)

    queue.when_idle(idle)
    return done
