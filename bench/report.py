"""The printed tables and the raw figures of a sitting."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Sequence

from attrs import asdict, frozen
from rich import box
from rich.console import Console
from rich.table import Table
from session import Ending, Run

_LATENCIES = ("p50", "p99", "p999")


@frozen
class Summary:
    """The medians of one row on one server.

    Attributes:
        rate: messages or, for a get, bytes a second.
        rates: of each round.
        latency_ms: by name; empty for a get.
        cpu_us: of the server for each message, or for each KiB got.
        ratios: to `floor` and `java`: the median of the ratios within each round, in
            which the disk had less time to drift.
    """

    row: str
    title: str
    is_get: bool
    server: str
    rate: float
    rates: list[float]
    latency_ms: dict[str, float]
    cpu_us: float
    ratios: dict[str, float]


def summarize(runs: Sequence[Run]) -> list[Summary]:
    """One summary for each server among the runs of one row."""
    servers = list(dict.fromkeys(run.server for run in runs))
    return [_summary(runs, server) for server in sorted(servers, key=_place)]


def _place(server: str) -> int:
    return ("floor", "java", "ours").index(server)


def _summary(runs: Sequence[Run], server: str) -> Summary:
    own = [run for run in runs if run.server == server]
    rates = {(run.server, run.round): run.result.rate for run in runs}
    ratios = {}
    for base in ("floor", "java"):
        paired = [
            rates[server, run.round] / rates[base, run.round]
            for run in own
            if (base, run.round) in rates and base != server
        ]
        if paired:
            ratios[base] = statistics.median(paired)
    row = own[0].row
    unit = 1024 if row.is_get else 1
    return Summary(
        row=row.name,
        title=row.title,
        is_get=row.is_get,
        server=server,
        rate=statistics.median(run.result.rate for run in own),
        rates=[run.result.rate for run in own],
        latency_ms={
            name: statistics.median(run.result.latency_ms[name] for run in own)
            for name in own[0].result.latency_ms
        },
        cpu_us=statistics.median(
            run.result.cpu_s / run.result.amount * unit * 1e6 for run in own
        ),
        ratios=ratios,
    )


def rate_text(summary: Summary) -> str:
    """Messages a second, or GB a second for a get."""
    if summary.is_get:
        return f"{summary.rate / 1e9:.2f} GB/s"
    return f"{summary.rate:,.0f}"


def speed_table(summaries: Sequence[Summary]) -> Table:
    """Rates, latencies and ratios, a line for each row and server."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("work")
    table.add_column("server")
    headings = ["rate /s", *(f"{name} ms" for name in ("p50", "p99", "p99.9"))]
    for heading in [*headings, "cpu us", "of floor", "of Java"]:
        table.add_column(heading, justify="right")
    last = ""
    for one in summaries:
        latencies = [_number(one.latency_ms.get(name), "{:.3f}") for name in _LATENCIES]
        ratios = [
            _number(one.ratios.get("floor"), "{:.0%}"),
            _number(one.ratios.get("java"), "{:.2f} x"),
        ]
        title = "" if one.row == last else one.title
        cells = [rate_text(one), *latencies, f"{one.cpu_us:.1f}", *ratios]
        table.add_row(title, one.server, *cells)
        last = one.row
    return table


def ending_table(endings: Sequence[Ending]) -> Table:
    """Memory and start time, a line for each server."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("server")
    for heading in ("resident MB", "Pss MB", "peak MB", "start s", "with data GB"):
        table.add_column(heading, justify="right")
    for one in endings:
        sizes = (one.memory.resident, one.memory.proportional, one.memory.peak)
        cells = [*(f"{size / 1e6:.0f}" for size in sizes), f"{one.start_s:.2f}"]
        table.add_row(one.server, *cells, f"{one.data_bytes / 1e9:.2f}")
    return table


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def show(summaries: Sequence[Summary], endings: Sequence[Ending]) -> None:
    """Print both tables, whole even where the output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(speed_table(summaries))
    console.print(ending_table(endings))
    console.print(
        "Medians of rounds; a ratio is the median of the ratios within each round.\n"
        "cpu: of the server for each message, or for each KiB got. Resident: sum over"
        " its processes,\nthe largest seen after a run; Pss counts shared pages once.",
        style="dim",
    )


def raw_figures(
    runs: Sequence[Run], summaries: Sequence[Summary], endings: Sequence[Ending]
) -> dict[str, object]:
    """Everything measured, for `--json`."""
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": {
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
        },
        "runs": [
            {"row": run.row.name, "server": run.server, "round": run.round}
            | asdict(run.result)
            | {"rate": run.result.rate}
            for run in runs
        ],
        "summaries": [asdict(one) for one in summaries],
        "endings": [asdict(one) for one in endings],
    }
