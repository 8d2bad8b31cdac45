"""Polls: what waits, what wakes it, and what else may happen to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from unittest import mock

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker import polls as polls_module
from metatwist.broker.metrics import BrokerCollector
from metatwist.broker.status import Status
from metatwist.wire.commands import GetCommand
from tests.support.broker_parts import (
    INI,
    BrokerParts,
    Connection,
    get,
    has_fired,
    opaques,
    poll,
    put,
)

LARGEST = 9223372036854775807
END = 75
NOT_FOUND = b"result 404 37 1\r\nCould not find message at position 75"
NO_STORE = b"result 404 47 1\r\nThe topic `test` in partition `1` is not exists"


class PollCase(SynchronousTestCase):
    """A broker with three messages of 25 bytes each in test-0, a producer, a peer."""

    ini = INI
    environ: dict[str, str] = {}

    def setUp(self) -> None:
        """Store them."""
        self.parts = BrokerParts(self, self.ini, self.environ)
        self.producer = self.parts.connect()
        self.producer.ask(*(put(b"hello") for _ in range(3)))
        self.peer = self.parts.connect()

    def advance(self, duration_s: float) -> None:
        """Let time pass in small steps."""
        self.parts.clock.pump([0.05] * round(duration_s / 0.05))

    @property
    def waiting(self) -> int:
        """The gauge."""
        return self.parts.numbers.waiting_polls

    def assert_waits(self, *requests: bytes) -> None:
        """These polls are not answered, whatever the disk does."""
        before = self.waiting
        self.assertEqual(self.peer.ask(*requests), b"")
        self.assertEqual(self.waiting, before + len(requests))

    def assert_told(self, answer: bytes) -> None:
        """The peer got this once the turn has ended, and nobody waits any more."""
        self.parts.turn()
        self.assertEqual(self.peer.taken(), answer)
        self.assertEqual(self.waiting, 0)


class WaitTests(PollCase):
    """At the end of a partition."""

    def test_new_data(self) -> None:
        """A poll is answered with what is stored, once it is on disk."""
        self.assert_waits(poll(END))
        self.producer.send(put(b"world"))
        self.parts.turn()
        self.assertEqual(self.peer.taken(), b"")
        self.parts.sync()
        answer = self.peer.taken()
        self.assertTrue(answer.startswith(b"value 25 1\r\n"))
        self.assertTrue(answer.endswith(b"world"))
        self.assertEqual(self.waiting, 0)

    def test_direct_mode(self) -> None:
        """In direct mode it is answered after the write, which is when it is read."""
        self.producer.ask(put(b"x", topic="lazy"))
        self.parts.settle()
        self.assert_waits(poll(21, topic="lazy"))
        self.producer.send(put(b"y", topic="lazy"))
        self.parts.turn()
        self.assertTrue(self.peer.taken().endswith(b"y"))

    def test_nothing_comes(self) -> None:
        """When the wait is over the answer is that of a get, and not before."""
        self.assert_waits(poll(END, wait_ms=5000))
        self.advance(4.9)
        self.assertEqual(self.peer.taken(), b"")
        self.advance(0.4)
        self.assertEqual(self.peer.taken(), NOT_FOUND)

    def test_waits_of_any_length(self) -> None:
        """Each poll waits for its own time, in whatever order they came."""
        for wait_ms in (3000, 1000, 2000, 1):
            self.assert_waits(poll(END, wait_ms, wait_ms=wait_ms))
        self.advance(5)
        self.assertEqual(opaques(self.peer.taken()), [1, 1000, 2000, 3000])

    def test_plain_get(self) -> None:
        """With no time to wait a poll is a get."""
        for wait_ms in (0, -1, -(1 << 31)):
            self.assertEqual(self.peer.ask(poll(END, wait_ms=wait_ms)), NOT_FOUND)

    def test_answered_at_once(self) -> None:
        """Whatever is no empty end is answered at once, as the get is."""
        self.parts.topics.closed.add(("test", 2))
        self.parts.catalog.failed["quiet", 0] = "the file is not readable"
        for offset, topic, partition, size in (
            (0, "test", 0, 1000),
            (END + 1, "test", 0, 1000),
            (-1, "test", 0, 1000),
            (LARGEST, "test", 0, 1000),
            (END, "test", 0, 0),
            (0, "test", 1, -1),
            (0, "test", 2, 1000),
            (0, "test", 3, 1000),
            (0, "test", -1, 1000),
            (0, "nope", 0, 1000),
            (0, "quiet", 0, 1000),
        ):
            rest = f"{topic} g {partition} {offset} {size}"
            expected = self.peer.ask(f"get {rest} 7\r\n".encode())
            answer = self.peer.ask(f"poll {rest} 5000 7\r\n".encode())
            self.assertEqual(answer, expected, rest)
            self.assertEqual(opaques(answer), [7])
        self.assertEqual(self.waiting, 0)

    def test_no_store_yet(self) -> None:
        """A partition that may get a store is waited for, and its first put read."""
        self.assert_waits(poll(0, 1, partition=1), poll(0, 2, topic="lazy"))
        self.assert_waits(poll(0, 3, topic="wildlife"))
        self.producer.send(put(b"a", partition=1), put(b"b", topic="lazy"))
        self.parts.turn()
        self.assertEqual(opaques(self.peer.taken()), [2])
        self.parts.settle()
        self.assertEqual(opaques(self.peer.taken()), [1])
        self.producer.ask(put(b"c", topic="wildlife"))
        self.assertEqual(opaques(self.peer.taken()), [3])

    def test_no_store_and_never_one(self) -> None:
        """When none comes the answer is that of a get."""
        self.assert_waits(poll(0, partition=1))
        self.advance(6)
        self.assertEqual(self.peer.taken(), NO_STORE)

    def test_store_that_begins_elsewhere(self) -> None:
        """An offset that is not the end of the new store is answered when it begins."""
        self.assert_waits(poll(1000, partition=1))
        self.producer.ask(put(b"a", partition=1))
        self.assertTrue(self.peer.taken().startswith(b"result 404 "))

    def test_only_the_partition_that_grew(self) -> None:
        """Others go on waiting, and are woken by their own."""
        self.producer.ask(put(b"x", partition=1))
        self.assert_waits(poll(END, 1), poll(21, 2, partition=1))
        self.producer.ask(put(b"x", partition=1))
        self.assertEqual(opaques(self.peer.taken()), [2])
        self.producer.ask(put(b"x"))
        self.assertEqual(opaques(self.peer.taken()), [1])

    def test_again_and_again(self) -> None:
        """A consumer that follows its answers sees every message once."""
        offset, seen = END, b""
        for number in range(10):
            self.peer.send(poll(offset))
            self.producer.ask(put(b"%d" % number))
            body = self.peer.taken().partition(b"\r\n")[2]
            seen += body[20:]
            offset += len(body)
        self.assertEqual(seen, b"0123456789")

    def test_many_polls(self) -> None:
        """All polls of a partition are answered in the turn, each once."""
        peers = [self.parts.connect() for _ in range(20)]
        for peer in peers:
            peer.send(poll(END, 1), poll(END, 2))
        self.producer.ask(put(b"x"), put(b"y"))
        self.producer.ask(put(b"z"))
        for peer in peers:
            self.assertEqual(opaques(peer.taken()), [1, 2])
        self.assertEqual(self.waiting, 0)

    def test_one_timer(self) -> None:
        """However many polls wait, there is one timer, and none when none waits."""
        self.advance(11)  # past the timers of what the setup stored
        self.assert_waits(*(poll(END, number) for number in range(50)))
        self.assertEqual(len(self.parts.clock.getDelayedCalls()), 1)
        self.advance(6)
        self.assertEqual(self.parts.clock.getDelayedCalls(), [])

    def test_stopped_timer(self) -> None:
        """A stopped broker leaves none behind."""
        self.assert_waits(poll(END))
        self.peer.lost()
        self.parts.polls.stop()
        self.parts.polls.stop()
        self.assertEqual(self.parts.clock.getDelayedCalls(), [])

    def test_counts(self) -> None:
        """A poll counts as a get when it is answered, and shows while it waits."""
        numbers, topics = self.parts.numbers, self.parts.topics
        before = numbers.cmd_get, numbers.get_miss
        self.assert_waits(poll(END), poll(END))
        self.assertEqual((numbers.cmd_get, numbers.get_miss), before)
        metrics = BrokerCollector(numbers, topics).text()
        self.assertIn("metatwist_waiting_polls 2.0\n", metrics)
        status = Status(topics, numbers, self.parts.stats).status()
        self.assertEqual(status["numbers"]["waiting_polls"], 2)
        self.advance(6)
        self.assertEqual(numbers.cmd_get, before[0] + 2)
        self.assertEqual(numbers.get_miss, before[1] + 2)


class OrderTests(PollCase):
    """Polls among other requests of a connection."""

    def test_waiting_holds_up_nothing(self) -> None:
        """What is asked behind a waiting poll is answered."""
        data = self.peer.ask(
            poll(END, 1, wait_ms=60_000),
            get(0, 2),
            b"offset test g 0 0 3\r\n",
            put(b"x", 4),
        )
        self.assertEqual(sorted(opaques(data)), [1, 2, 3, 4])
        self.assertEqual(opaques(data)[:2], [2, 3])

    def test_overtakes(self) -> None:
        """A poll that finds data does not wait for the disk."""
        self.peer.send(put(b"x", 1), poll(0, 2), get(0, 3))
        self.parts.turn()
        self.assertEqual(opaques(self.peer.taken()), [2])
        self.parts.sync()
        self.assertEqual(opaques(self.peer.taken()), [1, 3])

    def test_put_of_the_same_read(self) -> None:
        """A poll behind a put waits for that put, and is answered behind it."""
        self.assertEqual(opaques(self.peer.ask(put(b"x", 1), poll(END, 2))), [1, 2])

    def test_others_are_acknowledged_first(self) -> None:
        """The producer's answer does not wait for its readers."""
        written: list[str] = []
        self.producer.transport.write = lambda data: written.append("producer")
        self.peer.transport.write = lambda data: written.append("peer")
        self.peer.send(poll(END))
        self.producer.ask(put(b"x"))
        self.assertEqual(written, ["producer", "peer"])

    def test_lane(self) -> None:
        """Within a lane the answer leaves when the lane ends the turn."""
        self.producer.ask(put(b"x", topic="lazy"))
        self.assert_waits(poll(21, topic="lazy"))
        self.parts.turns.in_lane = True
        self.producer.send(put(b"y", topic="lazy"))
        self.parts.turns.end()
        self.assertEqual(opaques(self.peer.taken()), [1])

    def test_a_turn_has_an_end(self) -> None:
        """When answering takes long the rest follows in the next turns."""
        peers = [self.parts.connect() for _ in range(3)]
        for peer in peers:
            peer.send(poll(END, 1), poll(END, 2))
        self.producer.send(put(b"x"))
        self.parts.turn()
        seconds, clock, counts = itertools.count(), self.parts.clock, list[int]()
        call_later = clock.callLater

        def noted(delay_s: float, call: Callable[[], object]) -> object:
            counts.append(self.answered(peers))
            return call_later(delay_s, call)

        self.patch(clock, "callLater", noted)
        self.patch(polls_module, "perf_counter", lambda: next(seconds) / 150)
        self.parts.sync()
        self.assertLess({1, 2, 3, 4, 5}, {*counts, 6})
        self.assertEqual(self.answered(peers), 6)

    def answered(self, peers: list[Connection]) -> int:
        """Replies that these peers have, in all."""
        return sum(len(opaques(peer.transport.value())) for peer in peers)


