"""What may be a path, by the rules that ZooKeeper's servers and clients enforce."""

from __future__ import annotations

import re

from metatwist.coordination.errors import BadArguments

# Control characters, private use and specials, and all beyond 16 bits: ZooKeeper's own
# check sees surrogates there.
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]"
)
_PLAIN = re.compile(r"(?:/[A-Za-z0-9_\-:@]+)+\Z")


def check_path(path: str | None) -> str:
    """The path itself; raises BadArguments for what is none."""
    if path is None:
        raise BadArguments("no path")
    if _PLAIN.match(path) or path == "/":
        return path
    if not path.startswith("/"):
        raise BadArguments(f"{path!r} does not begin with /")
    if path.endswith("/"):
        raise BadArguments(f"{path!r} ends with /")
    for part in path[1:].split("/"):
        if part in ("", ".", ".."):
            raise BadArguments(f"{path!r} has an empty or relative part")
    if _FORBIDDEN.search(path):
        raise BadArguments(f"{path!r} has a character that is not allowed")
    return path


def parent_of(path: str) -> str:
    """The path of the parent, "/" for what lies at the top."""
    return path[: path.rindex("/")] or "/"


def name_of(path: str) -> str:
    """The last part."""
    return path[path.rindex("/") + 1 :]
