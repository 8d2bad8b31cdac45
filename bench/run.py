"""`make bench`: measure this broker beside a bare C server and the released Java one.

Builds metaload and floor into bench/build, keeps all data in a temporary folder there,
and ends every process and drops all data on the way out, whatever happens.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from load import LoadGenerator
from peer import ROOT, Peer
from peers import make_peer, why_not
from report import Summary, rate_text, raw_figures, show, summarize
from rows import ALL_ROWS, choose_rows
from session import Session

BUILD = ROOT / "bench" / "build"
PROGRAMS = {"metaload": ["-lz"], "floor": ["-pthread"]}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a server had to be left out half-way."""
    options = _options(argv)
    try:
        rows = choose_rows(options.rows.split(","))
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun_s = time.monotonic()
    try:
        build_programs()
        with _work_dir() as work_dir, _peers(options, work_dir) as peers:
            generator = LoadGenerator(BUILD / "metaload")
            session = Session(peers, generator, options.seconds, _say)
            session.start()
            runs, summaries = [], []
            for row in rows:
                of_row = session.measure(row, options.rounds)
                runs += of_row
                summaries += summarize(of_row)
                _say_row(summaries, row.name)
            endings = session.end()
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        print(f"bench: cannot build the C programs: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted; processes ended, data dropped", file=sys.stderr)
        return 130
    show(summaries, endings)
    if options.json:
        figures = raw_figures(runs, summaries, endings)
        figures["notes"] = session.notes
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    _say(f"took {time.monotonic() - begun_s:.0f} s")
    return 1 if len(session.peers) < len(peers) else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run.py",
        description=__doc__,
        epilog="Rows: " + ", ".join(row.name for row in ALL_ROWS),
    )
    add = parser.add_argument
    add("--rows", default="*", help="names or shell patterns, comma between (*)")
    add("--servers", default="floor,java,ours", help="which, comma between (all)")
    add("--rounds", type=int, default=3, help="runs of each row on each server (3)")
    add("--seconds", type=float, default=1.0, help="about how long a run takes (1)")
    add("--reactor", help="for ours: a name that twistd --reactor knows")
    add("--json", type=Path, help="also write every figure to this file")
    return parser.parse_args(argv)


def build_programs() -> None:
    """Compile what is older than its source.

    Raises:
        FileNotFoundError: there is no C compiler called cc.
        CalledProcessError: it failed; its own output says why.
    """
    BUILD.mkdir(exist_ok=True)
    for name, libraries in PROGRAMS.items():
        source, program = ROOT / "bench" / f"{name}.c", BUILD / name
        if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
            continue
        partial = program.with_suffix(".partial")
        command = ["cc", "-O2", "-o", str(partial), str(source), *libraries]
        subprocess.run(command, check=True)
        partial.rename(program)


@contextmanager
def _work_dir() -> Iterator[Path]:
    work_dir = Path(tempfile.mkdtemp(prefix="run-", dir=BUILD))
    try:
        yield work_dir
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


@contextmanager
def _peers(options: argparse.Namespace, work_dir: Path) -> Iterator[list[Peer]]:
    """The wanted servers that can run here, not started; none runs afterwards."""
    peers: list[Peer] = []
    for name in options.servers.split(","):
        reason = why_not(name)
        if reason:
            _say(f"{name} is not measured: {reason}")
            continue
        peers.append(make_peer(name, work_dir / name, options.reactor))
    try:
        yield peers
    finally:
        # A second Ctrl-C must not leave half of them behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for peer in peers:
            peer.kill()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _say_row(summaries: Sequence[Summary], row: str) -> None:
    figures = [f"{s.server} {rate_text(s)}" for s in summaries if s.row == row]
    _say(f"{row}: {', '.join(figures)}")


if __name__ == "__main__":
    sys.exit(main())
