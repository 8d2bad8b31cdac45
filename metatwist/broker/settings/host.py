"""Addresses of this machine and of others, without asking DNS."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address

LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915


def first_address(addresses: Iterable[str]) -> str:
    """The first IPv4 address that is not of the loopback net, else 127.0.0.1."""
    return next((a for a in addresses if not a.startswith("127.")), LOOPBACK)


def interface_addresses() -> Iterator[str]:
    """The IPv4 address of each network interface that has one, in kernel order."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, request)
            except OSError:
                continue  # an interface without an IPv4 address
            yield socket.inet_ntoa(answer[20:24])


def ip_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is, in brackets or not; None for names but localhost."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if bare.lower().removesuffix(".") == "localhost":
        return IPv4Address(LOOPBACK)
    try:
        found = ipaddress.ip_address(bare)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def is_this_machine(host: str) -> bool:
    """Whether each machine that connects to `host` connects to itself."""
    address = ip_of(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def in_uri(host: str) -> str:
    """An IPv6 address in brackets, and anything else as it is."""
    is_ipv6 = ":" in host and not host.startswith("[") and ip_of(host) is not None
    return f"[{host}]" if is_ipv6 else host
