"""Checking `brokerEndpoint` and reading from it what the broker publishes."""

from __future__ import annotations

import re

from attrs import frozen
from twisted.internet.endpoints import serverFromString

from metatwist.broker.settings.host import ip_of, is_this_machine

_NETWORK_KINDS = ("tcp", "tcp6", "ssl", "tls")
_ANY_INTERFACE = ("", "0.0.0.0", "::")
_MAX_PORT = 65535
_COLON = re.compile(r"(?<!\\):")


@frozen
class ListenAddress:
    """What an endpoint says about the network; None for what it does not say.

    `interface` is None for all of them too; those of IPv6, when `ipv6` says so.
    """

    port: int | None
    interface: str | None
    ipv6: bool = False

    @property
    def serves_others(self) -> bool:
        """Whether other machines can connect; False for what is not of the network."""
        if self.port is None:
            return False
        return self.interface is None or not is_this_machine(self.interface)

    def overlaps(self, other: ListenAddress) -> bool:
        """Whether only one of both can be listened on, as far as the texts tell.

        All interfaces of IPv6 include those of IPv4, as Linux has it by default.
        """
        if not self.port or self.port != other.port:
            return False
        if self.interface is None:
            return self.ipv6 or not other.ipv6 or other.interface is None
        if other.interface is None:
            return other.overlaps(self)
        mine = ip_of(self.interface) or self.interface
        return mine == (ip_of(other.interface) or other.interface)


def check_endpoint(text: str) -> ListenAddress:
    """Let Twisted parse a server endpoint; `interface` is None for "all of them".

    Raises `ValueError` when Twisted cannot use the text, a missing certificate file
    included. No port is opened.
    """
    try:
        serverFromString(None, text)
    except Exception as error:  # parsers are plugins and raise whatever they like
        reason = re.sub(r"^_\w+\(\) ", "", str(error))
        raise ValueError(
            f"`{text}` is no server endpoint ({reason}); "
            "for instance tcp:8123:interface=127.0.0.1"
        ) from error
    return _listen_address(text)


def _listen_address(text: str) -> ListenAddress:
    kind, *arguments = _COLON.split(text)
    if kind not in _NETWORK_KINDS:
        return ListenAddress(None, None)
    named = dict(a.split("=", 1) for a in arguments if "=" in a)
    plain = [a for a in arguments if "=" not in a]
    port = named.get("port") or (plain[0] if plain else "")
    if not port.isdigit():
        return ListenAddress(None, None)
    if int(port) > _MAX_PORT:
        raise ValueError(f"`{text}`: port {port} is above {_MAX_PORT}")
    interface = named.get("interface", "").replace("\\:", ":")
    ipv6 = kind == "tcp6" or ":" in interface
    everywhere = interface in _ANY_INTERFACE
    return ListenAddress(int(port), None if everywhere else interface, ipv6)
