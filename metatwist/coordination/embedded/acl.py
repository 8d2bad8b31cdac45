"""Access control as a ZooKeeper server does it: world, ip, digest and auth entries."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from ipaddress import ip_address, ip_network

from metatwist.coordination.errors import InvalidAcl

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL = 31

Entry = tuple[int, str, str]
"""Permissions, scheme, id."""

Acl = tuple[Entry, ...]
Identity = tuple[str, str]
"""Scheme and id of somebody."""

OPEN: Acl = ((ALL, "world", "anyone"),)


def digest_identity(credentials: bytes) -> Identity | None:
    """The identity of `user:password`, None where that is empty."""
    if not credentials:
        return None
    user = credentials.partition(b":")[0]
    digest = b64encode(hashlib.sha1(credentials).digest()).decode("ascii")
    return "digest", f"{user.decode('utf-8', 'replace')}:{digest}"


def allows(acl: Acl, permission: int, identities: frozenset[Identity]) -> bool:
    """Whether somebody with `identities` has the permission."""
    if acl is OPEN:
        return True
    for permissions, scheme, name in acl:
        if not permissions & permission:
            continue
        if scheme == "world" or (scheme, name) in identities:
            return True
        if scheme == "ip" and _is_within(name, identities):
            return True
    return False


def _is_within(network: str, identities: frozenset[Identity]) -> bool:
    addresses = [name for scheme, name in identities if scheme == "ip"]
    found = ip_network(network, strict=False)
    return any(ip_address(one) in found for one in addresses)


def resolve(entries: list[Entry], identities: frozenset[Identity]) -> Acl:
    """The ACL to keep, with `auth` entries put in the caller's own words.

    Raises InvalidAcl when it is empty, has an unknown scheme or a malformed id, or
    `auth` for somebody without credentials.
    """
    if len(entries) == 1 and entries[0] == OPEN[0]:
        return OPEN
    kept: list[Entry] = []
    for permissions, scheme, name in entries:
        kept += _resolve_one(permissions, scheme, name, identities)
    if not kept:
        raise InvalidAcl
    found = tuple(dict.fromkeys(kept))
    return OPEN if found == OPEN else found


def _resolve_one(
    permissions: int, scheme: str, name: str, identities: frozenset[Identity]
) -> list[Entry]:
    if scheme == "auth":
        mine = sorted(one for one in identities if one[0] == "digest")
        if not mine:
            raise InvalidAcl("auth without credentials")
        return [(permissions, *identity) for identity in mine]
    valid = {"world": _is_anyone, "digest": _is_digest, "ip": _is_network}
    if scheme not in valid or not valid[scheme](name):
        raise InvalidAcl(f"{scheme}:{name}")
    return [(permissions, scheme, name)]


def _is_anyone(name: str) -> bool:
    return name == "anyone"


def _is_digest(name: str) -> bool:
    return name.count(":") == 1 and not name.endswith(":")


def _is_network(name: str) -> bool:
    try:
        ip_network(name, strict=False)
    except ValueError:
        return False
    return True
