"""`python -m tests.crash.run_coordinator --rounds N`: kill an embedded coordinator N
times and more.

Exit code 0 when all that was acknowledged was there each time, 1 on a breach; the
databases are then kept. SIGKILL does not test a power loss, since the page cache
outlives a process: damage behind the last commit of the log stands in for that.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.child_process import PeerError

from .coordinator_campaign import CoordinatorCampaign, Plan
from .ledger import Breach


def main(arguments: list[str]) -> int:
    """Run the program; returns the exit code."""
    asked = _parse(arguments)
    work_dir = Path(tempfile.mkdtemp(prefix="metatwist-crash-", dir=asked.dir))
    plan = Plan(
        rounds=asked.rounds,
        seed=asked.seed,
        work_dir=work_dir,
        groups=asked.groups,
        longest_load_s=asked.load_seconds,
        say=print if asked.verbose else lambda _: None,
    )
    campaign = CoordinatorCampaign(plan)
    print(f"crash test: {asked.rounds} rounds, seed {asked.seed}, {work_dir}")
    try:
        totals = campaign.run()
    except (Breach, PeerError) as error:
        print(f"{campaign.totals.text()}\nBREACH: {error}\nkept: {work_dir}")
        return 1
    shutil.rmtree(work_dir)
    print(f"{totals.text()}\nevery acknowledged write was there, and none in part")
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.run_coordinator")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", type=int, default=32, help="sessions at most")
    parser.add_argument("--dir", help="where to keep the data meanwhile")
    parser.add_argument("--load-seconds", type=float, default=1.0)
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
