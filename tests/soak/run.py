"""`make soak`: clients for minutes, with faults; prints what memory, messages and
duplicates do, and fails when something acknowledged was not consumed.

    python -m tests.soak.run [--minutes 5] [--seed 1]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from attrs import frozen

from tests.soak.rig import SESSION_S, Member, Rig

MOST_MEMBERS = 3
PAUSE_S = (1.0, 4.0)
"""Between faults."""
MIB = 1 << 20
MOST_GROWTH = 1.5
"""Of a member's memory, from the first third of its life to the last."""
LONG_LIFE = 30
"""So many samples make a life long enough to judge."""


@frozen
class Outcome:
    """Of one soak: what was counted, and what is wrong."""

    acked: int
    consumed: int
    duplicates: int
    failed: int
    faults: Counter[str]
    problems: list[str]


class Soak:
    """Faults, one after the other, drawn by a seed."""

    def __init__(self, rig: Rig, random: Random, say: Callable[[str], object]) -> None:
        self._rig = rig
        self._random = random
        self._say = say
        self._faults: Counter[str] = Counter()
        self._rss: dict[str, list[int]] = {}
        self._begun_s = time.monotonic()
        self._all: tuple[Callable[[], object], ...] = (
            self.broker_killed,
            self.broker_stopped,
            self.link_cut,
            self.link_silent,
            self.session_expired,
            self.member_joins,
            self.member_leaves,
            self.member_killed,
        )

    def run(self, seconds: float) -> Outcome:
        """Faults for so long, then the reckoning."""
        self._rig.member()
        self._rig.member()
        while time.monotonic() < self._begun_s + seconds:
            self._rest(self._random.uniform(*PAUSE_S))
            fault = self._random.choice(self._all)
            self._faults[fault.__name__] += 1
            fault()
            self._report(fault.__name__)
        self._rig.some_more()
        found = self._rig.finish()
        self._report("end")
        return Outcome(
            len(found.acked),
            len(found.got),
            found.duplicates,
            len(found.failed),
            self._faults,
            self._growth(),
        )

    def _rest(self, seconds: float) -> None:
        """Let things run, and look at memory each half second."""
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            for member in self._running():
                self._rss.setdefault(member.name, []).append(member.rss_bytes)
            time.sleep(0.5)

    def _running(self) -> list[Member]:
        return [one for one in self._rig.members if one.is_running]

    def _report(self, what: str) -> None:
        found = self._rig.read()
        memory = " ".join(
            f"{one.name}={one.rss_bytes / MIB:.0f}" for one in self._running()
        )
        self._say(
            f"{time.monotonic() - self._begun_s:6.1f} s  {what:16}"
            f"  acked {len(found.acked):7}  consumed {len(found.got):7}"
            f"  duplicates {found.duplicates:5}  failed {len(found.failed):5}"
            f"  RSS MiB {memory}"
        )

    def _growth(self) -> list[str]:
        """Members whose memory kept growing."""
        found = []
        for name, samples in self._rss.items():
            third = len(samples) // 3
            if len(samples) < LONG_LIFE:
                continue
            first, last = max(samples[:third]), max(samples[-third:])
            if last > first * MOST_GROWTH:
                found.append(f"{name} grew from {first} to {last} bytes")
        return found

    # -- faults -----------------------------------------------------------------------

    def broker_killed(self) -> None:
        """With the coordinator in it."""
        self._rig.broker.kill()
        self._rest(self._random.uniform(0, 2))
        self._rig.broker.start()

    def broker_stopped(self) -> None:
        """It stands still."""
        os.kill(self._rig.broker.pid, signal.SIGSTOP)
        self._rest(self._random.uniform(1, 5))
        os.kill(self._rig.broker.pid, signal.SIGCONT)

    def link_cut(self) -> None:
        """In the middle of answers."""
        self._rig.broker_link.cut()
        self._rest(self._random.uniform(0, 1))
        self._rig.broker_link.heal()

    def link_silent(self) -> None:
        """Nothing passes."""
        self._rig.broker_link.cut(black_hole=True)
        self._rest(self._random.uniform(1, 5))
        self._rig.broker_link.heal()

    def session_expired(self) -> None:
        """The coordinator is away until sessions have ended."""
        self._rig.coordinator_link.cut()
        self._rest(SESSION_S + 1)
        self._rig.coordinator_link.heal()

    def member_joins(self) -> None:
        """If there is room."""
        if len(self._running()) < MOST_MEMBERS:
            self._rig.member()

    def member_leaves(self) -> None:
        """In order, if there is another."""
        running = self._running()
        if len(running) > 1:
            self._random.choice(running).stop()

    def member_killed(self) -> None:
        """Not in order, if there is another."""
        running = self._running()
        if len(running) > 1:
            self._random.choice(running).kill()


def _soak(options: argparse.Namespace) -> Outcome:
    with (
        tempfile.TemporaryDirectory() as directory,
        Rig(Path(directory), options.rate) as rig,
    ):
        say = partial(print, flush=True)
        return Soak(rig, Random(options.seed), say).run(options.minutes * 60)


def main() -> int:
    """The command; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rate", type=int, default=200, help="a second and member")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    try:
        outcome = _soak(options)
    except AssertionError as problem:
        print(f"FAILED: {problem}")
        return 1
    print(
        f"{outcome.acked} acknowledged, {outcome.consumed} consumed,"
        f" {outcome.duplicates} duplicates, {outcome.failed} failed to be sent;"
        f" faults: {dict(outcome.faults)}"
    )
    for problem in outcome.problems:
        print(f"FAILED: {problem}")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
