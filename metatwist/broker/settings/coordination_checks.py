"""Settings of coordination that are fine each for itself, but not together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from metatwist.broker.settings.coordination import tree_settings
from metatwist.broker.settings.endpoint import ListenAddress, check_endpoint
from metatwist.broker.settings.findings import Findings
from metatwist.broker.settings.host import is_this_machine
from metatwist.broker.settings.ini import IniEntry
from metatwist.broker.settings.model import BrokerSettings
from metatwist.broker.settings.sources import Entries, Sources
from metatwist.coordination.broker_url import host_problem

_SYSTEM, _OWN = "system", "metatwist"
_NOWHERE = ListenAddress(None, None)


def check_coordination(
    settings: BrokerSettings, sources: Sources, findings: Findings
) -> None:
    """Note what keeps a coordinator from starting, and clients from the broker."""
    if settings.coordinator == "none":
        return
    told = tree_settings(settings).enable
    if told:
        findings.warnings += _address(settings, sources)
    if settings.coordinator != "embedded":
        return
    findings.problems += _paths(settings, sources)
    listens = _listens(settings.coordinator_endpoint)
    if listens.overlaps(_listens(settings.broker_endpoint)):
        findings.problems.append(_same_port(settings, sources))
    if told and listens.serves_others and is_this_machine(settings.host_name):
        findings.warnings.append(_out_of_reach(settings, sources))


def _address(settings: BrokerSettings, sources: Sources) -> Iterator[str]:
    """What is wrong with the address that gets registered (spec layout 3.1)."""
    problem = _host_problem(settings.host_name)
    if problem is not None:
        place = _first(sources, (_SYSTEM, "hostName"), (_OWN, "brokerEndpoint"))
        yield place.at(f"clients are told {settings.address}, but its host {problem}")
    if settings.server_port == 0:
        place = _first(sources, (_OWN, "brokerEndpoint"), (_SYSTEM, "serverPort"))
        yield place.at(
            f"clients are told {settings.address}, but nobody can connect to port 0"
        )


def _host_problem(host: str) -> str | None:
    if not (host.startswith("[") and host.endswith("]")):
        return host_problem(host)
    inner = host[1:-1]
    return host_problem(inner) if ":" in inner else "is no IPv6 address"


@frozen
class _Root:
    """A directory of partitions, and the key that names it."""

    path: Path
    entry: IniEntry


def _roots(settings: BrokerSettings, sources: Sources) -> Iterator[_Root]:
    yield _Root(settings.data_path, _first(sources, (_SYSTEM, "dataPath")))
    for name, entries in sources.topics.items():
        if "dataPath" in entries:
            yield _Root(settings.topics[name].data_path, entries["dataPath"])


def _paths(settings: BrokerSettings, sources: Sources) -> Iterator[str]:
    """Where coordinator and data are in each other; each directory is told once."""
    coordinator = settings.coordinator_path
    inner, seen = _real(coordinator), set[Path]()
    for root in _roots(settings, sources):
        data, name = _real(root.path), f"[{root.entry.section}] dataPath"
        if data in seen:
            continue
        seen.add(data)
        if inner.is_relative_to(data):
            how = f"lies in {name}, {root.path}, where it would hide partitions from a"
            how += " Java broker: put it elsewhere"
        elif data.is_relative_to(inner):
            how = f"holds {name}, {root.path}: keep them apart, each is backed up and"
            how += " restored for itself"
        else:
            continue
        given = _own(sources).get("coordinatorPath")
        if given is not None:
            yield given.at(f"{coordinator} {how}")
        else:
            yield root.entry.at(f"coordinatorPath, {coordinator}, {how}")


def _out_of_reach(settings: BrokerSettings, sources: Sources) -> str:
    return _first(sources, (_OWN, "coordinatorEndpoint")).at(
        f"`{settings.coordinator_endpoint}` serves other machines too, but clients"
        f" there are told {settings.address}, which to them is their own machine: set"
        " [system] hostName to what they can reach, and let the broker listen on it"
    )


def _same_port(settings: BrokerSettings, sources: Sources) -> str:
    """Told where one of them is given, with the name of the other one."""
    own = _own(sources)
    broker = _first(sources, (_OWN, "brokerEndpoint"), (_SYSTEM, "serverPort"))
    place, mine = own.get("coordinatorEndpoint"), settings.coordinator_endpoint
    other, theirs = f"[{broker.section}] {broker.key}", settings.broker_endpoint
    if place is None:
        place, mine, theirs = broker, theirs, mine
        other = f"[{_OWN}] coordinatorEndpoint"
    return place.at(
        f"`{mine}` has the same port as {other}, `{theirs}`: give one of them another"
    )


def _listens(endpoint: str) -> ListenAddress:
    try:
        return check_endpoint(endpoint)
    except ValueError:
        return _NOWHERE  # told where it was read


def _own(sources: Sources) -> Entries:
    return sources.fixed[_OWN]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _first(sources: Sources, *keys: tuple[str, str]) -> IniEntry:
    """The first of these keys, each with its section, that has a value; without one the
    last of them, with a place of which only the file is known."""
    for section, key in keys:
        if key in sources.fixed[section]:
            return sources.fixed[section][key]
    return IniEntry(*keys[-1], "", sources.file.source)
