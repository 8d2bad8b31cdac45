"""The put command: checks, then into the partition's open batch.

Every line of `PutPath.put` runs once per message; all that needs a look at settings,
closed partitions or the disk happens in `_find`, once per partition, and in the refusals
(spec wire-protocol 3.2).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from metatwist.broker.commit import Batch, CommitQueue
from metatwist.broker.message_ids import MessageIds
from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.replies import ReplyQueue
from metatwist.broker.topics import Topics
from metatwist.errors import BrokerError, PartitionClosed, TransactionUnknown
from metatwist.wire.commands import NO_CHECKSUM, PutCommand, ResultReply
from metatwist.wire.records import CHECKSUM_MASK, HEADER_BYTES, crc32, pack_header

BROKER_CHOOSES = -1
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

    def put(self, command: PutCommand, replies: ReplyQueue) -> None:
        """Accept a put, or answer why not; the answer goes through `replies`."""
        topic, partition, flag, expected, transaction, opaque, body = command
        queue = self._queues.get((topic, partition))
        if queue is None or transaction is not None:
            found = self._find(command, replies)
            if found is None:
                return
            queue = found
            partition = queue.partition
        found_crc = crc32(body) & CHECKSUM_MASK
        if expected != found_crc and expected != NO_CHECKSUM:
            self._refuse(command, partition, BrokerError(BAD_CHECKSUM), replies)
            return
        batch = queue.open
        if batch is None:
            batch = queue.begin()
            self._ids.follow_clock()
        message_id = batch.last_id = self._ids.take()
        size, offset = len(body), queue.end
        queue.end = offset + HEADER_BYTES + size
        add = batch.buffers.append
        add(pack_header(size, found_crc, message_id, flag))
        add(body)
        batch.waiters[replies] = None
        text = f"{message_id} {partition} {offset}"
        replies.add((batch, opaque, f"result 200 {len(text)} {opaque}\r\n{text}"))

    def _find(self, command: PutCommand, replies: ReplyQueue) -> CommitQueue | None:
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
            self._refuse(command, partition, error, replies)
            return None
        self._queues[command.topic, partition] = queue
        return queue

    def _any_open(self, topic: str) -> int:
        """A partition at random, closed ones left out (spec 7.9)."""
        count = self._topics.partition_count(topic)
        is_closed = self._topics.is_closed
        open_ones = [number for number in range(count) if not is_closed(topic, number)]
        if not open_ones:
            raise PartitionClosed(self._topics.closed_text(BROKER_CHOOSES))
        return self._choose(open_ones)

    def _refuse(
        self,
        command: PutCommand,
        partition: int,
        error: BrokerError,
        replies: ReplyQueue,
    ) -> None:
        self._count_refusal(command, error)
        body = str(error)
        if not isinstance(error, TransactionUnknown):
            body = self._failed_text(command.topic, partition, f"Detail:{error}")
        answer = ResultReply(error.code, command.opaque, body.encode()).encode()
        replies.say(answer)

    def _count_refusal(self, command: PutCommand, error: BrokerError) -> None:
        numbers = self._numbers
        if isinstance(error, TransactionUnknown):
            return
        numbers.cmd_put += 1
        topic = None
        if self._topics.accepts(command.topic):
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

    def failed(self, batch: Batch, opaque: int) -> bytes:
        """The answer to a put whose batch could not be stored (spec 3.2, step 10)."""
        queue = batch.queue
        body = self._failed_text(queue.topic, queue.partition, "")
        return ResultReply(500, opaque, body.encode()).encode()
