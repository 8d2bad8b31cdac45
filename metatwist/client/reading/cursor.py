"""How far a partition is read, and how much to ask for: decisions without I/O.

What came decides what comes next (spec client 11.4, 12.1; W18):

    messages                        go on behind them, with the usual size
    not one whole message           ask for exactly what its header says
    less than was asked for         the same again, a few times; then stop
    a corrupt record                fetch it once more, then pass over it
    a message over the bound        stop

Stopping is raising MessageTooLarge; the position stays, so that a user can decide.
"""

from __future__ import annotations

from attrs import frozen

from metatwist.client.errors import MessageTooLarge, Where
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.reading.fetching import Fetch, Found
from metatwist.client.reading.records import Ending, RecordRun, damaged_bytes
from metatwist.client.settings import FetchSettings
from metatwist.wire.records import HEADER_BYTES

MOST_SHORT_ANSWERS = 3
"""After as many answers in a row that are shorter than a message needs and than was
asked for, more will not come."""


@frozen
class Again:
    """Ask again; `pause` when the same answer is likely, as if nothing had come."""

    pause: bool


@frozen
class PassedOver:
    """A corrupt record was passed over, up to the cursor's position now."""

    from_offset: int


class Cursor:
    """Position and fetch size of one partition.

    Attributes:
        position: where the next fetch reads, in bytes.
        size_bytes: how much it asks for.
    """

    def __init__(
        self, partition: TopicPartition, position: int, settings: FetchSettings
    ) -> None:
        self.partition = partition
        self.position = position
        self.size_bytes = settings.size_bytes
        self._settings = settings
        self._short_answers = 0
        self._suspect: int | None = None

    def fetch(self, group: str, wait_s: float = 0) -> Fetch:
        """What to ask now."""
        settings = self._settings
        return Fetch(
            self.partition,
            group,
            self.position,
            self.size_bytes,
            settings.most_message_bytes,
            settings.timeout_s,
            wait_s,
        )

    def move(self, offset: int) -> None:
        """Go on elsewhere, with the usual size."""
        self.position = offset
        self._as_usual()

    def grow(self) -> bool:
        """Ask for twice as much: not even one whole message fits, and nobody says how
        large it is. False when that is as much as there may be."""
        before = self.size_bytes
        most = self._settings.most_message_bytes + HEADER_BYTES
        self.size_bytes = max(before, min(most, max(2 * before, HEADER_BYTES)))
        return self.size_bytes > before

    def found(self, found: Found) -> list[ReceivedMessage] | Again | PassedOver:
        """Take in what a fetch brought; raises MessageTooLarge to stop."""
        run = found.run
        if run.messages:
            self.move(run.next_offset)
            return run.messages
        if run.ending is Ending.CORRUPT:
            return self._corrupt(found.value.body)
        if run.ending is Ending.TOO_LARGE:
            most = self._settings.most_message_bytes
            text = f"a message with header of {run.record_bytes} bytes"
            text += f", more than most_message_bytes ({most}) lets through"
            raise self._too_large(text, run.record_bytes or 0)
        return self._in_part(run, found.value.size_bytes)

    def _as_usual(self) -> None:
        self.size_bytes = self._settings.size_bytes
        self._short_answers = 0

    def _in_part(self, run: RecordRun, got_bytes: int) -> Again:
        needed = run.record_bytes
        if needed is None and self.size_bytes < HEADER_BYTES:
            self.grow()
            return Again(pause=False)
        if needed is None:  # the front of a header at the end of a log: it grows
            return Again(pause=True)
        if self.size_bytes < needed:
            self.size_bytes = needed
            return Again(pause=False)
        self._short_answers += 1
        if self._short_answers < MOST_SHORT_ANSWERS:
            return Again(pause=True)
        text = f"a message of {needed} bytes came only in part ({got_bytes} bytes):"
        text += " the broker's maxTransferSize is smaller, or its log is damaged"
        raise self._too_large(text, needed)

    def _corrupt(self, body: bytes) -> Again | PassedOver:
        position = self.position
        if self._suspect != position:
            self._suspect = position
            return Again(pause=True)
        most = self._settings.most_message_bytes
        self.move(position + damaged_bytes(body, most))
        self._suspect = self.position  # damage has neighbours: no second look at them
        return PassedOver(position)

    def _too_large(self, text: str, size_bytes: int) -> MessageTooLarge:
        where = Where(None, *self.partition, self.position)
        return MessageTooLarge(text, where, size_bytes)
