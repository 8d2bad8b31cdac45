"""What a fake broker answers to each request, word for word as a broker does (spec
wire-protocol 3)."""

from __future__ import annotations

from attrs import define, field

from metatwist.errors import BrokerError, PartitionClosed, TransactionUnknown
from metatwist.testing.partition import FakePartition
from metatwist.testing.stats import VERSION, FakeStats
from metatwist.testing.store import BROKER_CHOOSES, FakeStore
from metatwist.wire.commands import (
    NO_CHECKSUM,
    GetCommand,
    Message,
    OffsetCommand,
    PutCommand,
    Reply,
    ResultReply,
    StatsCommand,
    SyncCommand,
    TransactionCommand,
    ValueReply,
    VersionCommand,
)
from metatwist.wire.reader import DEFAULT_MAX_BODY_BYTES
from metatwist.wire.records import HEADER_BYTES, checksum

MAX_TRANSFER_BYTES = 1 << 20
TELL_ME_THE_END = 9223372036854775807
BAD_CHECKSUM = (
    "Checksum failure,message may be corrupted when transfering on networking."
)
NO_SYNC = "This broker is no synchronous replica: SyncCommand is not handled"
_TRANSACTION_VERBS = {
    "BEGIN": "beginTransaction",
    "PREPARE": "prepareTransaction",
    "COMMIT_ONE_PHASE": "commitTransaction",
    "COMMIT_TWO_PHASE": "commitTransaction",
    "ROLLBACK": "rollbackTransaction",
    "FORGET": "forgetTransaction",
    "RECOVER": "getPreparedTransactions",
}


@define
class FakeAnswers:
    """Answers from a store; `refusal` is what all puts get while it is set."""

    store: FakeStore
    stats: FakeStats
    address: str
    refusal: tuple[int, str] | None = field(default=None)

    def to(self, command: Message) -> Reply | None:
        """The answer; None to what is not answered: END, and stray replies."""
        match command:
            case PutCommand():
                return self._put(command)
            case GetCommand():
                return self._get(command)
            case OffsetCommand():
                return self._offset(command)
            case VersionCommand():
                return _say(command.opaque, 200, VERSION)
            case StatsCommand():
                return _say(command.opaque, 200, self.stats.text(command.item))
            case SyncCommand():
                return _say(command.opaque, 503, NO_SYNC)
            case TransactionCommand() if command.kind != "END":
                text = f"Unsupported {_TRANSACTION_VERBS[command.kind]}"
                return _say(command.opaque, 500, text)
        return None

    # -- put (3.2) ----------------------------------------------------------------

    def _put(self, command: PutCommand) -> Reply:
        counters, key = self.store.counters, command.transaction
        if key is not None:
            return _say(command.opaque, 500, str(TransactionUnknown(key)))
        counters.cmd_put += 1
        if self.refusal is not None:
            return _say(command.opaque, *self.refusal)
        partition = command.partition
        try:
            if (command.topic, partition) in self.store.closed:
                raise PartitionClosed(self.store.closed_text(partition))
            if partition == BROKER_CHOOSES:
                partition = self.store.choose(command.topic)
            self.store.for_put(command.topic, partition)
            if command.checksum not in (NO_CHECKSUM, checksum(command.body)):
                raise BrokerError(BAD_CHECKSUM)
        except BrokerError as error:
            counters.put_failed += error.code == 500
            text = self._failed_text(command.topic, partition, error)
            return _say(command.opaque, error.code, text)
        message_id, offset = self.store.append(
            command.topic, partition, command.flag, command.body
        )
        return _say(command.opaque, 200, f"{message_id} {partition} {offset}")

    def _failed_text(self, topic: str, partition: int, error: BrokerError) -> str:
        return (
            f"Put message to [broker '{self.address}'] [partition"
            f" '{topic}-{partition}'] failed.Detail:{error}"
        )

    # -- get (3.4) ----------------------------------------------------------------

    def _get(self, command: GetCommand) -> Reply:
        self.store.counters.cmd_get += 1
        try:
            return self._found(command)
        except BrokerError as error:
            self.store.counters.get_miss += error.code == 404
            return _say(command.opaque, error.code, str(error))

    def _found(self, command: GetCommand) -> Reply:
        topic, _, partition, offset, max_size, opaque = command
        if (topic, partition) in self.store.closed:
            text = self.store.closed_text(partition)
            raise PartitionClosed(text[0].upper() + text[1:])
        found = self.store.for_read(topic, partition)
        if max_size <= 0:
            return _say(opaque, 400, f"Bad request,invalid max size:{max_size}")
        if found.start <= offset < found.end:
            return ValueReply(opaque, _slice(found, offset, max_size))
        self.store.counters.get_miss += 1
        if offset < found.start:
            return self._moved(opaque, found.start)
        if offset == TELL_ME_THE_END > found.end:
            return self._moved(opaque, found.end)
        return _say(opaque, 404, f"Could not find message at position {offset}")

    def _moved(self, opaque: int, offset: int) -> Reply:
        self.store.counters.cmd_offset += 1
        return _say(opaque, 301, str(offset))

    # -- offset (3.5) -------------------------------------------------------------

    def _offset(self, command: OffsetCommand) -> Reply:
        self.store.counters.cmd_offset += 1
        try:
            found = self.store.for_read(command.topic, command.partition)
        except BrokerError as error:
            return _say(command.opaque, error.code, str(error))
        return _say(command.opaque, 200, str(found.nearest(command.offset)))


def _say(opaque: int, code: int, text: str) -> ResultReply:
    return ResultReply(code, opaque, text.encode("utf-8", "replace"))


def _slice(found: FakePartition, offset: int, max_size: int) -> bytes:
    """What a `value` carries: a record above the limit comes whole if asked for."""
    limit = min(max_size, MAX_TRANSFER_BYTES)
    data = found.read(offset, limit)
    whole = HEADER_BYTES + int.from_bytes(data[:4], "big")
    bound = min(max_size, HEADER_BYTES + DEFAULT_MAX_BODY_BYTES)
    return found.read(offset, whole) if len(data) < whole <= bound else data
