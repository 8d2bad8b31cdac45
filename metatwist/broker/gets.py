"""The get and offset commands (spec wire-protocol 3.4, 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any, Protocol

from twisted.logger import Logger

from metatwist.broker.filters import FilterFailed, Filters, accepted_run
from metatwist.broker.numbers import BrokerNumbers, TopicNumbers
from metatwist.broker.storage.files import FileOps
from metatwist.broker.storage.partition_log import PartitionLog
from metatwist.broker.storage.slices import FileSlice, NothingThere, OffsetMoved
from metatwist.broker.topics import Topics
from metatwist.errors import BrokerError, PartitionClosed
from metatwist.wire.commands import (
    GetCommand,
    OffsetCommand,
    ResultReply,
    ValueReply,
    value_header,
)
from metatwist.wire.records import HEADER_BYTES

TELL_ME_THE_END = 9223372036854775807
_READ_AHEAD_FACTOR = 2


class IOutput(Protocol):
    """Where the answer of a get goes: bytes, or a header and a range of a file."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def send_range(self, header: bytes, file: Any, position: int, size: int) -> None:
        """Send a header and a range of an open file, then release the file."""


class GetPath:
    """Answers gets and offsets from the logs."""

    _log = Logger()

    def __init__(
        self,
        topics: Topics,
        filters: Filters,
        numbers: BrokerNumbers,
        files: FileOps,
        address: Callable[[], str],
    ) -> None:
        self._topics = topics
        self._filters = filters
        self._numbers = numbers
        self._files = files
        self._address = address

    def get(self, command: GetCommand, output: IOutput) -> None:
        """Answer one get, always with exactly one reply."""
        began_s = perf_counter()
        numbers = self._numbers
        numbers.cmd_get += 1
        topic_numbers = self._topic_numbers(command.topic)
        if topic_numbers is not None:
            topic_numbers.get += 1
        try:
            self._answer(command, topic_numbers, output)
        except BrokerError as error:
            if error.code == 404:
                self._missed(topic_numbers)
            self._say(
                command.opaque, error.code, self._error_text(command, error), output
            )
        except (OSError, FilterFailed) as error:
            numbers.get_failed += 1
            self._log.error("get {command}: {error}", command=command, error=error)
            failed = BrokerError(str(error))
            self._say(command.opaque, 500, self._error_text(command, failed), output)
        numbers.get_latency.observe(perf_counter() - began_s)

    def _answer(
        self, command: GetCommand, counted: TopicNumbers | None, output: IOutput
    ) -> None:
        topic, group, partition, offset, max_size, opaque = command
        topics = self._topics
        if (topic, partition) in topics.closed:
            text = topics.closed_text(partition)
            raise PartitionClosed(text[0].upper() + text[1:])
        log = topics.log_for_read(topic, partition)
        if max_size <= 0:
            self._say(opaque, 400, f"Bad request,invalid max size:{max_size}", output)
            return
        limit = min(max_size, topics.settings.max_transfer_bytes)
        found = log.slice(offset, limit)
        if isinstance(found, FileSlice):
            if max_size > limit:
                found = self._whole_record(log, found, max_size)
            accept = self._filters.find(topic, group)
            if accept is not None:
                self._filtered(command, log, found, accept, output)
            else:
                self._send(command, log, found, output)
        elif isinstance(found, OffsetMoved):
            self._numbers.cmd_offset += 1
            if offset < log.start:
                self._missed(counted)
            self._say(opaque, 301, str(found.offset), output)
        else:
            self._nothing(command, log, found, counted, output)

    def _nothing(
        self,
        command: GetCommand,
        log: PartitionLog,
        found: NothingThere,
        counted: TopicNumbers | None,
        output: IOutput,
    ) -> None:
        self._missed(counted)
        tell = self._topics.settings.update_consumer_offsets
        if found.beyond and (tell or command.offset == TELL_ME_THE_END):
            self._numbers.cmd_offset += 1
            self._say(command.opaque, 301, str(log.readable_end), output)
        else:
            text = f"Could not find message at position {command.offset}"
            self._say(command.opaque, 404, text, output)

    def _whole_record(
        self, log: PartitionLog, found: FileSlice, max_size: int
    ) -> FileSlice:
        """Let one record over `maxTransferSize` through whole, up to the configured
        bound, when the consumer has asked for that much."""
        segment, position, size = found
        file = log.open(segment)
        try:
            length = int.from_bytes(self._files.read(file.fd, position, 4), "big")
        finally:
            file.release()
        bound = self._topics.settings.max_message_bytes + HEADER_BYTES
        whole = HEADER_BYTES + length
        if not size < whole <= min(max_size, bound):
            return found
        bigger = log.slice(segment.start + position, whole)
        return bigger if isinstance(bigger, FileSlice) else found

    def _send(
        self, command: GetCommand, log: PartitionLog, found: FileSlice, output: IOutput
    ) -> None:
        segment, position, size = found
        file = log.open(segment)
        self._count_out(command, size)
        header = value_header(size, command.opaque)
        behind = position + size
        ahead = min(segment.size_bytes - behind, _READ_AHEAD_FACTOR * size)
        if ahead > 0:
            with suppress(OSError):  # only advice
                self._files.will_need(file.fd, behind, ahead)
        output.send_range(header, file, position, size)

    def _filtered(
        self,
        command: GetCommand,
        log: PartitionLog,
        found: FileSlice,
        accept: Callable[..., bool],
        output: IOutput,
    ) -> None:
        """Only what the group's filter accepts, so that offsets add up (spec 7.10)."""
        segment, position, size = found
        file = log.open(segment)
        try:
            data = self._files.read(file.fd, position, size)
        finally:
            file.release()
        run = accepted_run(data, command.group, accept)
        if run.skipped:
            self._say(command.opaque, 301, str(command.offset + run.skipped), output)
            return
        body = data[: run.accepted] if run.accepted else data
        self._count_out(command, len(body))
        output.write(ValueReply(command.opaque, body).encode())

    def _count_out(self, command: GetCommand, size: int) -> None:
        self._numbers.bytes_out += size
        counted = self._numbers.partition(command.topic, command.partition)
        counted.bytes_out += size
        counted.gets += 1

    def offset(self, command: OffsetCommand, output: IOutput) -> None:
        """Answer the nearest place to read on from."""
        self._numbers.cmd_offset += 1
        counted = self._topic_numbers(command.topic)
        if counted is not None:
            counted.offset += 1
        try:
            log = self._topics.log_for_read(command.topic, command.partition)
        except BrokerError as error:
            self._say(command.opaque, error.code, str(error), output)
            return
        self._say(command.opaque, 200, str(log.nearest(command.offset)), output)

    def _topic_numbers(self, topic: str) -> TopicNumbers | None:
        return self._numbers.topic(topic) if self._topics.is_counted(topic) else None

    def _missed(self, counted: TopicNumbers | None) -> None:
        self._numbers.get_miss += 1
        if counted is not None:
            counted.get_miss += 1

    def _error_text(self, command: GetCommand, error: BrokerError) -> str:
        if error.code != 500:
            return str(error)
        return (
            f"Put message to [broker '{self._address()}'] [partition"
            f" '{command.topic}-{command.partition}'] failed.Detail:{error}"
        )

    def _say(self, opaque: int, code: int, text: str, output: IOutput) -> None:
        output.write(ResultReply(code, opaque, text.encode()).encode())
