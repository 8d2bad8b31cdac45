"""Commit queues where things go wrong, and peers that must not flood the memory."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker import protocol as protocol_module
from metatwist.broker.operations import synced
from metatwist.broker.storage.files import FileOps
from tests.support.broker_parts import BrokerParts, Connection, get, opaques, put


class TroubledFiles(FileOps):
    """Writes fail while `trouble` is an exception."""

    trouble: Exception | None = None

    def append(self, fd: int, buffers: Sequence[bytes]) -> None:
        """As asked, or as told."""
        if self.trouble is not None:
            raise self.trouble
        super().append(fd, buffers)


class CommitCase(SynchronousTestCase):
    """A broker with a topic in group commit, and one producer."""

    def setUp(self) -> None:
        """One put is stored."""
        self.files = TroubledFiles()
        self.parts = BrokerParts(self, files=self.files)
        self.peer = self.parts.connect()
        self.peer.ask(put(b"first"))
        self.queue = self.parts.topics.queues["test", 0]


class CommitQueueTests(CommitCase):
    """What waits is told, whatever happens."""

    def test_idle_after_a_failed_write(self) -> None:
        """Who waits for a queue to be idle is told also when its last write fails."""
        self.peer.send(put(b"a"))
        self.parts.turn()
        self.peer.send(put(b"b", 2))
        waiting = synced(self.queue)
        self.files.trouble = OSError(errno.ENOSPC, "no space")
        self.parts.settle()
        self.assertIsNone(self.successResultOf(waiting))
        self.assertEqual(opaques(self.peer.taken()), [1, 2])

    def test_defect_while_writing(self) -> None:
        """Puts that meet a defect are answered, as is what was asked behind them, and
        the partition stops."""
        self.files.trouble = MemoryError("a defect")
        answers = self.peer.ask(put(b"b", 2), get(0, 3))
        self.assertEqual(len(self.flushLoggedErrors(MemoryError)), 1)
        self.assertEqual(opaques(answers), [2, 3])
        self.assertIn("internal error", str(self.queue.log.failure))

    def test_a_sync_without_puts(self) -> None:
        """A put is answered by its own sync, not by one that began before it."""
        self.queue.flush()
        self.peer.send(put(b"b", 2))
        self.parts.turn()
        self.parts.sync()
        self.assertEqual(self.peer.taken(), b"")
        self.parts.settle()
        self.assertEqual(opaques(self.peer.taken()), [2])
        self.assertEqual(self.queue.log.unsynced_bytes, 0)

    def test_no_descriptor_left(self) -> None:
        """A sync that found no descriptor is begun again; the partition goes on."""
        self.peer.send(put(b"b", 2))
        self.parts.turn()
        self.parts.sync(OSError(errno.EMFILE, "Too many open files"))
        self.assertEqual(self.peer.taken(), b"")
        self.assertFalse(self.parts.syncer.waiting)
        self.parts.clock.advance(1)
        self.parts.settle()
        self.assertEqual(opaques(self.peer.taken()), [2])
        self.assertIsNone(self.queue.log.failure)

    def test_defect_while_answering(self) -> None:
        """A connection whose answers meet a defect is closed, not left half dead."""
        self.peer.send(put(b"b", 2))

        def defect() -> None:
            raise RuntimeError("a defect")

        self.peer.protocol.replies.do(defect)
        self.parts.settle()
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertTrue(self.peer.transport.disconnected)


class FloodTests(CommitCase):
    """What one read asks for is answered as the peer reads."""

    def crowd(self, limit: int) -> None:
        """From `limit` bytes on the transport asks for a pause, as real ones do."""
        transport = self.peer.transport
        plain_write = transport.write

        def write(data: bytes) -> None:
            plain_write(data)
            if len(transport.value()) > limit:
                self.peer.protocol.pauseProducing()

        self.patch(transport, "write", write)

    def read_on(self, peer: Connection) -> bytes:
        """The peer reads all, and the transport says so."""
        data = peer.taken()
        peer.protocol.resumeProducing()
        return data

    def test_gets_of_one_read(self) -> None:
        """Hundreds of gets in one read take no more memory than a few answers."""
        self.peer.ask(put(b"x" * 3000))
        self.crowd(10_000)
        self.peer.send(*(get(25, number) for number in range(300)))
        answers = b""
        while waiting := len(self.peer.transport.value()):
            self.assertLess(waiting, 20_000)
            answers += self.read_on(self.peer)
        self.assertEqual(opaques(answers), list(range(300)))
        self.assertTrue(self.peer.is_read)

    def test_gets_behind_a_put(self) -> None:
        """The same holds for gets that have waited for a put."""
        self.crowd(10_000)
        self.peer.send(
            put(b"x" * 3000, 1), *(get(25, number) for number in range(2, 300))
        )
        self.parts.settle()
        answers = b""
        while waiting := len(self.peer.transport.value()):
            self.assertLess(waiting, 20_000)
            answers += self.read_on(self.peer)
        self.assertEqual(opaques(answers), list(range(1, 300)))

    def test_half_close_while_held_back(self) -> None:
        """A peer that has ended its side gets all answers before the close."""
        self.peer.ask(put(b"x" * 3000))
        self.crowd(10_000)
        self.peer.send(*(get(25, number) for number in range(50)))
        self.peer.protocol.readConnectionLost()
        answers = b""
        while not self.peer.transport.disconnecting:
            answers += self.read_on(self.peer)
        answers += self.peer.taken()
        self.assertEqual(opaques(answers), list(range(50)))


class ShareTests(CommitCase):
    """One connection does not keep the others waiting."""

    def test_long_work_is_split(self) -> None:
        """After its share of a turn a connection goes on in the next, in order."""
        self.patch(protocol_module, "SHARE_S", -1)
        self.peer.send(get(0, 1), get(0, 2), get(0, 3))
        self.assertEqual(opaques(self.peer.taken()), [1])
        self.assertFalse(self.peer.is_read)
        self.parts.turn()
        self.assertEqual(opaques(self.peer.taken()), [2, 3])
        self.assertTrue(self.peer.is_read)

    def test_new_partitions_are_made_a_few_at_a_time(self) -> None:
        """Puts to many topics that are met for the first time share turns as well."""
        self.patch(protocol_module, "SHARE_S", -1)
        self.peer.send(*(put(b"x", n, topic=f"wild{n}") for n in range(40)))
        self.assertLess(len(self.parts.topics.queues), 20)
        for _ in range(5):
            self.parts.turn()
        self.parts.settle()
        self.assertEqual(opaques(self.peer.taken()), list(range(40)))

    def test_stopped_before_its_turn(self) -> None:
        """A stop answers what has begun, and does not begin what was held back."""
        self.patch(protocol_module, "SHARE_S", -1)
        self.peer.send(get(0, 1), put(b"late", 2))
        self.peer.protocol.finish()
        self.parts.settle()
        self.assertEqual(opaques(self.peer.taken()), [1])
        self.assertTrue(self.peer.transport.disconnecting)
        self.assertEqual(self.queue.log.messages, 1)

    def test_gone_before_its_turn(self) -> None:
        """What a peer that has gone was still to be answered is forgotten."""
        self.patch(protocol_module, "SHARE_S", -1)
        self.peer.send(get(0, 1), put(b"late", 2))
        self.peer.lost()
        self.parts.settle()
        self.assertEqual(self.queue.log.messages, 1)


class UnfinishedTests(SynchronousTestCase):
    """Large messages that have begun to arrive."""

    def test_turns_are_taken(self) -> None:
        """Past the bound only the oldest unfinished message goes on; when it is whole,
        or its connection is gone, the next one does."""
        bounds = {
            "METATWIST_METATWIST_maxPendingBytes": "1000000",
            "METATWIST_METATWIST_maxMessageBytes": "900000",
        }
        parts = BrokerParts(self, environ=bounds)
        peers = [parts.connect() for _ in range(4)]
        whole = put(b"x" * 800_000)
        for peer in peers:
            peer.send(whole[:400_000])
        self.assertEqual([peer.is_read for peer in peers], [True, True, False, False])
        peers[0].send(whole[400_000:])
        parts.settle()
        self.assertTrue(peers[0].is_read)
        peers[1].lost()
        self.assertTrue(peers[2].is_read)
        for peer in peers[2:]:
            peer.send(whole[400_000:])
            parts.settle()
        for peer in (peers[0], *peers[2:]):
            self.assertEqual(opaques(peer.taken()), [1])
            self.assertTrue(peer.is_read)
