"""The address that this machine most likely is known by, without asking DNS."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterable, Iterator

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
