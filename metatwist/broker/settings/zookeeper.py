"""Builds the settings of `[zookeeper]` (spec configuration 4)."""

from __future__ import annotations

import re
from pathlib import Path

from metatwist.broker.settings.findings import Findings
from metatwist.broker.settings.model import ZooKeeperSettings
from metatwist.broker.settings.schema import ZOOKEEPER
from metatwist.broker.settings.sources import Sources
from metatwist.broker.settings.values import SectionReader

_HOST = r"(?:[^\s:,/\[\]]+|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?"
_CONNECT = re.compile(rf"{_HOST}(?:\s*,\s*{_HOST})*(?:/\S*)?")


def zookeeper(
    sources: Sources, findings: Findings, home: Path
) -> ZooKeeperSettings | None:
    """The ensemble's settings, or None when no key of it has a value."""
    entries = sources.fixed["zookeeper"]
    if not entries:
        line = sources.file.sections.get("zookeeper")
        if line is not None:
            findings.warnings.append(
                f"{sources.file.source}:{line}: [zookeeper] has no keys: the broker "
                "runs without an ensemble"
            )
        return None
    reader = SectionReader(ZOOKEEPER, entries, findings, home)
    values = reader.plain_values()
    if not _CONNECT.fullmatch(values["connect"]):
        findings.problems.append(
            entries["zk.zkConnect"].at(
                f"`{values['connect']}` is no list of servers, as in "
                "one:2181,two:2181,three:2181"
            )
        )
    return ZooKeeperSettings(**values | {"root": _root(values["root"])})


def _root(text: str) -> str:
    rooted = text if text.startswith("/") else "/" + text
    return rooted.removesuffix("/")
