"""Runs the short pieces of docs/client.md: guide_snippets.py ZOOKEEPER PAGE

Each is run as a program of its own names, `client` and `reactor` given, in the order of
the page; the first that raises ends it all.
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from twisted.internet.task import react

import metatwist.client
from metatwist.client import MetaClient
from tests.support.guide_page import snippets


def compiled(source: str, name: str) -> CodeType:
    """Code that may await at its top."""
    return compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def run(source: str, name: str, names: dict[str, Any]) -> None:
    """To its end."""
    result = FunctionType(compiled(source, name), names)()
    if inspect.isawaitable(result):
        await result


async def main(reactor: Any, zookeeper: str, page: str) -> None:
    """All, with one client."""
    public = {
        name: getattr(metatwist.client, name) for name in metatwist.client.__all__
    }
    async with MetaClient(reactor, zookeeper=zookeeper) as client:
        text = Path(page).read_text(encoding="utf-8")
        for number, source in enumerate(snippets(text), 1):
            names = {"client": client, "reactor": reactor, **public}
            await run(source, f"snippet {number}", names)
            print("ran", number, flush=True)


react(main, sys.argv[1:])
