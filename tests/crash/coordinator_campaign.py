"""Rounds of start, check, load, kill and damage for the embedded coordinator."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from attrs import define, frozen

from tests.support.child_process import free_port

from .ledger import Breach
from .offsets import OffsetWriter
from .own_broker import OwnBroker
from .tree_truth import TreeTruth, wait_until
from .write_ahead_log import WriteAheadLog, lose, tear

_JOIN_LIMIT_S = 30
_MOST_WRITERS = 4
_LONGEST_FIRST_S = 0.03
_COPIED_FRAMES = 1000
"""With as many frames in the log some may have been copied into the database, and
losing them from the log is then nothing that SQLite must bear."""


@frozen
class Plan:
    """How a campaign goes; each of the `groups` has one session at a time."""

    rounds: int
    seed: int
    work_dir: Path
    groups: int = 32
    longest_load_s: float = 1.0
    say: Callable[[str], None] = print


@define
class Totals:
    """What a campaign did. `surplus` counts requests that were done and not answered,
    `checked` a znode once for each time it was read back and found right."""

    rounds: int = 0
    kills: int = 0
    kills_at_answers: int = 0
    kills_in_first_start: int = 0
    kills_in_start: int = 0
    kills_in_stop: int = 0
    torn: int = 0
    lossy: int = 0
    starts: int = 0
    sessions: int = 0
    refused: int = 0
    acknowledged: int = 0
    surplus: int = 0
    checked: int = 0
    databases: int = 0
    seconds: float = 0.0

    def text(self) -> str:
        """One paragraph for people."""
        return (
            f"{self.rounds} rounds, {self.kills} kills ({self.kills_at_answers} right"
            f" after an answer, {self.kills_in_first_start} during the first start of"
            f" a database, {self.kills_in_start} during a later one,"
            f" {self.kills_in_stop} during a stop), {self.torn} torn and {self.lossy}"
            f" lossy logs, {self.starts} starts, {self.databases} databases;"
            f" {self.sessions} sessions, {self.refused} refused afterwards;"
            f" {self.acknowledged} writes acknowledged, {self.surplus} more done,"
            f" {self.checked} znodes checked, {self.seconds:.0f} s"
        )


def coordinator_broker(work_dir: Path) -> tuple[OwnBroker, int]:
    """A broker with an embedded coordinator, not started, and that one's port."""
    port = free_port()
    variables = {
        "METATWIST_METATWIST_coordinator": "embedded",
        "METATWIST_METATWIST_coordinatorEndpoint": f"tcp:{port}:interface=127.0.0.1",
    }
    return OwnBroker(work_dir, environ=variables), port


def database_of(broker: OwnBroker) -> Path:
    """The coordinator's file."""
    return Path(f"{broker.data_dir}.coordinator") / "tree.sqlite3"


