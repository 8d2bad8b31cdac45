"""What a consumer tells beside messages, as notes for the user."""

from __future__ import annotations

from collections.abc import Callable

from metatwist.client.errors import ClientError
from metatwist.client.events import (
    Assigned,
    CommitFailed,
    Event,
    FetchFailed,
    GroupTrouble,
    OffsetJumped,
    PartitionStopped,
)
from metatwist.client.message import TopicPartition
from metatwist.tools.ending import words_of, words_of_jump

_ASKED_FOR = ("start", "sought")


class ConsumerNotes:
    """Says what is worth it, and remembers what decides about the end.

    Attributes:
        stopped: partitions of which nothing more is read.
        was_assigned: whether there ever was a partition to read.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self.stopped: set[TopicPartition] = set()
        self.was_assigned = False
        self._say = say
        self._fetch_failed: set[TopicPartition] = set()

    def told(self, event: Event) -> None:
        """The consumer's `on_event`."""
        if isinstance(event, Assigned):
            self.was_assigned = True
        elif isinstance(event, OffsetJumped) and event.reason not in _ASKED_FOR:
            self._say(words_of_jump(event))
        elif isinstance(event, PartitionStopped):
            self.stop(event.partition, event.error)
        elif isinstance(event, FetchFailed):
            self._tell_failed_fetch(event.partition, event.error)
        elif isinstance(event, CommitFailed):
            self._say(f"{event.partition}: not committed: {words_of(event.error)}")
        elif isinstance(event, GroupTrouble):
            self._say(event.text)

    def stop(self, partition: TopicPartition, error: ClientError) -> None:
        """The partition is not read any more."""
        self.stopped.add(partition)
        self._say(f"{partition} is not read any more: {words_of(error)}")

    def _tell_failed_fetch(self, partition: TopicPartition, error: ClientError) -> None:
        """Once a partition: it is tried again and again."""
        if partition not in self._fetch_failed:
            self._fetch_failed.add(partition)
            self._say(f"{partition}: tries again: {words_of(error)}")
