"""Broadcast: every instance gets every message, by being alone in its group."""

from __future__ import annotations

import re

from metatwist.client.group.identity import local_address
from metatwist.coordination.names import group_problem

_APART = re.compile("[.:%]")


def broadcast_group(group: str, instance: str | None = None) -> str:
    """`<group>-<instance>`, with hyphens for dots and colons (spec client 17).

    Without an instance it is the address of this host, as for the original's clients:
    then two processes of one host share the messages. Raises ValueError for what cannot
    be the name of a group.
    """
    name = f"{group}-{_APART.sub('-', instance or local_address())}"
    problem = group_problem(name)
    if problem is not None:
        raise ValueError(f"the broadcast group {name!r} {problem}")
    return name