class LimitTests(PollCase):
    """The settings."""

    environ = {
        "METATWIST_METATWIST_maxPollWaitMs": "2000",
        "METATWIST_METATWIST_maxWaitingPolls": "2",
    }

    def test_longest_wait(self) -> None:
        """Nobody waits longer than `maxPollWaitMs`."""
        self.assert_waits(poll(END, wait_ms=(1 << 31) - 1))
        self.advance(1.9)
        self.assertEqual(self.peer.taken(), b"")
        self.advance(0.4)
        self.assertEqual(self.peer.taken(), NOT_FOUND)

    def test_most_polls(self) -> None:
        """Past `maxWaitingPolls` of a connection a poll is answered at once."""
        self.assert_waits(poll(END, 2), poll(END, 3))
        self.assertEqual(self.peer.ask(poll(END, 1)), NOT_FOUND)
        other = self.parts.connect()
        self.assertEqual(other.ask(poll(END)), b"")
        self.producer.ask(put(b"x"))
        self.assertEqual(opaques(self.peer.taken()), [2, 3])
        self.assert_waits(poll(END + 21))

    def test_those_that_are_due_count(self) -> None:
        """A peer that does not read its answers gets no room for more."""
        self.assert_waits(poll(END, 1), poll(END, 2))
        self.peer.protocol.pauseProducing()
        self.producer.ask(put(b"x"))
        self.peer.send(poll(END + 21, 3))
        self.peer.protocol.resumeProducing()
        self.assertEqual(opaques(self.peer.taken()), [1, 2])
        self.assertEqual(self.waiting, 1)

    def test_reload(self) -> None:
        """A new limit holds for the polls that come, and none waits with 0."""
        self.assert_waits(poll(END))
        settings = evolve(self.parts.settings, max_poll_wait_ms=0)
        self.parts.topics.apply(settings)
        self.parts.turn()
        self.assertEqual(opaques(self.peer.ask(poll(END, 2))), [2])
        self.assertEqual(self.waiting, 1)


