"""A persistent znode as it is kept, and as a row of the table `node`.

Data that is UTF-8 text without NUL is kept as TEXT, so that the sqlite3 shell shows it,
other data as a BLOB; no data is NULL. An ACL is JSON: `[[31,"world","anyone"]]`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

StoredAcl = tuple[tuple[int, str, str], ...]


class StoredNode(NamedTuple):
    """What must survive of a znode; times in ms since 1970.

    A tuple, since one is made at each write.

    `acl` holds (permissions, scheme, id); `creates` counts the children that the znode
    ever had. Its cversion follows from that and from the children it has.
    """

    path: str
    data: bytes | None
    acl: StoredAcl
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    aversion: int
    pzxid: int
    creates: int


COLUMNS = StoredNode._fields
_FIRST_NUMBER = COLUMNS.index("czxid")


def flat_rows(nodes: Iterable[StoredNode]) -> list[str | bytes | int | None]:
    """The rows of these nodes, one after the other in one list."""
    flat: list[str | bytes | int | None] = []
    for node in nodes:
        numbers: tuple[Any, ...] = node[_FIRST_NUMBER:]
        flat += (node.path, _readable(node.data), _acl_text(node.acl), *numbers)
    return flat


def node_of(row: tuple[object, ...]) -> StoredNode:
    """The node of a row in which all text is bytes.

    Raises ValueError, with what is wrong, for a row that nobody wrote here.
    """
    path, data, acl, *numbers = row
    if not isinstance(path, bytes):
        raise ValueError("its path is no text")
    if data is not None and not isinstance(data, bytes):
        raise ValueError("its data is a number")
    for name, number in zip(COLUMNS[_FIRST_NUMBER:], numbers, strict=True):
        if not isinstance(number, int):
            raise ValueError(f"its {name} is no whole number")
    entries = _acl_of(acl)
    return StoredNode._make((path.decode("utf-8"), data, entries, *numbers))


def _readable(data: bytes | None) -> str | bytes | None:
    if data is None or b"\0" in data:
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


@lru_cache(maxsize=1024)
def _acl_text(acl: StoredAcl) -> str:
    return json.dumps(acl, separators=(",", ":"))


@lru_cache(maxsize=1024)
def _acl_of(text: object) -> StoredAcl:
    try:
        entries: Any = json.loads(text) if isinstance(text, bytes) else None
        acl = tuple((int(bits), scheme, name) for bits, scheme, name in entries)
    except (TypeError, ValueError):
        raise ValueError("its acl cannot be read") from None
    if not all(isinstance(one, str) for entry in acl for one in entry[1:]):
        raise ValueError("its acl cannot be read")
    return acl
