"""How far a partition is consumed: what its reading writes and its commits read."""

from __future__ import annotations

from collections.abc import Callable

from metatwist.coordination.formats import OffsetRecord


class Progress:
    """Of one partition that is held.

    `record`: all messages before its offset are done and may be committed, None before
    a start is known. `done_count` rises with each message that is done. `advanced`, if
    set, is called when some are.
    """

    __slots__ = ("advanced", "done_count", "record")

    def __init__(self, record: OffsetRecord | None = None) -> None:
        self.record = record
        self.done_count = 0
        self.advanced: Callable[[], object] | None = None

    def advance(self, offset: int, message_id: int | None, messages: int) -> None:
        """`messages` more are done, the last of which had that id."""
        self.record = OffsetRecord(offset, message_id)
        self.done_count += messages
        if self.advanced is not None:
            self.advanced()

    def move(self, offset: int) -> None:
        """Go to an offset that no message led to: a seek, a jump."""
        self.record = OffsetRecord(offset)
