"""The put command: checks, then into the partition's open batch.

The loop of `PutPath.take` runs once per message; all that needs a look at settings,
closed partitions or the disk happens in `_find`, once per partition, and in the
refusals (spec wire-protocol 3.2).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from metatwist.broker.batch import Batch, PutGroup
from metatwist.broker.commit import CommitQueue
from metatwist.broker.message_ids import SEQUENCE_MASK, MessageIds
from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.replies import ReplyQueue
from metatwist.broker.topics import BROKER_CHOOSES, Topics
from metatwist.errors import BrokerError, PartitionClosed, TransactionUnknown
from metatwist.wire.commands import (
    NO_CHECKSUM,
    Message,
    PutCommand,
    ResultReply,
)
from metatwist.wire.records import CHECKSUM_MASK, HEADER_BYTES, crc32, pack_header

_MOST_LOOKUPS = 16
BAD_CHECKSUM = (
    "Checksum failure,message may be corrupted when transfering on networking."
)


class PutPath:
    """Takes puts from all connections; `address` is the broker's advertised URI."""

    def __init__(
        self,
        topics: Topics,
        ids: MessageIds,
        numbers: BrokerNumbers,
        address: Callable[[], str],
        choose: Callable[[list[int]], int] = random.choice,
    ) -> None:
        self._topics = topics
        self._ids = ids
        self._numbers = numbers
        self._address = address
        self._choose = choose
        self._queues: dict[tuple[str, int], CommitQueue] = {}
        topics.on_change(self._queues.clear)

    def take(self, commands: Sequence[Message], first: int, replies: ReplyQueue) -> int:
        """Accept the run of puts that begins at `commands[first]`.

        Returns how many were taken, at least one; their answers go through `replies`.
        """
        group = PutGroup(replies)
        replies.entries.append(group)
        answers = group.answers
        find, ids, next_id = self._queues.get, self._ids, self._ids.next
        looked_up = 0
        for command in commands[first:] if first else commands:
            if type(command) is not PutCommand:
                break
            topic, partition, flag, expected, transaction, opaque, body = command
            queue = find((topic, partition))
            if queue is None or transaction is not None:
                # Each may create files; the connection's share of a turn is short.
                if looked_up == _MOST_LOOKUPS:
                    break
                looked_up += 1
                queue = self._find(command, group)
                if queue is None:
                    continue
                partition = queue.partition
            found_crc = crc32(body) & CHECKSUM_MASK
            if expected != found_crc and expected != NO_CHECKSUM:
                self._refuse(command, partition, BrokerError(BAD_CHECKSUM), group)
                continue
            batch = queue.open
            if batch is None:
                batch = queue.begin()
                next_id = ids.follow_clock(next_id)
            if batch.newest is not group:
                batch.newest = group
                batch.waiters.append(group)
                group.waiting += 1
            size, offset, add = len(body), queue.end, batch.buffers.append
            add(pack_header(size, found_crc, next_id, flag))
            add(body)
            queue.end = offset + HEADER_BYTES + size
            text = f"{next_id} {partition} {offset}"
            text = f"result 200 {len(text)} {opaque}\r\n{text}"
            answers.append((batch, opaque, text))
            next_id += 1
            if not next_id & SEQUENCE_MASK:
                next_id = ids.carry(next_id)
        ids.next = next_id
        if not group.waiting:
            replies.send_ready()
        return len(answers)

    def _find(self, command: PutCommand, group: PutGroup) -> CommitQueue | None:
        """The queue for a partition not met before, None when the put is refused."""
        partition = command.partition
        try:
            if command.transaction is not None:
                raise TransactionUnknown(command.transaction)
            if self._topics.is_closed(command.topic, partition):
                raise PartitionClosed(self._topics.closed_text(partition))
            if partition == BROKER_CHOOSES:
                partition = self._any_open(command.topic)
            queue = self._topics.queue_for_put(command.topic, partition)
        except BrokerError as error:
            self._refuse(command, partition, error, group)
            return None
        self._queues[command.topic, partition] = queue
        return queue

    def _any_open(self, topic: str) -> int:
        """A partition at random of those that take puts now (spec 7.9)."""
        return self._choose(self._topics.writable_partitions(topic))

    def _refuse(
        self,
        command: PutCommand,
        partition: int,
        error: BrokerError,
        group: PutGroup,
    ) -> None:
        self._count_refusal(command, error)
        body = str(error)
        if not isinstance(error, TransactionUnknown):
            body = self._failed_text(command.topic, partition, f"Detail:{error}")
        answer = ResultReply(error.code, command.opaque, body.encode()).encode()
        group.answers.append((None, command.opaque, answer.decode()))

    def _count_refusal(self, command: PutCommand, error: BrokerError) -> None:
        numbers = self._numbers
        if isinstance(error, TransactionUnknown):
            return
        numbers.cmd_put += 1
        topic = None
        if self._topics.is_counted(command.topic):
            topic = numbers.topic(command.topic)
            topic.put += 1
        if isinstance(error, PartitionClosed):
            numbers.refused_closed += 1
            return
        numbers.put_failed += 1
        if topic is not None:
            topic.put_failed += 1

    def _failed_text(self, topic: str, partition: int, detail: str) -> str:
        return (
            f"Put message to [broker '{self._address()}'] [partition"
            f" '{topic}-{partition}'] failed.{detail}"
        )

    def failed(self, batch: Batch, opaque: int) -> str:
        """The answer to a put whose batch could not be stored (spec 3.2, step 10)."""
        queue = batch.queue
        body = self._failed_text(queue.topic, queue.partition, "")
        return ResultReply(500, opaque, body.encode()).encode().decode()