class PartitionTests(PollCase):
    """Something else happens to the partition."""

    def test_closed(self) -> None:
        """A partition that an operator closes is answered 403 at once."""
        self.assert_waits(poll(END))
        self.parts.topics.closed.add(("test", 0))
        self.parts.topics.changed()
        self.assert_told(b"result 403 30 1\r\nPartition[5-0] has been closed")

    def test_taken_out(self) -> None:
        """One that is deleted or moved is missing at once."""
        self.assert_waits(poll(END))
        self.parts.topics.busy["test", 0] = "being moved"
        self.parts.topics.changed()
        self.assert_told(NO_STORE.replace(b"`1`", b"`0`"))

    def test_back_under_another_log(self) -> None:
        """A partition that was deleted is waited for like a new one."""
        self.parts.topics.forget(("test", 0))
        self.assert_waits(poll(0))
        self.parts.settle()
        self.assertEqual(self.waiting, 1)

    def test_other_changes(self) -> None:
        """What happens to other partitions ends no wait."""
        self.assert_waits(poll(END))
        self.parts.topics.closed.add(("test", 1))
        self.parts.topics.changed()
        self.producer.ask(put(b"x", topic="quiet"))
        self.assertEqual(self.peer.taken(), b"")
        self.producer.ask(put(b"x"))
        self.assertEqual(opaques(self.peer.taken()), [1])

    def test_stopped(self) -> None:
        """One whose fsync failed gets nothing new; the wait goes on to its end."""
        self.assert_waits(poll(END))
        self.producer.send(put(b"x"))
        self.parts.turn()
        self.parts.sync(OSError(5, "Input/output error"))
        self.assertEqual(self.peer.taken(), b"")
        self.assert_waits(poll(END, 2))
        self.advance(6)
        self.assertEqual(opaques(self.peer.taken()), [1, 2])

    def test_reload_without_the_topic(self) -> None:
        """Nothing comes where the topic is gone; what has a store is read on."""
        self.assert_waits(poll(END, 2), poll(0, 1, partition=1))
        topics = {
            name: one
            for name, one in self.parts.settings.topics.items()
            if name != "test"
        }
        self.parts.topics.apply(evolve(self.parts.settings, topics=topics))
        self.parts.turn()
        self.assertEqual(self.peer.taken(), NO_STORE)
        self.assertEqual(self.waiting, 1)

    def test_retention(self) -> None:
        """When old segments go, even all with data, the end is the end."""
        self.producer.ask(put(b"x" * 5000))
        log = self.parts.catalog.logs["test", 0]
        end = log.readable_end
        self.assertEqual(log.segments[-1].start, end)
        self.assert_waits(poll(end))
        log.drop_front(log.segments[0])
        self.parts.topics.changed()
        self.parts.turn()
        self.assertEqual((log.start, self.peer.taken(), self.waiting), (end, b"", 1))
        self.producer.ask(put(b"y"))
        self.assertTrue(self.peer.taken().endswith(b"y"))


