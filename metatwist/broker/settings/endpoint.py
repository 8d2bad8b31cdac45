"""Checking `brokerEndpoint` and reading from it what the broker publishes."""

from __future__ import annotations

import re

from attrs import frozen
from twisted.internet.endpoints import serverFromString

_NETWORK_KINDS = ("tcp", "tcp6", "ssl", "tls")
_ANY_INTERFACE = ("", "0.0.0.0", "::")
_MAX_PORT = 65535
_COLON = re.compile(r"(?<!\\):")


@frozen
class ListenAddress:
    """What an endpoint says about the network; None for what it does not say."""

    port: int | None
    interface: str | None


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
    return ListenAddress(int(port), None if interface in _ANY_INTERFACE else interface)
