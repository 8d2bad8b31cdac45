"""What was sent and acknowledged in one partition, against what is read back.

After each start everything that a consumer can read is checked:

* every acknowledged message lies at its acknowledged offset with its id and payload;
* no message is there twice, none that was not sent; one that was sent and not
  acknowledged may be there, once;
* the messages of one producer are in the order in which it sent them;
* ids strictly rise, also above all ids of earlier rounds;
* what was read after an earlier start is still there, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from attrs import Factory, define

from tests.support.wire_client import Read, Stored, whole_records

from .payloads import Identity, Payloads


class Breach(Exception):
    """The broker broke its word; the text says how."""


class Sending(NamedTuple):
    """A message that left for a partition; `stored` is None without an answer.

    `size_bytes` counts the whole record.
    """

    identity: Identity
    size_bytes: int
    is_empty: bool
    stored: Stored | None


@define
class PartitionLedger:
    """The truth about one partition. `name` is for the text of a breach."""

    name: str
    payloads: Payloads
    verified_end: int = 0
    verified_messages: int = 0
    acknowledged: int = 0
    last_id: int = 0
    _acknowledged_end: int = 0
    _verified_digest: bytes = hashlib.sha256().digest()
    _awaited: dict[int, Sending] = Factory(dict)
    _unanswered: set[Identity] = Factory(set)
    _unanswered_empty: int = 0
    _seen: set[Identity] = Factory(set)
    _sequences: dict[tuple[int, int], int] = Factory(dict)

    @property
    def protected_end(self) -> int:
        """All before it was acknowledged, or was served after a start."""
        return max(self.verified_end, self._acknowledged_end)

    def take(self, sending: Sending) -> None:
        """Note what became of a message; raises Breach for an impossible answer."""
        if sending.stored is None:
            self._unanswered_empty += sending.is_empty
            if not sending.is_empty:
                self._unanswered.add(sending.identity)
            return
        self.acknowledged += 1
        offset = sending.stored.offset
        if offset < self.verified_end or offset in self._awaited:
            self._fail(f"{sending} was acknowledged where another message lies")
        self._awaited[offset] = sending
        end = offset + sending.size_bytes
        self._acknowledged_end = max(self._acknowledged_end, end)

    def verify(self, chunks: Iterable[tuple[int, bytes]], earlier_id: int) -> int:
        """Check all that can be read, given as (offset, whole records).

        `earlier_id` is the highest id found at the start before the last. Returns how
        many messages were looked at; raises Breach.
        """
        running, old_end, compared = hashlib.sha256(), self.verified_end, False
        for offset, data in chunks:
            old_size = min(max(0, old_end - offset), len(data))
            running.update(data[:old_size])
            if old_size < len(data):
                if not compared:
                    self._compare_prefix(running.digest())
                    compared = True
                records = whole_records(data[old_size:], offset + old_size)
                self._check_new(records, earlier_id)
                running.update(data[old_size:])
        if not compared:
            self._compare_prefix(running.digest())
        self._verified_digest = running.digest()
        self._check_nothing_missing()
        return self.verified_messages

    def _compare_prefix(self, digest: bytes) -> None:
        if digest != self._verified_digest:
            self._fail(
                f"the {self.verified_messages} messages before {self.verified_end},"
                " read after an earlier start, are not what they were"
            )

    def _check_new(self, records: Iterable[Read], earlier_id: int) -> None:
        for record in records:
            if record.message_id <= max(self.last_id, earlier_id):
                self._fail(
                    f"id {record.message_id} at {record.offset} does not rise above"
                    f" {self.last_id} here and {earlier_id} in earlier rounds"
                )
            self._check_known(record)
            self.last_id = record.message_id
            self.verified_end = record.end
            self.verified_messages += 1

    def _check_known(self, record: Read) -> None:
        sending = self._awaited.pop(record.offset, None)
        identity = self.payloads.identify(record.payload)
        if record.payload and identity is None:
            self._fail(f"the record at {record.offset} was never sent")
        if sending is not None:
            self._check_acknowledged(record, identity, sending)
        elif identity is not None and identity not in self._unanswered:
            again = identity in self._seen or self._is_acknowledged(identity)
            why = "is there twice" if again else "was never sent here"
            self._fail(f"{identity} at {record.offset} {why}")
        elif identity is None:
            self._unanswered_empty -= 1
            if self._unanswered_empty < 0:
                self._fail(f"the empty message at {record.offset} was never sent")
        if identity is not None:
            self._check_order(record, identity)

    def _is_acknowledged(self, identity: Identity) -> bool:
        return any(one.identity == identity for one in self._awaited.values())

    def _check_acknowledged(
        self, record: Read, identity: Identity | None, sending: Sending
    ) -> None:
        assert sending.stored is not None
        expected = None if sending.is_empty else sending.identity
        if identity != expected or record.message_id != sending.stored.message_id:
            self._fail(
                f"acknowledged {sending}, found {identity} with id"
                f" {record.message_id} at {record.offset}"
            )

    def _check_order(self, record: Read, identity: Identity) -> None:
        self._unanswered.discard(identity)
        if identity in self._seen:
            self._fail(f"{identity} at {record.offset} is there twice")
        self._seen.add(identity)
        producer = identity.round, identity.producer
        if identity.sequence <= self._sequences.get(producer, -1):
            self._fail(f"{identity} at {record.offset} comes too late")
        self._sequences[producer] = identity.sequence

    def _check_nothing_missing(self) -> None:
        self._unanswered.clear()
        self._unanswered_empty = 0
        if self._awaited:
            first = self._awaited[min(self._awaited)]
            self._fail(
                f"{len(self._awaited)} acknowledged messages are missing, the"
                f" first is {first}; what is there ends at {self.verified_end}"
            )

    def _fail(self, text: str) -> None:
        raise Breach(f"{self.name}: {text}")
