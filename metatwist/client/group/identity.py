"""What makes a consumer unique in its group (spec layout 3.5)."""

from __future__ import annotations

import os
import socket
import uuid

# Addresses kept for documentation: no packet is sent, the system only says from which
# of its own addresses it would go.
_FAR = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def local_address() -> str:
    """An address of this host, IPv4 rather than IPv6, 127.0.0.1 where it has none."""
    for family, far in _FAR:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, 9))
                address: str = probe.getsockname()[0]
        except OSError:
            continue
        return address.partition("%")[0]
    return "127.0.0.1"


def unique_id(address: str | None = None) -> str:
    """`<local IP>-<pid>-<uuid>`, as Java; the colons of an IPv6 address are hyphens."""
    host = (local_address() if address is None else address).replace(":", "-")
    return f"{host.strip('[]')}-{os.getpid()}-{uuid.uuid4()}"
