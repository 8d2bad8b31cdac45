"""Deleting and renumbering partitions of a running broker.

The partitions are taken out of service first: their puts are refused with 403 and their
gets find nothing until the work is done. Their files change on a thread.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from metatwist.broker.storage.catalog import Catalog, Key, PartitionDirectory
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.topics import Topics
from metatwist.errors import AdminError, StorageError


class Moving:
    """One piece of work at a time; consumer offsets are not adjusted (spec 14)."""

    _log = Logger()

    def __init__(
        self, reactor: Any, pool: ThreadPool, topics: Topics, files: FileOps
    ) -> None:
        self._reactor = reactor
        self._pool = pool
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
                self._topics.forget(key)
                yield self._in_thread(self._delete, path)
                self._log.info("{path} deleted by an operator", path=str(path))
        except OSError as error:
            raise AdminError(f"not all was deleted: {error}") from error
        finally:
            self._put_back(keys)
        return {"deleted": [path.name for path in paths]}

    @inlineCallbacks
    def move(self, topic: str, first: int, last: int, offset: int) -> Any:
        """Renumber partitions by `offset`; fires with the new names.

        Refused when a source is missing, or a target outside the moved set exists.
        """
        moves = self._plan(topic, first, last, offset)
        sources = [source for source, _ in moves]
        targets = [target for _, target in moves]
        everything = [*sources, *targets]
        paths = {key: self._catalog.logs[key].directory for key in sources}
        yield self._take_out(everything, "being moved")
        try:
            for source, target in moves:
                path = paths[source]
                where = PartitionDirectory(
                    *target, path.with_name(f"{topic}-{target[1]}")
                )
                self._topics.forget(source)
                yield self._in_thread(self._rename, path, where.path)
                found = yield self._in_thread(self._catalog.load, where)
                log = self._catalog.loaded(where, found)
                self._topics.add(*target, log)
                self._log.info(
                    "{path} is now {name}", path=str(path), name=where.path.name
                )
        except (OSError, StorageError) as error:
            raise AdminError(f"not all was moved: {error}") from error
        finally:
            self._put_back(everything)
        return {"moved": [f"{topic}-{number}" for _, number in sorted(targets)]}

    def _plan(
        self, topic: str, first: int, last: int, offset: int
    ) -> list[tuple[Key, Key]]:
        """(source, target) in an order in which no target is overwritten."""
        if not 0 <= first <= last or first + offset < 0 or not offset:
            raise AdminError(
                f"cannot move {first} to {last} by {offset}: needs 0 <= first <= last,"
                " an offset that is not 0, and targets that are not negative"
            )
        numbers = range(first, last + 1)
        for number in numbers:
            if (topic, number) not in self._catalog.logs:
                raise AdminError(f"{topic}-{number} has no store")
            target = number + offset
            taken = (topic, target) in self._catalog.logs and target not in numbers
            if taken or (topic, target) in self._catalog.failed:
                raise AdminError(f"{topic}-{target} exists already")
        order = reversed(numbers) if offset > 0 else numbers
        return [((topic, number), (topic, number + offset)) for number in order]

    @inlineCallbacks
    def _take_out(self, keys: list[Key], why: str) -> Any:
        taken = [key for key in keys if key in self._topics.busy]
        if taken:
            topic, number = taken[0]
            state = self._topics.busy[taken[0]]
            raise AdminError(f"{topic}-{number} is {state}; try again when it is done")
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

    @inlineCallbacks
    def _sync_and_close(self, log: PartitionLog) -> Any:
        if log.unsynced_bytes and log.failure is None:
            job = log.sync_job()
            try:
                for directory in job.directories:
                    yield self._in_thread(self._files.sync_directory, directory)
                for file in job.files:
                    yield self._in_thread(self._files.sync, file.fd)
            except OSError as error:
                log.sync_failed(job, str(error))
            else:
                log.synced(job)
        log.close()

    def _put_back(self, keys: list[Key]) -> None:
        for key in keys:
            self._topics.busy.pop(key, None)
        self._topics.changed()

    def _rename(self, source: Path, target: Path) -> None:
        self._files.rename(source, target)
        self._files.sync_directory(target.parent)

    def _delete(self, path: Path) -> None:
        # No `-` in the name, so that neither broker takes a half-deleted folder for a
        # partition after a crash.
        doomed = path.with_name(f"metatwist.deleted.{path.name.replace('-', '.')}")
        self._rename(path, doomed)
        shutil.rmtree(doomed)

    def _in_thread(self, call: Any, *arguments: Any) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._pool, call, *arguments)
