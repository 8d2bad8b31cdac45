"""Which messages were consumed lately, to recognise them when they come again: after a
rebalance, or when a fetch goes back (spec client 14).

A message is told by partition, offset and id, so that an id that comes twice never
hides a new message (W20).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from operator import itemgetter

from metatwist.client.message import ReceivedMessage, TopicPartition

MOST_PARTITIONS = 4096
"""Whose messages are remembered, of one consumer."""

_NONE: frozenset[tuple[int, int]] = frozenset()
_offset_of = itemgetter(ReceivedMessage._fields.index("offset"))
_id_of = itemgetter(ReceivedMessage._fields.index("message_id"))


class Window:
    """The last `most` consumed messages of one partition; 16 bytes each, and as much
    again before older ones are dropped."""

    __slots__ = ("_beyond", "_ids", "_most", "_offsets")

    def __init__(self, most: int) -> None:
        self._most = most
        self._offsets = array("q")
        self._ids = array("q")
        self._beyond = -1

    def record(self, messages: Sequence[ReceivedMessage]) -> None:
        """These were consumed, in this order."""
        if not messages or not self._most:
            return
        new = messages[-self._most :] if len(messages) > self._most else messages
        self._offsets.extend(map(_offset_of, new))
        self._ids.extend(map(_id_of, new))
        self._beyond = max(self._beyond, new[-1].offset)
        if len(self._offsets) > 2 * self._most:
            del self._offsets[: -self._most]
            del self._ids[: -self._most]

    def known(
        self, messages: Sequence[ReceivedMessage]
    ) -> frozenset[tuple[int, int]] | set[tuple[int, int]]:
        """Offset and id of those of `messages`, which are in order, that are known.

        New messages of a partition lie beyond all known ones: that takes no look-up.
        """
        if not messages or messages[0].offset > self._beyond:
            return _NONE
        last = slice(-self._most, None)
        mine = set(zip(self._offsets[last], self._ids[last], strict=True))
        return mine.intersection((one.offset, one.message_id) for one in messages)

    def forget(self) -> None:
        """All of them: the user wants them again."""
        del self._offsets[:]
        del self._ids[:]
        self._beyond = -1


class Duplicates:
    """The windows of one consumer, which outlive the time a partition is held.

    `remembered` messages of each partition (0: none), of `most_partitions` at most: the
    one that was longest not asked for is forgotten first.
    """

    def __init__(self, remembered: int, most_partitions: int = MOST_PARTITIONS) -> None:
        self._remembered = remembered
        self._most_partitions = most_partitions
        self._windows: OrderedDict[TopicPartition, Window] = OrderedDict()

    def window(self, partition: TopicPartition) -> Window:
        """Of a partition, as it was left."""
        found = self._windows.setdefault(partition, Window(self._remembered))
        self._windows.move_to_end(partition)
        if len(self._windows) > self._most_partitions:
            self._windows.popitem(last=False)
        return found
