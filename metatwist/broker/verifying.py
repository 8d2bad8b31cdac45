"""Sealed segments that no sidecar vouches for are walked in the background.

That is what a Java broker left. It counts their messages, builds the time index, and
finds damage, so that readers go on behind it. Slow on purpose: it gives way to traffic.
A partition at which other work goes on, retention or a move, has its turn later.
"""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.logger import Logger

from metatwist.broker.background import Background
from metatwist.broker.storage.catalog import Key
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.storage.segment import Segment
from metatwist.broker.storage.walking import verify_sealed
from metatwist.broker.topics import Topics

_REST_S = 0.002


class Verifying:
    """Walks what is not verified, one segment at a time, until it is stopped."""

    _log = Logger()

    wait_s = 0.5

    def __init__(self, background: Background, topics: Topics, files: FileOps) -> None:
        self._background = background
        self._topics = topics
        self._files = files
        self._stopping = False
        self._running: Deferred[Any] | None = None
        self._unreadable: set[Segment] = set()

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
        logs = self._topics.catalog.logs
        waiting = [key for key in logs if self._unverified(key)]
        count = sum(len(self._unverified(key)) for key in waiting)
        if not count:
            return
        self._log.info("{count} sealed segments to verify", count=count)
        while waiting:
            for key in waiting:
                yield self._verify_all(key)
            if self._stopping:
                return
            # What is left was taken, or has come in by a move.
            waiting = [key for key in logs if self._unverified(key)]
            if waiting:
                yield self._background.run(time.sleep, self.wait_s)
        self._log.info("sealed segments are verified")

    def _unverified(self, key: Key) -> list[Segment]:
        log = self._topics.catalog.logs.get(key)
        return [
            segment
            for segment in (log.segments[:-1] if log else ())
            if not segment.verified and segment not in self._unreadable
        ]

    @inlineCallbacks
    def _verify_all(self, key: Key) -> Any:
        """Walk the segments of one partition as long as nobody else works on it."""
        topics = self._topics
        for segment in self._unverified(key):
            log = topics.catalog.logs.get(key)
            taken = key in topics.busy or key in topics.in_work
            if self._stopping or taken or log is None or segment not in log.segments:
                return
            topics.in_work.add(key)
            try:
                yield self._verify(log, segment)
            finally:
                topics.in_work.discard(key)

    @inlineCallbacks
    def _verify(self, log: PartitionLog, segment: Segment) -> Any:
        try:
            facts = yield self._background.run(
                verify_sealed, self._files, segment, self._rest
            )
        except InterruptedError:
            return
        except OSError as error:
            self._unreadable.add(segment)
            self._log.error(
                "cannot verify {path}: {error}", path=str(segment.path), error=error
            )
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
