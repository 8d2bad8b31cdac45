"""The parts of docs/client.md."""

from __future__ import annotations

import re

from .broker_process import ROOT

GUIDE = ROOT / "docs" / "client.md"
EXAMPLES = ROOT / "docs" / "examples"
_BLOCK = re.compile(
    r"(?:^\[([\w.]+)\]\(examples/\1\)\n\n)?^```python\n(.*?)^```$", re.M | re.S
)


def examples(page: str) -> dict[str, str]:
    """The programs it shows, by name of the file."""
    return {name: code for name, code in _BLOCK.findall(page) if name}


def snippets(page: str) -> list[str]:
    """All other code, in its order."""
    return [code for name, code in _BLOCK.findall(page) if not name]


def table_under(page: str, heading: str) -> list[list[str]]:
    """The cells of each row of the first table below a heading."""
    _, _, below = page.partition(f"\n{heading}\n")
    found = re.search(r"^\|[-|]+\|\n((?:\|.*\n)+)", below, re.M)
    assert found is not None, f"no table below {heading!r}"
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        for row in found[1].splitlines()
    ]
