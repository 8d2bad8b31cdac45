"""The crash test's own judgement: every kind of breach is seen."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.wire_client import HEADER, Stored, checksum

from .ledger import Breach, PartitionLedger, Sending
from .payloads import Identity, Payloads

PAYLOADS = Payloads(5)


def identity(sequence: int, round_: int = 1) -> Identity:
    """One message of producer 0."""
    return Identity(round_, 0, sequence)


def record(payload: bytes, message_id: int) -> bytes:
    """A record as the broker stores it."""
    header = HEADER.pack(len(payload), checksum(payload), message_id, 0)
    return header + payload


class Judgement(SynchronousTestCase):
    """One ledger that was told of messages 0 to 3 at offsets without holes."""

    def setUp(self) -> None:
        """Message n has id 100 + n; the log is as the broker should have kept it."""
        self.ledger = PartitionLedger("t-0", PAYLOADS)
        self.records: list[bytes] = []
        offset = 0
        for sequence in range(4):
            sending = self.sending(sequence, offset)
            self.ledger.take(sending)
            payload = PAYLOADS.make(sending.identity)
            self.records.append(record(payload, 100 + sequence))
            offset += sending.size_bytes

    def sending(self, sequence: int, offset: int | None) -> Sending:
        """Message `sequence`, acknowledged at `offset` or not at all."""
        payload = PAYLOADS.make(identity(sequence))
        stored = None if offset is None else Stored(100 + sequence, 0, offset)
        size = HEADER.size + len(payload)
        return Sending(identity(sequence), size, not payload, stored)

    def verify(self, records: list[bytes], earlier_id: int = 0) -> int:
        """Let the ledger judge a log of these records."""
        return self.ledger.verify([(0, b"".join(records))], earlier_id)

    def assert_breach(self, records: list[bytes], text: str) -> None:
        """The ledger refuses a log of these records with this text."""
        with self.assertRaises(Breach) as caught:
            self.verify(records)
        self.assertIn(text, str(caught.exception))

    def test_good_log(self) -> None:
        """A log as acknowledged is right, once and again, and grown by more."""
        self.assertEqual(self.verify(self.records), 4)
        self.assertEqual(self.verify(self.records), 4)
        self.ledger.take(self.sending(4, self.ledger.verified_end))
        more = record(PAYLOADS.make(identity(4)), 104)
        self.assertEqual(self.verify([*self.records, more], earlier_id=103), 5)

    def test_missing_at_the_end(self) -> None:
        """A lost last message is a breach."""
        self.assert_breach(self.records[:-1], "acknowledged messages are missing")

    def test_missing_in_the_middle(self) -> None:
        """A lost message before others is a breach."""
        self.assert_breach([self.records[0], *self.records[2:]], "t-0:")

    def test_never_sent(self) -> None:
        """A record that nobody sent is a breach, an empty one too."""
        strange = [*self.records, record(b"who are you?", 110)]
        self.assert_breach(strange, "was never sent")
        self.setUp()
        self.assert_breach([*self.records, record(b"", 110)], "was never sent")

    def test_twice(self) -> None:
        """The same message once more is a breach."""
        again = record(PAYLOADS.make(identity(3)), 110)
        self.assert_breach([*self.records, again], "is there twice")

    def test_unanswered_may_be_there_once(self) -> None:
        """A message without an answer may be stored, and not a second time."""
        self.ledger.take(self.sending(4, None))
        unanswered = record(PAYLOADS.make(identity(4)), 104)
        later = record(PAYLOADS.make(identity(4)), 105)
        whole = [*self.records, unanswered]
        self.assertEqual(self.verify(whole), 5)
        self.assert_breach([*whole, later], "is there twice")

    def test_unanswered_does_not_come_late(self) -> None:
        """What was not there after one start must not turn up after the next."""
        self.ledger.take(self.sending(4, None))
        self.verify(self.records)
        late = record(PAYLOADS.make(identity(4)), 104)
        self.assert_breach([*self.records, late], "was never sent here")

    def test_ids_rise(self) -> None:
        """An id that does not rise is a breach, within a log and over rounds."""
        with self.assertRaises(Breach):
            self.verify(self.records, earlier_id=100)
        self.setUp()
        self.ledger.take(self.sending(4, None))
        low = record(PAYLOADS.make(identity(4)), 103)
        self.assert_breach([*self.records, low], "does not rise")

    def test_other_id_than_acknowledged(self) -> None:
        """The id on disk is the one that was acknowledged."""
        changed = record(PAYLOADS.make(identity(3)), 109)
        self.assert_breach([*self.records[:3], changed], "acknowledged")

    def test_order_of_a_producer(self) -> None:
        """A producer's messages are in the order of sending."""
        ledger = PartitionLedger("t-0", PAYLOADS)
        ledger.take(self.sending(1, None))
        ledger.take(self.sending(2, None))
        swapped = [
            record(PAYLOADS.make(identity(2)), 101),
            record(PAYLOADS.make(identity(1)), 102),
        ]
        self.ledger = ledger
        self.assert_breach(swapped, "comes too late")

    def test_what_was_served_stays(self) -> None:
        """A byte that changes after it was read back once is a breach."""
        self.verify(self.records)
        changed = bytearray(self.records[1])
        changed[-1] ^= 1
        self.assert_breach(
            [self.records[0], bytes(changed), *self.records[2:]], "not what they were"
        )

    def test_offset_given_twice(self) -> None:
        """Two acknowledgements for one offset are a breach."""
        self.assertRaises(Breach, self.ledger.take, self.sending(4, 0))

    def test_payloads_are_recognized_whole_only(self) -> None:
        """A payload that lost or changed a byte is nobody's."""
        sequence = next(n for n in range(9) if len(PAYLOADS.make(identity(n))) > 20)
        payload = PAYLOADS.make(identity(sequence))
        self.assertEqual(PAYLOADS.identify(payload), identity(sequence))
        self.assertIsNone(PAYLOADS.identify(payload[:-1]))
        self.assertIsNone(PAYLOADS.identify(payload[:-1] + b"\xff\xff"))
