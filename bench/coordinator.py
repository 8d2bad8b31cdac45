"""`make bench-coordinator`: offset commits into the embedded coordinator, beside puts.

Starts one broker, then measures puts alone, offset writes alone, and both at once. Puts
are a closed loop that takes all it can get, so `both` also shows what the offsets take.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from peer import ROOT

from tests.support.broker_process import BrokerProcess  # isort: skip
from tests.support.child_process import free_port  # isort: skip

BUILD = ROOT / "bench" / "build"
PROGRAMS = {"metaload": ["-lz"], "zkload": []}
# Connections, share of the messages, puts a second (0: all that it can get).
PUTS = {
    "5,000/s": (50, 0.33, 5000),
    "one at a time": (1, 0.12, 0),
    "50 connections": (50, 1, 0),
}


def main() -> int:
    """Measure and print."""
    options = _options()
    BUILD.mkdir(exist_ok=True)
    for name, libraries in PROGRAMS.items():
        source, program = ROOT / "bench" / f"{name}.c", BUILD / name
        subprocess.run(
            ["cc", "-O2", "-o", program, source, *libraries], check=True, cwd=BUILD
        )
    with tempfile.TemporaryDirectory(dir=BUILD) as work_dir:
        port = free_port()
        broker = BrokerProcess(Path(work_dir), environ=_environ(port))
        with broker:
            _measure(broker, port, options)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=10_000, help="writes a second")
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--messages", type=int, default=150_000, help="puts a run")
    return parser.parse_args()


def _environ(port: int) -> Mapping[str, str]:
    return {
        "METATWIST_METATWIST_coordinator": "embedded",
        "METATWIST_METATWIST_coordinatorEndpoint": f"tcp:{port}:interface=127.0.0.1",
    }


def _measure(broker: BrokerProcess, port: int, options: argparse.Namespace) -> None:
    _put(broker, "50 connections", options)
    for name in PUTS:
        _say(f"puts alone, {name}", _put(broker, name, options))
    _say("offset writes alone", _ended(_load(port, options)))
    for name in PUTS:
        writes = _load(port, options)
        _say(f"puts, {name}, while", _put(broker, name, options))
        _say("  offsets are written", _ended(writes))


def _put(broker: BrokerProcess, name: str, options: argparse.Namespace) -> str:
    connections, share, rate = PUTS[name]
    argv = [BUILD / "metaload", "put", "-p", broker.port, "-t", "test", "-P", 4]
    argv += ["-c", connections, "-n", int(options.messages * share), "-r", rate]
    done = subprocess.run(
        [str(one) for one in argv], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    kept = {name: value for name, value in found.items() if name in _PUT_FIGURES}
    return " ".join(f"{name}={value}" for name, value in kept.items())


_PUT_FIGURES = ("msgs_per_s", "p50_ms", "p99_ms", "p999_ms", "max_ms")


def _load(port: int, options: argparse.Namespace) -> subprocess.Popen[str]:
    argv = [str(BUILD / "zkload"), "127.0.0.1", str(port), str(options.sessions)]
    argv += [str(options.rate), str(options.seconds)]
    writes = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert writes.stdout is not None
    writes.stdout.readline()  # all sessions are open
    return writes


def _ended(writes: subprocess.Popen[str]) -> str:
    return writes.communicate()[0]


def _say(what: str, figures: str) -> None:
    print(f"{what:32} {figures.strip()}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
