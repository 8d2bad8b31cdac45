"""When retention runs: the `deleteWhen` of all topics that have a store now."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from attrs import define
from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.broker.quartz import QuartzSchedule
from metatwist.errors import SettingsError

MAX_SLEEP_S = 60.0


@define
class _Plan:
    """When one expression is due next; `schedule` is None where it cannot be read."""

    schedule: QuartzSchedule | None
    due_s: float | None = None

    def count_from(self, now_s: float) -> None:
        self.due_s = self.schedule.next_after(now_s) if self.schedule else None


class RetentionSchedule(Service):
    """Runs retention for the topics that are due, one run at a time.

    `topics` gives expression by topic and is asked at each wake-up, so a topic that a
    wildcard let in counts within `MAX_SLEEP_S`. `run` gets the sorted names of all due
    topics; what falls due during a run is run after it, once. A failed run is logged.
    `now_s` is the wall clock: a time that a forward step has passed is run at once, and
    a backward step of more than `MAX_SLEEP_S` counts anew. Stopping waits for the run.
    """

    log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        topics: Callable[[], Mapping[str, str]],
        run: Callable[[tuple[str, ...]], Deferred[None] | None],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._run = run
        self._now_s = now_s
        self._timer: IDelayedCall | None = None
        self._busy = False
        self._waiting_for_run: Deferred[None] | None = None
        self._reset()

    def startService(self) -> None:
        """Begin to count from now; a time that passed before is not made up for."""
        super().startService()
        self._reset()
        self._wake()

    def stopService(self) -> Deferred[None] | None:
        """Stop waking; the Deferred, if any, fires when the current run is over."""
        super().stopService()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy:
            self._waiting_for_run = Deferred()
        return self._waiting_for_run

    def _reset(self) -> None:
        self._seen_s = self._now_s()
        self._plans: dict[str, _Plan] = {}
        self._groups: dict[str, list[str]] = {}

    def _wake(self) -> None:
        self._timer = None
        now_s = self._now_s()
        try:
            self._observe(now_s)
        except Exception:
            self.log.failure("cannot tell which topics retention covers")
        if not self._busy:
            self._run_due(now_s)
        self._sleep()

    def _observe(self, now_s: float) -> None:
        """Group the topics of this moment and plan expressions not seen before."""
        stepped_back = now_s < self._seen_s - MAX_SLEEP_S
        self._seen_s = now_s
        if stepped_back:
            for plan in self._plans.values():
                plan.count_from(now_s)
        groups: dict[str, list[str]] = defaultdict(list)
        for topic, expression in self._topics().items():
            groups[expression].append(topic)
        self._plans = {
            expression: self._plans.get(expression) or self._plan(expression, now_s)
            for expression in groups
        }
        self._groups = groups

    def _plan(self, expression: str, now_s: float) -> _Plan:
        try:
            plan = _Plan(QuartzSchedule(expression))
        except SettingsError:
            self.log.failure("no retention: {expression}", expression=expression)
            return _Plan(None)
        plan.count_from(now_s)
        return plan

    def _run_due(self, now_s: float) -> None:
        names: list[str] = []
        for expression, plan in self._plans.items():
            if plan.due_s is not None and plan.due_s <= now_s:
                plan.count_from(now_s)
                names += self._groups[expression]
        if names:
            self._busy = True
            topics = tuple(sorted(names))
            finished = maybeDeferred(self._run, topics)
            finished.addErrback(self._log_failure, topics)
            finished.addCallback(self._run_over)

    def _log_failure(self, failure: Failure, topics: tuple[str, ...]) -> None:
        names = ", ".join(topics)
        self.log.failure("retention failed for {names}", failure=failure, names=names)

    def _run_over(self, _: object) -> None:
        self._busy = False
        if self._waiting_for_run is not None:
            waiting, self._waiting_for_run = self._waiting_for_run, None
            waiting.callback(None)
        if self._timer is not None:
            self._timer.reset(0)

    def _sleep(self) -> None:
        if not self.running:
            return
        dues_s = [plan.due_s for plan in self._plans.values() if plan.due_s is not None]
        sleep_s = MAX_SLEEP_S
        if dues_s and not self._busy:
            sleep_s = min(MAX_SLEEP_S, max(0.0, min(dues_s) - self._now_s()))
        self._timer = self._clock.callLater(sleep_s, self._wake)
