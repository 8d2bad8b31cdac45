"""Deleting and renumbering partitions of a running broker.

The partitions are taken out of service first: their puts are refused with 403 and their
gets find nothing until the work is done. Their files change on a thread. A partition
that retention or verification works on is not touched.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.logger import Logger

from metatwist.broker.background import Background
from metatwist.broker.storage.catalog import Catalog, Key, PartitionDirectory
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.topics import Topics
from metatwist.data_directory import HIGHEST_PARTITION, TRASH_PREFIX
from metatwist.errors import AdminError, StorageError


class Moving:
    """One piece of work at a time; consumer offsets are not adjusted (spec 14)."""

    _log = Logger()

    def __init__(self, background: Background, topics: Topics, files: FileOps) -> None:
        self._background = background
        self._topics = topics
        self._files = files

    @property
    def _catalog(self) -> Catalog:
        return self._topics.catalog

    @inlineCallbacks
    def delete(self, topic: str, first: int, last: int) -> Any:
        """Remove the partitions that have a store; fires with their names."""
        keys = [
            (topic, number)
            for number in self._catalog.partitions_of(topic)
            if first <= number <= last
        ]
        if not keys:
            raise AdminError(f"nothing is stored in {topic}-{first} to {topic}-{last}")
        paths = [self._catalog.logs[key].directory for key in keys]
        yield self._take_out(keys, "being deleted")
        try:
            for key, path in zip(keys, paths, strict=True):
                yield self._delete(key, path)
                self._log.info("{path} deleted by an operator", path=str(path))
        except OSError as error:
            raise AdminError(f"not all was deleted: {error}") from error
        finally:
            self._put_back(keys)
        return {"deleted": [path.name for path in paths]}

    @inlineCallbacks
    def move(self, topic: str, first: int, last: int, offset: int) -> Any:
        """Renumber partitions by `offset`; fires with the new names.

        Refused when a source is missing or stopped, or a target outside the moved set
        exists.
        """
        moves = self._plan(topic, first, last, offset)
        sources = [source for source, _ in moves]
        targets = [target for _, target in moves]
        everything = [*sources, *targets]
        paths = {key: self._catalog.logs[key].directory for key in sources}
        yield self._take_out(everything, "being moved")
        try:
            for source in sources:  # the last sync may have failed
                self._refuse_stopped(source)
            for source, target in moves:
                path = paths[source]
                where = PartitionDirectory(
                    *target, path.with_name(f"{topic}-{target[1]}")
                )
                yield self._move(source, path, where)
                self._log.info(
                    "{path} is now {name}", path=str(path), name=where.path.name
                )
        except (OSError, StorageError) as error:
            raise AdminError(f"not all was moved: {error}") from error
        finally:
            self._put_back(everything)
        return {"moved": [f"{topic}-{number}" for _, number in sorted(targets)]}

    @inlineCallbacks
    def _delete(self, key: Key, path: Path) -> Any:
        doomed = path.with_name(TRASH_PREFIX + path.name.replace("-", "."))
        # One that lies there is what a deletion left that was interrupted.
        yield self._background.run(self._files.remove_tree, doomed)
        yield self._background.run(self._files.rename, path, doomed)
        self._topics.forget(key)
        yield self._background.run(self._files.sync_directory, path.parent)
        yield self._background.run(self._files.remove_tree, doomed)

    @inlineCallbacks
    def _move(self, source: Key, path: Path, where: PartitionDirectory) -> Any:
        yield self._background.run(self._files.rename, path, where.path)
        self._topics.forget(source)
        try:
            yield self._background.run(self._files.sync_directory, path.parent)
            found = yield self._background.run(self._catalog.load, where)
        except (OSError, StorageError) as error:
            self._catalog.load_failed(where, str(error))
            raise
        self._topics.add(*where.key, self._catalog.loaded(where, found))

    def _refuse_stopped(self, key: Key) -> None:
        # Loaded under another number it would look healthy.
        reason = self._catalog.logs[key].failure
        if reason is not None:
            topic, number = key
            raise AdminError(f"{topic}-{number} is stopped: {reason}; restart first")

    def _plan(
        self, topic: str, first: int, last: int, offset: int
    ) -> list[tuple[Key, Key]]:
        """(source, target) in an order in which no target is overwritten."""
        if not 0 <= first <= last or first + offset < 0 or not offset:
            raise AdminError(
                f"cannot move {first} to {last} by {offset}: needs 0 <= first <= last,"
                " an offset that is not 0, and targets that are not negative"
            )
        if last + offset > HIGHEST_PARTITION:
            raise AdminError(
                f"cannot move {first} to {last} by {offset}: {last + offset} is above "
                f"{HIGHEST_PARTITION}, the highest number of a partition"
            )
        numbers = range(first, last + 1)
        for number in numbers:
            if (topic, number) not in self._catalog.logs:
                raise AdminError(f"{topic}-{number} has no store")
            self._refuse_stopped((topic, number))
            target = number + offset
            taken = (topic, target) in self._catalog.logs and target not in numbers
            if taken or (topic, target) in self._catalog.failed:
                raise AdminError(f"{topic}-{target} exists already")
        order = reversed(numbers) if offset > 0 else numbers
        return [((topic, number), (topic, number + offset)) for number in order]

    @inlineCallbacks
    def _take_out(self, keys: list[Key], why: str) -> Any:
        self._refuse_taken(keys)
        for key in keys:
            self._topics.busy[key] = why
        self._topics.changed()
        try:
            for key in keys:
                queue = self._topics.queues.get(key)
                if queue is not None:
                    idle: Deferred[None] = Deferred()
                    queue.when_idle(partial(idle.callback, None))
                    yield idle
                    queue.cancel_timer()
                    yield self._sync_and_close(queue.log)
        except OSError as error:
            self._put_back(keys)
            raise AdminError(f"nothing was changed: {error}") from error

    def _refuse_taken(self, keys: list[Key]) -> None:
        for key in keys:
            name, state = f"{key[0]}-{key[1]}", self._topics.busy.get(key)
            if state is not None:
                raise AdminError(f"{name} is {state}; try again when it is done")
            if key in self._topics.in_work:
                raise AdminError(
                    f"{name}: retention (or verification) is at work on it; try again"
                )

    @inlineCallbacks
    def _sync_and_close(self, log: PartitionLog) -> Any:
        if log.unsynced_bytes and log.failure is None:
            job = log.sync_job()
            try:
                for directory in job.directories:
                    yield self._background.run(self._files.sync_directory, directory)
                for file in job.files:
                    yield self._background.run(self._files.sync, file.fd)
            except OSError as error:
                log.sync_failed(job, str(error))
            else:
                log.synced(job)
        log.close()

    def _put_back(self, keys: list[Key]) -> None:
        for key in keys:
            self._topics.busy.pop(key, None)
        self._topics.changed()
