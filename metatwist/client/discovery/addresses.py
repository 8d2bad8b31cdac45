"""What a user may write as the address of a broker.

`meta://host:port` and `host:port` (IPv6 in brackets) are the same; anything else is a
Twisted client endpoint string, such as `tls:host:8123` or `unix:/path`. A text of one
colon and digits behind it is always host and port, so that a host may be called `tcp`;
the UNIX socket `8123` is `unix:./8123`.
"""

from __future__ import annotations

import ipaddress
import re

from attrs import evolve, frozen
from twisted.internet.interfaces import IStreamClientEndpointStringParserWithReactor
from twisted.plugin import getPlugins

from metatwist.coordination.broker_url import BrokerUrl, read_broker_url
from metatwist.coordination.unreadable import Unreadable

SCHEME = "meta://"
_HOST_AND_PORT = re.compile(r"(?:\[[^\]]*\]|[^:/]*):[0-9]+/?")
_SCHEME = re.compile("([A-Za-z][A-Za-z0-9+.-]*)://")
_KIND = re.compile("([A-Za-z][A-Za-z0-9_.-]*):.")
_BUILT_IN = {"ssl", "tcp", "unix"}


@frozen
class EndpointText:
    """A client endpoint string, used as it is."""

    text: str

    def __str__(self) -> str:
        return self.text


Address = BrokerUrl | EndpointText
"""Its `str` is the key of the connection."""


def read_address(text: str) -> Address:
    """What the text means, with the host in lower case and IPv6 in its short form.

    Raises ValueError for anything else, with what to write instead. Whether the
    arguments of an endpoint string are right shows when an `AddressEndpoint` is made.
    """
    text = text.strip()
    if text.startswith(SCHEME):
        return _broker_url(text, text)
    if _HOST_AND_PORT.fullmatch(text):
        return _broker_url(SCHEME + text, text)
    scheme = _SCHEME.match(text)
    if scheme is not None:
        raise _unfit(text, f"{scheme[1]}:// is not spoken here")
    kind = _KIND.match(text)
    if kind is None:
        raise _unfit(text, "there is no port")
    known = _endpoint_kinds()
    if kind[1].lower() not in known:
        listed = ", ".join(sorted(known))
        raise _unfit(text, f"{kind[1]!r} is none of the endpoints {listed}")
    return EndpointText(text)


def normalised(text: str) -> str:
    """The key of the connection to an address; raises as `read_address`."""
    return str(read_address(text))


def normalised_url(url: BrokerUrl) -> BrokerUrl:
    """The same broker always in the same words.

    Raises ValueError for a host that cannot be looked up.
    """
    try:
        return evolve(url, host=ipaddress.ip_address(url.host).compressed)
    except ValueError:
        pass  # a name
    try:
        url.host.encode("idna")
    except UnicodeError as error:
        raise ValueError(f"{url.host!r} is no host name") from error
    return evolve(url, host=url.host.lower())


def _broker_url(url: str, text: str) -> BrokerUrl:
    try:
        found = read_broker_url(url.encode())
    except UnicodeEncodeError:
        raise _unfit(text, "it is no Unicode text") from None
    if found is None or isinstance(found, Unreadable):
        raise _unfit(text, found.reason if found else "it is blank")
    try:
        return normalised_url(found)
    except ValueError as error:
        raise _unfit(text, str(error)) from None


def _endpoint_kinds() -> set[str]:
    plugins = getPlugins(IStreamClientEndpointStringParserWithReactor)
    return _BUILT_IN | {plugin.prefix.lower() for plugin in plugins}


def _unfit(text: str, reason: str) -> ValueError:
    return ValueError(
        f"{text!r} is no address of a broker: {reason}; write meta://host:port, "
        "host:port, [IPv6]:port, or a Twisted client endpoint string"
    )
