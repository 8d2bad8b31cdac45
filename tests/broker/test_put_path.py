"""Puts: where they are stored, what their answers say, and how they fail."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.files import FileOps
from metatwist.wire import records
from tests.support.broker_parts import (
    ADDRESS,
    BrokerParts,
    Connection,
    get,
    opaques,
    put,
)

FIRST_ID = 1661382015569645568


class FullDisk(FileOps):
    """A disk that takes nothing while it is `full`, after a part of what comes."""

    full = False

    def append(self, fd: int, buffers: Sequence[bytes]) -> None:
        """See FileOps."""
        if self.full:
            super().append(fd, [b"".join(buffers)[:10]])
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(fd, buffers)


def result(code: int, body: str, opaque: int = 1) -> bytes:
    """A whole `result`."""
    text = body.encode()
    return b"result %d %d %d\r\n%s" % (code, len(text), opaque, text)


def failed(detail: str, where: str = "test-0") -> str:
    """The words of a put that was not stored."""
    text = f"Put message to [broker '{ADDRESS}'] [partition '{where}'] failed."
    return f"{text}Detail:{detail}" if detail else text


class PutCase(SynchronousTestCase):
    """A broker and one peer."""

    def setUp(self) -> None:
        """Connect."""
        self.files = FullDisk()
        self.parts = BrokerParts(self, files=self.files)
        self.peer = self.parts.connect()

    def stored(self, peer: Connection) -> list[records.Record]:
        """The records of test-0."""
        body = peer.ask(get(0)).partition(b"\r\n")[2]
        return list(records.whole_records(body))


class StoringTests(PutCase):
    """What is stored, and what is said about it."""

    def test_answer(self) -> None:
        """The answer says id, partition and offset, and nothing else."""
        expected = result(200, f"{FIRST_ID} 0 0")
        self.assertEqual(self.peer.ask(put(b"hello")), expected)

    def test_stored_record(self) -> None:
        """What is stored is the record with its id, checksum, flag and payload."""
        self.peer.ask(b"put test 0 5 -7 907060870 1\r\nhello")
        (record,) = self.stored(self.peer)
        self.assertEqual(record, (0, FIRST_ID, -7, 907060870, b"hello"))

    def test_ids_rise_over_partitions_and_connections(self) -> None:
        """No two messages of a broker have the same id, and later ones a higher one."""
        other = self.parts.connect()
        data = b"".join(
            peer.ask(put(b"x", partition=partition), put(b"y", partition=partition))
            for partition in (0, 1)
            for peer in (self.peer, other)
        )
        found = [int(text) for text in re.findall(rb"\r\n([0-9]+) ", data)]
        self.assertEqual(len(found), 8)
        self.assertEqual(found, sorted(set(found)))

    def test_one_read_is_one_write(self) -> None:
        """Puts that arrive together are stored together and answered together."""
        self.peer.send(*(put(b"x", number) for number in range(50)))
        self.parts.turn()
        self.assertEqual(len(self.parts.syncer.waiting), 1)
        self.parts.sync()
        self.assertEqual(opaques(self.peer.taken()), list(range(50)))
        self.assertEqual(self.parts.numbers.flushes, 1)

    def test_next_batch_gathers_during_a_flush(self) -> None:
        """What comes while a flush runs is flushed by the next one, all of it."""
        for number in range(5):
            self.peer.send(put(b"x", number))
            self.parts.turn()
        self.assertEqual(len(self.parts.syncer.waiting), 1)
        self.parts.sync()
        self.assertEqual(opaques(self.peer.taken()), [0])
        self.parts.sync()
        self.assertEqual(opaques(self.peer.taken()), [1, 2, 3, 4])
        self.assertEqual(self.parts.syncer.waiting, [])

    def test_direct_mode(self) -> None:
        """With a threshold a put is answered and readable without an fsync."""
        self.peer.send(put(b"hello", topic="lazy"))
        self.parts.turn()
        self.assertEqual(self.parts.syncer.waiting, [])
        self.assertEqual(opaques(self.peer.taken()), [1])
        self.peer.send(get(0, topic="lazy"))
        self.assertTrue(self.peer.taken().endswith(b"hello"))

    def test_unacknowledged_message_is_not_readable(self) -> None:
        """In group commit nobody reads what is not on disk."""
        self.peer.send(put(b"hello"))
        self.parts.turn()
        other = self.parts.connect()
        other.send(get(0))
        self.assertTrue(other.taken().startswith(b"result 404 "))
        self.parts.sync()
        other.send(get(0))
        self.assertTrue(other.taken().endswith(b"hello"))

    def test_broker_chooses(self) -> None:
        """For partition -1 one that is open is chosen, and its number is answered."""
        self.assertIn(b" 2 0", self.peer.ask(put(b"x", partition=-1)))
        self.parts.topics.closed.add(("test", 2))
        self.parts.topics.changed()
        self.assertIn(b" 1 0", self.peer.ask(put(b"x", partition=-1)))


class RefusalTests(PutCase):
    """Puts that are answered and not stored."""

    def test_all_closed(self) -> None:
        """Without an open partition the broker cannot choose."""
        self.parts.topics.closed.update(("test", number) for number in range(3))
        self.parts.topics.changed()
        text = failed("partition[5--1] has been closed", "test--1")
        self.assertEqual(self.peer.ask(put(b"x", partition=-1)), result(403, text))

    def test_closing_takes_effect_at_once(self) -> None:
        """A partition that was written before is closed by the next put, and opens."""
        self.peer.ask(put(b"x"))
        self.parts.topics.closed.add(("test", 0))
        self.parts.topics.changed()
        self.assertTrue(self.peer.ask(put(b"x")).startswith(b"result 403 "))
        self.parts.topics.closed.clear()
        self.parts.topics.changed()
        self.assertTrue(self.peer.ask(put(b"x")).startswith(b"result 200 "))

    def test_unsafe_topic(self) -> None:
        """A wildcard lets no name through that means something as a path."""
        for name in ("wild/../x", "wild\0"):
            text = failed(f"The server do not accept topic {name}", f"{name}-0")
            self.assertEqual(self.peer.ask(put(b"x", topic=name)), result(500, text))

    def test_refused_between_stored(self) -> None:
        """A refused put takes no offset, and its answer keeps its place."""
        data = self.peer.ask(
            put(b"x", 1), b"put test 0 1 0 77 2\r\nx", put(b"x", 9, partition=7)
        )
        self.assertEqual(opaques(data), [1, 2, 9])
        self.assertIn(b" 0 21", self.peer.ask(put(b"x", 3)))

    def test_only_refused(self) -> None:
        """Refused puts alone are answered at once."""
        self.peer.send(put(b"x", 1, topic="nope"), put(b"x", 2, topic="nope"))
        self.assertEqual(opaques(self.peer.taken()), [1, 2])

    def test_topic_that_is_not_ascii(self) -> None:
        """Lengths count bytes, not characters."""
        text = failed("The server do not accept topic \u6587", "\u6587-0")
        self.assertEqual(self.peer.ask(put(b"x", topic="\u6587")), result(500, text))

    def test_counts(self) -> None:
        """Refused puts count as puts; as failed ones unless closed or transactional."""
        self.parts.topics.closed.add(("test", 2))
        self.peer.ask(
            put(b"x", partition=2),
            put(b"x", partition=7),
            put(b"x", topic="nope"),
            b"put test 0 1 0 -1 TX:s:1 1\r\nx",
        )
        numbers = self.parts.numbers
        self.assertEqual((numbers.cmd_put, numbers.put_failed), (3, 2))
        self.assertEqual(numbers.refused_closed, 1)
        self.assertNotIn("nope", numbers.topics)


class FailureTests(PutCase):
    """The disk fails."""

    def test_failed_fsync(self) -> None:
        """A put whose fsync failed is answered 500, and so are those behind it."""
        self.peer.ask(put(b"before"))
        self.peer.send(put(b"x", 1))
        self.parts.turn()
        self.peer.send(put(b"y", 2))
        self.parts.sync(OSError(errno.EIO, "Input/output error"))
        expected = result(500, failed("")) + result(500, failed(""), 2)
        self.assertEqual(self.peer.taken(), expected)

    def test_failed_partition_stops(self) -> None:
        """After a failed fsync puts are refused with the reason, and reads go on."""
        self.peer.ask(put(b"before"))
        self.peer.send(put(b"x"))
        self.parts.turn()
        self.parts.sync(OSError(errno.EIO, "Input/output error"))
        self.peer.taken()
        answer = self.peer.ask(put(b"y"))
        self.assertTrue(answer.startswith(b"result 500 "))
        self.assertIn(b"Input/output error", answer)
        self.assertEqual([one.payload for one in self.stored(self.peer)], [b"before"])

    def test_other_partitions_go_on(self) -> None:
        """One partition's failure stops no other, not even in the same read."""
        self.peer.send(put(b"x", 1), put(b"y", 2, partition=1))
        self.parts.turn()
        self.parts.sync(OSError(errno.EIO, "Input/output error"))
        self.parts.sync()
        data = self.peer.taken()
        self.assertEqual(opaques(data), [1, 2])
        self.assertTrue(data.startswith(result(500, failed(""))))
        self.assertTrue(data.endswith(b" 1 0"))

    def test_full_disk(self) -> None:
        """A write that fails is answered 500 and leaves nothing behind."""
        self.peer.ask(put(b"before"))
        self.files.full = True
        self.assertEqual(self.peer.ask(put(b"x")), result(500, failed("")))
        self.files.full = False
        self.assertIn(b" 0 26", self.peer.ask(put(b"after")))
        payloads = [one.payload for one in self.stored(self.peer)]
        self.assertEqual(payloads, [b"before", b"after"])

    def test_full_disk_in_direct_mode(self) -> None:
        """The same holds without group commit."""
        self.files.full = True
        text = failed("", "lazy-0")
        self.assertEqual(self.peer.ask(put(b"x", topic="lazy")), result(500, text))
        self.files.full = False
        self.assertIn(b" 0 0", self.peer.ask(put(b"x", topic="lazy")))
        self.assertEqual(self.parts.numbers.put_failed, 1)
        self.assertEqual(self.parts.numbers.write_failed, 1)
