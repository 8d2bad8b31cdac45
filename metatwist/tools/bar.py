"""A progress bar on stderr, drawn four times a second however fast the work is."""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import LoopingCall

PERIOD_S = 0.25


class Bar:
    """Shows how much of `total` is done; the work counts in `done`, which is cheap.

    Nothing is shown where `shown` is false or stderr is no terminal. `unit` is `bytes`,
    `messages` or `seconds`; `total` None is a bar without an end.
    """

    def __init__(self, clock: Any, what: str, total: float | None, unit: str) -> None:
        self.done = 0.0
        self.total = total
        self._loop = LoopingCall(self._draw)
        self._loop.clock = clock
        self._what = what
        self._unit = unit
        self._progress: Any = None
        self._task: Any = None

    def start(self, shown: bool) -> None:
        """Begin to draw."""
        if not shown or not sys.stderr.isatty():
            return
        self._progress = _progress(self._unit)
        self._task = self._progress.add_task(self._what, total=self.total)
        self._progress.start()
        self._loop.start(PERIOD_S)

    def _draw(self) -> None:
        self._progress.update(self._task, completed=self.done, total=self.total)
        self._progress.refresh()

    def stop(self) -> None:
        """Draw a last time and leave the line. Idempotent."""
        if self._progress is None:
            return
        self._loop.stop()
        self._draw()
        self._progress.stop()
        self._progress = None


def _progress(unit: str) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    counts = [DownloadColumn(binary_units=True), TransferSpeedColumn()]
    columns: list[Any] = counts if unit == "bytes" else [MofNCompleteColumn()]
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
    )
