"""Loading the partitions at start: in parallel, bounded, with progress in the log."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import Cooperator
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from metatwist.broker.storage.catalog import Catalog, Discovery, PartitionDirectory

_log = Logger()
_PROGRESS_EVERY = 500
_IN_PARALLEL = 8


class Loading:
    """Loads what was discovered into a catalog; one bad partition stops no other.

    Deletions that were interrupted are finished as well.
    """

    def __init__(
        self, reactor: Any, pool: ThreadPool, catalog: Catalog, found: Discovery
    ) -> None:
        self._reactor = reactor
        self._pool = pool
        self._catalog = catalog
        self._directories = found.directories
        self._leftovers = found.leftovers
        self._done = 0
        self.abandoned = False

    def start(self) -> Deferred[Any]:
        """Fires when all partitions are loaded or known to be unusable."""
        calls = chain(
            (partial(self._load, one) for one in self._directories),
            (partial(self._remove, one) for one in self._leftovers),
        )
        steps = (call() for call in calls if not self.abandoned)
        cooperator = Cooperator(scheduler=lambda call: self._reactor.callLater(0, call))
        return DeferredList(
            [cooperator.cooperate(steps).whenDone() for _ in range(_IN_PARALLEL)]
        )

    def _load(self, directory: PartitionDirectory) -> Deferred[None]:
        loading: Deferred[Any] = deferToThreadPool(
            self._reactor, self._pool, self._catalog.load, directory
        )
        loading.addCallback(lambda found: self._catalog.loaded(directory, found))
        loading.addErrback(self._failed, directory)
        return loading.addCallback(self._progress)

    def _remove(self, leftover: Path) -> Deferred[None]:
        removing: Deferred[Any] = deferToThreadPool(
            self._reactor, self._pool, self._catalog.remove_leftover, leftover
        )
        return removing.addErrback(
            lambda failure: _log.error(
                "cannot delete {path}: {reason}",
                path=str(leftover),
                reason=str(failure.value),
            )
        )

    def _failed(self, failure: Failure, directory: PartitionDirectory) -> None:
        reason = str(failure.value)
        _log.critical(
            "{path} cannot be used, its puts and gets are refused: {reason}",
            path=str(directory.path),
            reason=reason,
        )
        self._catalog.load_failed(directory, reason)

    def _progress(self, _: object) -> None:
        self._done += 1
        if self._done % _PROGRESS_EVERY == 0:
            count = len(self._directories)
            _log.info("loaded {done} of {count}", done=self._done, count=count)


def log_reports(catalog: Catalog) -> None:
    """Say what recovery found; a clean start is one line."""
    for report in catalog.reports:
        for problem in report.problems:
            _log.warn("{problem}", problem=problem)
        if report.cut_bytes:
            _log.warn(
                "{name}: cut {size} bytes from offset {at} on, the end of a write that"
                " was not finished",
                name=report.partition,
                size=report.cut_bytes,
                at=report.cut_at,
            )
        for begin, end in report.bad:
            _log.error(
                "{name}: bytes {begin} to {end} are damaged; readers go on behind them",
                name=report.partition,
                begin=begin,
                end=end,
            )
    clean = sum(report.clean for report in catalog.reports)
    _log.info(
        "{count} partitions loaded, {clean} after an orderly stop, {failed} unusable,"
        " {scanned} bytes checked",
        count=len(catalog.reports),
        clean=clean,
        failed=len(catalog.failed),
        scanned=sum(report.scanned_bytes for report in catalog.reports),
    )
