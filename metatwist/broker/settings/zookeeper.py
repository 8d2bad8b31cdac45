"""Builds the settings of `[zookeeper]` (spec configuration 4)."""

from __future__ import annotations

from pathlib import Path

from metatwist.broker.settings.findings import Findings
from metatwist.broker.settings.ini import IniEntry
from metatwist.broker.settings.model import ZooKeeperSettings
from metatwist.broker.settings.schema import ZOOKEEPER
from metatwist.broker.settings.sources import Entries, Sources
from metatwist.broker.settings.values import SectionReader
from metatwist.coordination.ensemble_settings import parse_connect
from metatwist.coordination.layout import DEFAULT_ROOT, Layout


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
    if "zk.zkConnect" in entries:
        _check_servers(entries["zk.zkConnect"], findings)
    return ZooKeeperSettings(
        **values | {"root": _root(values["root"], entries, findings)}
    )


def _check_servers(entry: IniEntry, findings: Findings) -> None:
    try:
        servers, _, chroot = entry.value.partition("/")
        if "," in chroot:
            raise ValueError("the chroot comes once, at the end, for all of them")
        if not all(part.strip() for part in servers.split(",")):
            raise ValueError("a name is missing beside a comma")
        parse_connect(entry.value)
    except ValueError as error:
        findings.problems.append(
            entry.at(
                f"`{entry.value}` is no list of servers, as in"
                f" one:2181,two:2181,three:2181 ({error})"
            )
        )


def _root(text: str, entries: Entries, findings: Findings) -> str:
    """The prefix of all paths (spec layout 1.2)."""
    try:
        return Layout(text).root
    except ValueError as error:
        problem = f"`{text}` is no path of znodes ({error})"
        findings.problems.append(entries["zk.zkRoot"].at(problem))
        return DEFAULT_ROOT
