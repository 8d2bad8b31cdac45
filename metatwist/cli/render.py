"""JSON values of the broker as text: tables on a terminal, plain columns in a pipe.

It knows shapes, not verbs: an object is a list of its names, a list of objects is a
table, and an object of objects is a table with its names first. Units at the end of
a name (`_bytes`, `_s`, `time_ms`) decide how a number reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import click
from attrs import frozen

from metatwist.coordination.foreign_text import escaped

MOST_DRAWN_ROWS = 500
"""Past that even a terminal gets plain columns: drawing takes a second for 10,000
cells, and nobody reads them there."""


@frozen
class Grid:
    """Rows of equal length; `header` is empty for a list of names and values."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def show(result: object, *, as_json: bool) -> None:
    """Print a JSON value to stdout, as JSON or for people."""
    if as_json:
        click.echo(json.dumps(result, indent=2))
        return
    blocks = list(layout(result))
    if sys.stdout.isatty():
        _show_rich(blocks)
    else:
        click.echo("\n\n".join(plain(block) for block in blocks))


def layout(result: object, title: str = "") -> Iterator[str | Grid]:
    """Cut a JSON value into the texts and grids that show it, in order."""
    if isinstance(result, Mapping) and result:
        yield from _object_layout(result, title)
    elif isinstance(result, list) and any(isinstance(row, Mapping) for row in result):
        yield _table(title, [_row_of(row) for row in result])
    elif isinstance(result, list) and result:
        text = "\n".join(cell("", item) for item in result)
        yield f"{title}:\n{text}" if title else text
    elif isinstance(result, str):
        yield printable(result.replace("\r\n", "\n").rstrip("\n"))
    elif result is None:
        yield "done"
    else:
        yield cell("", result)


def _object_layout(values: Mapping[str, object], title: str) -> Iterator[str | Grid]:
    if (title or len(values) > 1) and all(
        isinstance(one, Mapping) for one in values.values()
    ):
        yield _table(
            title, [{"": name, **_row_of(row)} for name, row in values.items()]
        )
        return
    nested = {name: one for name, one in values.items() if _is_nested(one)}
    flat = tuple(
        (label(name), cell(name, one))
        for name, one in values.items()
        if name not in nested
    )
    if flat:
        yield Grid(title, (), flat)
    for name, one in nested.items():
        yield from layout(one, f"{title} {label(name)}".lstrip())


def _is_nested(value: object) -> bool:
    return isinstance(value, (Mapping, list)) and len(value) > 0


def _row_of(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {"": value}


def _table(title: str, rows: Sequence[Mapping[str, object]]) -> Grid:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = tuple(tuple(cell(name, row.get(name)) for name in names) for row in rows)
    return Grid(title, tuple(label(name) for name in names), cells)


def label(name: str) -> str:
    """`last_flush_time_ms` reads `last flush time`: the value shows its own unit."""
    for unit in ("_bytes", "_s", "_ms"):
        if name.endswith(unit) and (unit != "_ms" or name.endswith("time_ms")):
            name = name[: -len(unit)]
            break
    return printable(name.replace("_", " "))


def cell(name: str, value: object) -> str:
    """One value as text; `name` tells its unit."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(value, (Mapping, list)):
        return printable(json.dumps(value, ensure_ascii=False)) if value else "none"
    if isinstance(value, (int, float)):
        return _number(name, value)
    return printable(str(value)).replace("\n", " ")


def _number(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return _size(value)
    if name.endswith("_s"):
        return _duration(value)
    if name.endswith("time_ms") and value > 0:
        return datetime.fromtimestamp(value / 1000).isoformat(" ", "milliseconds")
    return f"{value:g}" if isinstance(value, float) else str(value)


def _size(size_bytes: float) -> str:
    scaled = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(scaled) < 1024:
            return f"{scaled:.0f} B" if unit == "B" else f"{scaled:.1f} {unit}"
        scaled /= 1024
    return f"{scaled:.1f} TiB"


def _duration(duration_s: float) -> str:
    if 0 < duration_s < 1:
        return f"{duration_s * 1000:g} ms"
    if duration_s < 60:
        return f"{duration_s:g} s"
    minutes, hours = int(duration_s // 60) % 60, int(duration_s // 3600)
    if hours < 1:
        return f"{minutes} min {int(duration_s) % 60} s"
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def printable(text: str) -> str:
    """Escape what could steer the terminal: names come from the network."""
    return escaped(text, keep="\n\t")


def plain(block: str | Grid) -> str:
    """Columns two blanks apart, without lines: made for grep and awk."""
    if isinstance(block, str):
        return block
    rows = [block.header, *block.rows] if block.header else list(block.rows)
    widths = [max(len(text) for text in column) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    ]
    title = [f"{block.title}:"] if block.title else []
    return "\n".join([*title, *(line.rstrip() for line in lines)])


def _show_rich(blocks: Sequence[str | Grid]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False, highlight=False)
    for block in blocks:
        if isinstance(block, str) or len(block.rows) > MOST_DRAWN_ROWS:
            console.print(Text(plain(block)), soft_wrap=True)
            continue
        table = Table(
            title=Text(block.title) if block.title else None,
            title_justify="left",
            box=box.SIMPLE_HEAD if block.header else None,
            show_header=bool(block.header),
        )
        for index in range(len(block.rows[0])):
            head = block.header[index] if block.header else ""
            table.add_column(Text(head), overflow="fold")
        for row in block.rows:
            table.add_row(*(Text(text) for text in row))
        console.print(table)
