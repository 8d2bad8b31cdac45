"""`make bench-client`: our client beside the released Java client, on one broker.

One process of each sends, then consumes, in turn, several times; what counts is the
ratio of the medians. The Java client gets each of its ways of doing it; `bare` is
without the memory for duplicates, which both have by default.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from peer import ROOT

from tests.interop.java_jars import LIB_DIR, fetch_jars  # isort: skip
from tests.support.broker_process import BrokerProcess  # isort: skip
from tests.support.child_process import free_port  # isort: skip

BUILD = ROOT / "bench" / "build"
OPENS = ["java.lang", "java.nio", "sun.nio.ch", "java.util"]
# (which client, how, sends in flight or threads)
SENDING = [
    ("ours", "many", 4000),
    ("ours", "send", 4000),
    ("java", "callback", 4000),
    ("java", "callback", 500),
    ("java", "threads", 64),
]
CONSUMING = [
    ("ours", "consume", 0),
    ("ours", "consume-bare", 0),
    ("ours", "batches", 0),
    ("ours", "batches-bare", 0),
    ("java", "consume", 2),
    ("java", "consume-bare", 1),
    ("java", "consume-bare", 2),
    ("java", "consume-bare", 4),
]
Way = tuple[str, str, int]


def main() -> int:
    """Measure and print."""
    options = _options()
    _compile()
    with tempfile.TemporaryDirectory(dir=BUILD) as work_dir:
        port = free_port()
        with BrokerProcess(Path(work_dir), environ=_environ(port, options)):
            address = f"127.0.0.1:{port}"
            for title, ways in (("sent", SENDING), ("consumed", CONSUMING)):
                _table(title, _measure(ways, address, options))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=300_000, help="a run")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--sync", action="store_true", help="fsync before each answer (group commit)"
    )
    return parser.parse_args()


def _compile() -> None:
    fetch_jars()
    BUILD.mkdir(exist_ok=True)
    source = ROOT / "bench" / "java" / "ClientLoad.java"
    command = ["javac", "--release", "11", "-d", BUILD, "-cp", f"{LIB_DIR}/*", source]
    subprocess.run([str(part) for part in command], check=True)


def _environ(port: int, options: argparse.Namespace) -> dict[str, str]:
    return {
        "METATWIST_METATWIST_coordinator": "embedded",
        "METATWIST_METATWIST_coordinatorEndpoint": f"tcp:{port}:interface=127.0.0.1",
        "METATWIST_SYSTEM_unflushThreshold": "0" if options.sync else "1000",
    }


def _measure(
    ways: list[Way], address: str, options: argparse.Namespace
) -> dict[Way, list[dict[str, float]]]:
    found: dict[Way, list[dict[str, float]]] = {way: [] for way in ways}
    for run in range(options.runs):
        for way in ways if run % 2 == 0 else reversed(ways):
            found[way].append(_run(way, address, options))
    return found


def _run(way: Way, address: str, options: argparse.Namespace) -> dict[str, float]:
    client, how, width = way
    if client == "java":
        command = ["java", *_opened(), "-Xmx1g", "-cp", f"{BUILD}:{LIB_DIR}/*"]
        command += ["-Dlog4j.configuration=none", "ClientLoad"]
    else:
        command = [sys.executable, str(ROOT / "bench" / "client_load.py")]
    command += [how, address, "test", str(options.messages), str(options.size)]
    done = subprocess.run(
        [*command, str(width)], check=True, capture_output=True, text=True, timeout=300
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _opened() -> list[str]:
    return [
        part
        for package in OPENS
        for part in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")
    ]


def _table(title: str, found: dict[Way, list[dict[str, float]]]) -> None:
    medians = {way: median(run["rate"] for run in runs) for way, runs in found.items()}
    best = max(rate for (client, _, _), rate in medians.items() if client == "java")
    print(f"\n{title + ' /s':28}{'median':>10}{'least':>10}{'most':>10}{'x Java':>8}")
    for way, runs in found.items():
        client, how, width = way
        rates = [run["rate"] for run in runs]
        name = f"{client} {how} {width or ''}"
        ratio = f"{medians[way] / best:.2f}"
        figures = f"{medians[way]:>10.0f}{min(rates):>10.0f}{max(rates):>10.0f}"
        failures = sum(run["failures"] for run in runs)
        cpu = [run["cpu_us"] for run in runs if "cpu_us" in run]
        more = f"  {median(cpu):.1f} us of processor" if cpu else ""
        more += f"  {failures:.0f} FAILED" if failures else ""
        print(f"{name:28}{figures}{ratio:>8}{more}")


if __name__ == "__main__":
    sys.exit(main())
