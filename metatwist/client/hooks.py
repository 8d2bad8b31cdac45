"""What a user can have called around a rebalance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from metatwist.client.events import Event
from metatwist.client.message import TopicPartition

Partitions = Sequence[TopicPartition]


@frozen
class ConsumerHooks:
    """Functions of the user's; what they answer, if it can be awaited, is waited for.

    None of them can hold up a rebalance for longer than `stop_timeout_s`, and what they
    raise is logged.

    Attributes:
        on_assign: partitions are ours, before anything is read from them.
        on_revoke: partitions are about to be given up: no listener runs any more, and
            what is done will be committed when this has ended.
        on_lost: partitions may be somebody else's already; nothing was committed.
        on_event: every `Event`.
    """

    on_assign: Callable[[Partitions], Any] | None = None
    on_revoke: Callable[[Partitions], Any] | None = None
    on_lost: Callable[[Partitions], Any] | None = None
    on_event: Callable[[Event], object] | None = None