class ConnectionTests(PollCase):
    """Something happens to the connection."""

    def assert_ended(self, answers: list[int]) -> None:
        """Answered and closed, without waiting for anything."""
        self.assertEqual(opaques(self.peer.taken()), answers)
        self.assertTrue(self.peer.transport.disconnecting)
        self.assertEqual(self.waiting, 0)

    def test_stop(self) -> None:
        """An orderly stop answers what waits and does not wait for it."""
        self.assert_waits(poll(END, 1, wait_ms=30_000), poll(0, 2, partition=1))
        ended = self.peer.protocol.finish()
        self.assert_ended([1, 2])
        self.peer.lost()
        self.assertTrue(has_fired(ended))

    def test_ends_of_the_client(self) -> None:
        """`quit`, a bad request and a half-close are preceded by the answers owed."""
        for last in (b"quit\r\n", b"foo\r\n", None):
            self.peer = self.parts.connect()
            self.assert_waits(poll(END, 1), poll(END, 2))
            if last is None:
                self.peer.protocol.readConnectionLost()
            else:
                self.peer.send(last)
            self.assert_ended([1, 2])

    def test_lost(self) -> None:
        """A lost connection leaves nothing behind, and others go on."""
        other = self.parts.connect()
        other.send(poll(END, 3))
        self.assert_waits(poll(END, 1), poll(0, 2, partition=1))
        self.peer.lost()
        self.assertEqual(self.waiting, 1)
        self.producer.ask(put(b"x"), put(b"x", partition=1))
        self.assertEqual(opaques(other.taken()), [3])
        self.assertEqual(self.peer.taken(), b"")

    def test_lost_between_waking_and_answering(self) -> None:
        """A poll whose connection is lost in the turn that wakes it is forgotten."""
        self.assert_waits(poll(END))
        self.peer.protocol.pauseProducing()
        self.producer.ask(put(b"x"))
        self.peer.lost()
        self.advance(6)
        self.assertEqual((self.peer.taken(), self.waiting), (b"", 0))

    def test_peer_that_does_not_read(self) -> None:
        """Nothing is written to it; once it reads, each poll is answered once."""
        self.assert_waits(poll(END, 1), poll(END, 2, wait_ms=100))
        self.peer.protocol.pauseProducing()
        self.advance(1)
        self.producer.ask(put(b"x"))
        self.assertEqual(self.peer.taken(), b"")
        self.peer.protocol.resumeProducing()
        data = self.peer.taken()
        self.assertEqual(opaques(data), [2, 1])
        self.assertTrue(data.startswith(b"value "), "it answers what is there by then")

    def test_peer_that_reads_little(self) -> None:
        """When an answer fills it up the others go on being due."""
        self.assert_waits(*(poll(END, number) for number in range(3)))
        protocol, transport = self.peer.protocol, self.peer.transport
        write = transport.write

        def filled(data: bytes) -> None:
            write(data)
            protocol.pauseProducing()

        transport.write = filled
        self.producer.ask(put(b"x"))
        for number in range(3):
            self.assertEqual(opaques(self.peer.taken()), [number])
            protocol.resumeProducing()

    def test_end_of_who_does_not_read(self) -> None:
        """At its end, what such a peer has asked for is dropped."""
        self.assert_waits(poll(END))
        self.peer.protocol.pauseProducing()
        self.peer.protocol.finish()
        self.assert_ended([])

    def test_defect(self) -> None:
        """A defect in one answer is told to that client; others are answered."""
        self.assert_waits(poll(END, 1), poll(END, 2))
        answer = self.parts.gets.get

        def broken(command: GetCommand, output: object) -> None:
            if command.opaque == 1:
                raise RuntimeError("a defect")
            answer(command, output)  # type: ignore[arg-type]

        with mock.patch.object(self.parts.gets, "get", broken):
            self.producer.ask(put(b"x"))
        data = self.peer.taken()
        self.assertTrue(data.startswith(b"result 500 "))
        self.assertEqual(opaques(data), [1, 2])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)


