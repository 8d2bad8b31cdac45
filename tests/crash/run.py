"""`python -m tests.crash.run --rounds N`: kill a broker N times and more.

Exit code 0 when every acknowledged message was there each time, 1 on a breach; the
data directory is then kept. SIGKILL does not test a power loss, since the page cache
outlives a process: the torn writes that are laid over the files stand in for that.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.child_process import PeerError
from tests.support.wire_client import WireError

from .campaign import Campaign, Plan
from .ledger import Breach


def main(arguments: list[str]) -> int:
    """Run the program; returns the exit code."""
    asked = _parse(arguments)
    work_dir = Path(tempfile.mkdtemp(prefix="metatwist-crash-", dir=asked.dir))
    plan = Plan(
        rounds=asked.rounds,
        seed=asked.seed,
        work_dir=work_dir,
        longest_load_s=asked.load_seconds,
        most_bytes=asked.megabytes << 20,
        say=print if asked.verbose else lambda text: None,
    )
    campaign = Campaign(plan)
    print(f"crash test: {asked.rounds} rounds, seed {asked.seed}, {work_dir}")
    try:
        totals = campaign.run()
    except (Breach, PeerError, WireError) as error:
        print(f"{campaign.totals.text()}\nBREACH: {error}\nkept: {work_dir}")
        return 1
    shutil.rmtree(work_dir)
    print(f"{totals.text()}\nevery acknowledged message was there, once, in order")
    print("SIGKILL leaves the page cache alone; torn writes stood in for power loss")
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.run")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", help="where to keep the data meanwhile")
    parser.add_argument("--load-seconds", type=float, default=1.0)
    parser.add_argument("--megabytes", type=int, default=1024, help="then begin anew")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
