"""Where the broker listens, and the address and port that it publishes."""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import frozen

from metatwist.broker.settings.endpoint import ListenAddress, check_endpoint
from metatwist.broker.settings.findings import Findings
from metatwist.broker.settings.host import in_uri
from metatwist.broker.settings.values import SectionReader

_UNUSABLE_HOST = re.compile(r"[\s/]")


@frozen
class Network:
    """The endpoint to listen on and what is told to clients, an IPv6 address in
    brackets."""

    endpoint: str
    host_name: str
    server_port: int


def network(
    system: SectionReader,
    metatwist: SectionReader,
    port: int,
    findings: Findings,
    find_address: Callable[[], str],
) -> Network:
    """Settle `brokerEndpoint`, `serverPort` and `hostName` from each other.

    The endpoint's port wins over `port`, the value of `serverPort`. `find_address` is
    asked when neither `hostName` nor the endpoint names an address.
    """
    if not metatwist.has("brokerEndpoint"):
        return Network(f"tcp:{port}", _host(system, findings, find_address), port)
    entry = metatwist.entries["brokerEndpoint"]
    listens = ListenAddress(None, None)
    try:
        listens = check_endpoint(entry.value)
    except ValueError as error:
        findings.problems.append(entry.at(str(error)))
    if listens.port is not None and listens.port != port:
        if system.has("serverPort"):
            given = system.entries["serverPort"]
            findings.warnings.append(
                given.at(
                    f"{port} is not used, the port {listens.port} of brokerEndpoint "
                    f"({entry.where}) wins"
                )
            )
        port = listens.port
    interface = listens.interface
    find = (lambda: in_uri(interface)) if interface else find_address
    return Network(entry.value, _host(system, findings, find), port)


def _host(
    system: SectionReader, findings: Findings, find_address: Callable[[], str]
) -> str:
    entry = system.entries.get("hostName")
    if entry is None:
        return find_address()
    if _UNUSABLE_HOST.search(entry.value):
        findings.problems.append(
            entry.at(f"`{entry.value}` is no host; write a name or an address")
        )
    return in_uri(entry.value)