FILTERS = """\
def starts_with_a(group, record):
    return record.body.startswith(b"A")
"""


class FilterTests(SynchronousTestCase):
    """A filter between the log and a group."""

    def test_rejected(self) -> None:
        """What wakes a poll and is rejected is skipped, as in a get."""
        key = "group.g=poll_filters.starts_with_a\n[topic=lazy]"
        parts = BrokerParts(self, INI.replace("[topic=lazy]", key))
        (parts.filter_dir / "poll_filters.py").write_text(FILTERS)
        producer, peer = parts.connect(), parts.connect()
        peer.send(poll(0, topic="test"))
        producer.ask(put(b"B"))
        self.assertEqual(peer.taken(), b"result 301 2 1\r\n21")
        peer.send(poll(21, topic="test"))
        producer.ask(put(b"A"))
        self.assertTrue(peer.taken().endswith(b"A"))


class RandomTests(SynchronousTestCase):
    """Consumers and producers in any order, from a seed."""

    def rounds(self, seed: int) -> Iterator[int]:
        """Numbers from 0 to 5 that look random."""
        state = seed
        for _ in range(300):
            state = (state * 1103515245 + 12345) % (1 << 31)
            yield (state >> 16) % 6

    def test_every_poll_is_answered_once(self) -> None:
        """Whatever happens between, each poll gets exactly one answer by its end."""
        for seed in range(8):
            parts = BrokerParts(self)
            producer, peer = parts.connect(), parts.connect()
            sent, got, size = 0, [], 0
            for step in self.rounds(seed):
                if step < 2:
                    sent += 1
                    peer.send(poll(size, sent, wait_ms=step * 200))
                elif step == 2:
                    producer.ask(put(b"x"))
                    size += 21
                elif step == 3:
                    parts.clock.pump([0.05] * 3)
                elif step == 4:
                    peer.protocol.pauseProducing()
                else:
                    peer.protocol.resumeProducing()
                got += opaques(peer.taken())
            peer.protocol.resumeProducing()
            parts.clock.pump([0.05] * 20)
            got += opaques(peer.taken())
            self.assertEqual(sorted(got), list(range(1, sent + 1)), seed)
            self.assertEqual(parts.numbers.waiting_polls, 0)
