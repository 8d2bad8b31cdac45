"""What is needed to reach an ensemble, checked before anything is tried."""

from __future__ import annotations

import re

from attrs import field, frozen

DEFAULT_PORT = 2181
ACL_POLICIES = ("open", "creator")
_NAME = re.compile(r"[\w.-]+")
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]+(%\w+)?")


@frozen
class ConnectString:
    """`host:port[,host:port...][/chroot]` taken apart (spec layout 1.1).

    `chroot` is empty or begins with a slash and does not end with one.
    """

    servers: tuple[tuple[str, int], ...]
    chroot: str

    def __str__(self) -> str:
        hosts = ",".join(server_name(host, port) for host, port in self.servers)
        return hosts + self.chroot


@frozen
class EnsembleSettings:
    """How to reach an ensemble and as whom.

    Attributes:
        connect: hosts and chroot, as `zk.zkConnect`; the chroot must exist. IPv6
            addresses stand in brackets, the port defaults to 2181.
        session_timeout_s: what is asked for; the server may grant another.
        connection_timeout_s: the longest that one request may take.
        credentials: scheme (`digest`) and `user:password`.
        acl: who may do what with znodes that are created, see `kazoo_values.acl_for`;
            `creator` needs credentials.

    Raises:
        ValueError: a value is wrong; the text says which and why.
    """

    connect: str
    session_timeout_s: float = 30.0
    connection_timeout_s: float = 30.0
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    acl: str = "open"

    def __attrs_post_init__(self) -> None:
        parse_connect(self.connect)
        if self.session_timeout_s <= 0 or self.connection_timeout_s <= 0:
            raise ValueError("session and connection timeout must be more than 0")
        if self.acl not in ACL_POLICIES:
            raise ValueError(f"acl {self.acl!r} is none of {', '.join(ACL_POLICIES)}")
        if self.acl == "creator" and self.credentials is None:
            raise ValueError("acl creator needs credentials")
        if self.credentials is not None and self.credentials[0] == "sasl":
            raise ValueError("scheme sasl is not supported: use digest")

    @property
    def target(self) -> ConnectString:
        """`connect` taken apart."""
        return parse_connect(self.connect)


def server_name(host: str, port: int) -> str:
    """`host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_connect(text: str) -> ConnectString:
    """Take a connect string apart; blanks around its parts do not matter.

    Raises:
        ValueError: it is malformed; the text quotes the part.
    """
    hosts, _, rest = text.strip().partition("/")
    servers = tuple(_server(part.strip()) for part in hosts.split(",") if part.strip())
    if not servers:
        raise ValueError(f"connect string {text!r} names no host")
    names = [name for name in rest.strip().rstrip("/").split("/") if rest.strip("/ ")]
    if any(name in ("", ".", "..") for name in names):
        raise ValueError(f"chroot {'/' + rest!r} is no path of znodes")
    return ConnectString(servers, "".join(f"/{name}" for name in names))


def _server(part: str) -> tuple[str, int]:
    if part.startswith("["):
        host, closing, port = part[1:].partition("]")
        valid = bool(closing) and _ADDRESS.fullmatch(host) and port[:1] in ("", ":")
        port = port[1:] if port else str(DEFAULT_PORT)
    elif part.count(":") > 1:
        raise ValueError(f"{part!r}: an IPv6 address stands in brackets")
    else:
        host, colon, port = part.partition(":")
        valid = _NAME.fullmatch(host) is not None
        port = port if colon else str(DEFAULT_PORT)
    if not valid:
        raise ValueError(f"{part!r} is no host:port")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{part!r}: the port must be a number from 1 to 65535")
    return host, int(port)
