"""The address that brokers register and clients connect to (spec layout 3.1)."""

from __future__ import annotations

import ipaddress
import re

from attrs import frozen

from metatwist.coordination.unreadable import Unreadable, text_of

_URL = re.compile(
    r"meta://(?:\[([^\]\s]+)\]|([^\[\]:/?#@\s]+)):([0-9]{1,5})(?:[/?#].*)?"
)
_LABEL = re.compile("[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")


@frozen
class BrokerUrl:
    """Host, an IPv6 address without brackets, and TCP port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"meta://{host}:{self.port}"

    def encode(self) -> bytes:
        """What to register; raises ValueError for what Java clients cannot read.

        The text is the key of connections inside of clients: register the same one
        everywhere.
        """
        problem = host_problem(self.host)
        if problem is not None:
            raise ValueError(f"the host {self.host!r} {problem}")
        if not 0 < self.port < 65536:
            raise ValueError(f"{self.port} is not a port")
        return str(self).encode()


def read_broker_url(data: bytes) -> BrokerUrl | Unreadable | None:
    """The URL in a node, None when it is blank: there is no such broker.

    A path or query behind the port is left out, as Java does. Never raises.
    """
    text = text_of(data)
    if not isinstance(text, str):
        return text
    found = _URL.fullmatch(text)
    if found is None:
        return Unreadable.of(data, "is not meta://host:port")
    bracketed, plain, port = found.groups()
    if bracketed is not None and not _is_address(bracketed, 6):
        return Unreadable.of(data, f"has no IPv6 address in brackets: {bracketed}")
    if not 0 < int(port) < 65536:
        return Unreadable.of(data, f"has no port: {port}")
    return BrokerUrl(bracketed or plain, int(port))


def host_problem(host: str) -> str | None:
    """Why a broker must not register a host, None if it may.

    Java's URI parser takes some names for no host at all (tried): with an underscore,
    with letters past ASCII, with a last label that begins with a digit.
    """
    if ":" in host:
        if "%" in host:
            return "has a zone, which means nothing on another machine"
        return None if _is_address(host, 6) else "is no IPv6 address"
    if _is_address(host, 4):
        return None
    labels = host.removesuffix(".").split(".")
    if not all(map(_LABEL.fullmatch, labels)):
        return (
            "is not made of letters, digits, dots and hyphens, without a hyphen at "
            "either end of a label: Java clients cannot connect to it"
        )
    if len(labels) > 1 and not labels[-1][0].isalpha():
        return "is neither an address nor a name that Java clients can connect to"
    return None


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False
