"""Sealed segments that no sidecar vouches for are walked in the background.

That is what a Java broker left. It counts their messages, builds the time index, and
finds damage, so that readers go on behind it. Slow on purpose: it gives way to traffic.
"""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.storage.walking import verify_sealed
from metatwist.broker.topics import Topics

_REST_S = 0.002


class Verifying:
    """Walks what is not verified, one segment at a time, until it is stopped."""

    _log = Logger()

    def __init__(
        self, reactor: Any, pool: ThreadPool, topics: Topics, files: FileOps
    ) -> None:
        self._reactor = reactor
        self._pool = pool
        self._topics = topics
        self._files = files
        self._stopping = False
        self._running: Deferred[Any] | None = None
        self.left = 0

    def start(self) -> None:
        """Begin with what is there now."""
        self._running = self._run()
        self._running.addErrback(
            lambda failure: self._log.failure("verification ended", failure)
        )

    def stop(self) -> Deferred[Any] | None:
        """Fires when the segment that is being walked has been left."""
        self._stopping = True
        return self._running

    @inlineCallbacks
    def _run(self) -> Any:
        logs = list(self._topics.catalog.logs.values())
        work = [
            (log, segment)
            for log in logs
            for segment in log.segments[:-1]
            if not segment.verified
        ]
        self.left = len(work)
        if work:
            self._log.info("{count} sealed segments to verify", count=self.left)
        for log, segment in work:
            if self._stopping:
                return
            if segment in log.segments:
                yield self._verify(log, segment)
            self.left -= 1
        if work:
            self._log.info("sealed segments are verified")

    @inlineCallbacks
    def _verify(self, log: PartitionLog, segment: Any) -> Any:
        try:
            facts = yield deferToThreadPool(
                self._reactor,
                self._pool,
                verify_sealed,
                self._files,
                segment,
                self._rest,
            )
        except InterruptedError:
            return
        except OSError as error:
            if segment not in log.segments:  # retention was quicker
                return
            self._log.error(
                "cannot verify {path}: {error}", path=str(segment.path), error=error
            )
            return
        if segment not in log.segments:
            return
        log.verified(segment, facts)
        for begin, end in facts.bad:
            self._log.error(
                "{path}: bytes {begin} to {end} are damaged; readers go on behind them",
                path=str(segment.path),
                begin=begin,
                end=end,
            )

    def _rest(self) -> None:
        """Called on the worker thread before each read."""
        if self._stopping:
            raise InterruptedError
        time.sleep(_REST_S)