class CoordinatorCampaign:
    """Runs a plan; `totals` are up to date after every round, and after a Breach."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._random = random.Random(plan.seed)
        self.totals = Totals()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.totals.databases += 1
        work_dir = self._plan.work_dir / f"tree-{self.totals.databases}"
        self.broker, self.port = coordinator_broker(work_dir)
        self._truth = TreeTruth(self._plan.groups)
        self._copied: tuple[int, int] | None = None

    def run(self) -> Totals:
        """All rounds, and an orderly end. Raises Breach, keeping the directory."""
        began_s = time.monotonic()
        try:
            for number in range(1, self._plan.rounds + 1):
                self._one_round(is_first=number == 1)
                self.totals.rounds = number
            self._end_in_order()
        except BaseException:
            self.broker.kill()
            raise
        finally:
            self.totals.seconds = time.monotonic() - began_s
        return self.totals

    # -- one round ----------------------------------------------------------------

    def _one_round(self, is_first: bool) -> None:
        if not is_first and self._random.random() < 0.1:
            self._end_in_order()
            shutil.rmtree(self.broker.work_dir)
            self._begin_anew()
        if not database_of(self.broker).exists():
            for _ in range(self._random.randint(1, 3)):
                self._kill_in_first_start()
        elif self._random.random() < 0.2:
            self._kill_in_start()
        self._start()
        writers = self._load()
        is_stop = self._kill(writers)
        self._take_notes(writers)
        self._damage(is_stop)

    def _start(self) -> None:
        """Start, and check what is there."""
        self.broker.start()
        self.totals.starts += 1
        truth, totals = self._truth, self.totals
        before = truth.checked, truth.surplus, truth.refused
        truth.verify(self.port, self.broker.address)
        totals.checked += truth.checked - before[0]
        totals.surplus += truth.surplus - before[1]
        totals.refused += truth.refused - before[2]

    def _kill_in_first_start(self) -> None:
        """About when the database is made."""
        self.broker.begin()
        directory = database_of(self.broker).parent
        wait_until(directory.exists, "the coordinator's directory is there")
        time.sleep(self._random.uniform(0, _LONGEST_FIRST_S))
        self._count_kill()
        self.totals.kills_in_first_start += 1
        self.broker.kill()

    def _kill_in_start(self) -> None:
        self.broker.begin()
        time.sleep(self._random.uniform(0.3, 1.2) * self.broker.answered_after_s)
        self._count_kill()
        self.totals.kills_in_start += 1
        self.broker.kill()

    def _count_kill(self) -> None:
        if not self.broker.is_running:
            raise Breach(f"the broker ended by itself:\n{self.broker.log_tail()}")
        self.totals.kills += 1

    def _load(self) -> list[OffsetWriter]:
        models = self._truth.models
        self._random.shuffle(models)
        busy = models[: self._random.randint(1, len(models))]
        count = min(self._random.randint(1, _MOST_WRITERS), len(busy))
        writers = [
            OffsetWriter(self.port, busy[number::count], self._another_random())
            for number in range(count)
        ]
        for writer in writers:
            writer.start()
        time.sleep(self._random.uniform(0, self._plan.longest_load_s))
        self._check_writing(writers)
        return writers

    def _another_random(self) -> random.Random:
        return random.Random(self._random.getrandbits(64))

    # -- the end of a round -------------------------------------------------------

    def _kill(self, writers: list[OffsetWriter]) -> bool:
        """Kill; true when the broker was about to stop."""
        dice = self._random.random()
        if dice < 0.15:
            self._kill_in_stop(writers)
            return True
        self._count_kill()
        if dice < 0.6:
            self._strike(self._random.choice(writers))
            self.totals.kills_at_answers += 1
        self.broker.kill()
        return False

    def _strike(self, writer: OffsetWriter) -> None:
        """Kill right after an answer, which may have been given too early."""
        struck, pid = threading.Event(), self.broker.pid

        def strike() -> None:
            os.kill(pid, signal.SIGKILL)
            struck.set()

        writer.strike = strike
        while not struck.wait(0.01):
            self._check_writing([writer], struck.is_set)

    def _check_writing(
        self, writers: list[OffsetWriter], is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """Nobody is turned away while the broker runs."""
        for writer in writers:
            if not writer.is_alive() and not is_over():
                why = writer.error or "a writer was turned away"
                raise Breach(f"{why}\n{self.broker.log_tail()}")

    def _kill_in_stop(self, writers: list[OffsetWriter]) -> None:
        if self._random.random() < 0.3:
            for writer in writers:
                writer.finish()
        os.kill(self.broker.pid, signal.SIGTERM)
        time.sleep(self._random.uniform(0, 0.15))
        if self.broker.is_running:
            self.totals.kills += 1
            self.totals.kills_in_stop += 1
        self.broker.kill()

    def _take_notes(self, writers: list[OffsetWriter]) -> None:
        for writer in writers:
            writer.join(_JOIN_LIMIT_S)
            if writer.is_alive():
                raise Breach("a writer hangs though the broker is dead")
            if writer.error is not None:
                raise Breach(writer.error)
            for notes in writer.notes:
                self._truth.take(notes)
                self.totals.acknowledged += notes.answered
                self.totals.sessions += notes.session is not None

    def _damage(self, is_stop: bool) -> None:
        database = database_of(self.broker)
        log = WriteAheadLog.of(database)
        if log is None:
            return
        if is_stop or log.frames >= _COPIED_FRAMES:
            self._copied = log.salts
        dice = self._random.random()
        if dice < 0.45:
            self.totals.torn += 1
            self._plan.say(f"  torn: {tear(log, self._random)}")
        elif dice < 0.6 and self._copied != log.salts:
            lost = lose(log, database, self._random)
            if lost is not None:
                self.totals.lossy += 1
                self._plan.say(f"  lossy: {lost[0]}")
                self._truth.left = lost[1]

    def _end_in_order(self) -> None:
        """Start, check, stop in order, start and check again: with no log left, all is
        in the database."""
        for _ in range(2):
            self._start()
            self.broker.stop()
            if WriteAheadLog.of(database_of(self.broker)) is not None:
                raise Breach("an orderly stop left a log")
