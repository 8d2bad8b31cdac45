"""What a FakeBroker offers to tests beyond the protocol: messages, faults, requests."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP4ServerEndpoint
from twisted.internet.error import (
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from metatwist import __version__
from metatwist.errors import TopicRefused, WrongPartition
from metatwist.message_times import EPOCH_MS, time_ms_of
from metatwist.testing import FakeBroker, StoredMessage
from metatwist.wire.commands import GetCommand, PutCommand, ResultReply, VersionCommand
from metatwist.wire.records import is_intact, join_payload, whole_records
from tests.support.wire_client import put_request
from tests.testing.conversations import Answer, MemoryPeer

PUT = put_request("orders", 1, b"hello", 4)
VERSION = b"version 8\r\n"
VERSION_ANSWER = ResultReply(200, 8, __version__.encode()).encode()


class FakeBrokerCase(SynchronousTestCase):
    """A broker with a topic `orders` of four partitions, and a client of it."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.broker = FakeBroker(self.clock, {"orders": 4})
        self.peer = self.connect()

    def connect(self) -> MemoryPeer:
        """Another client."""
        return MemoryPeer(self.broker, self.clock)

    def ask(self, request: bytes) -> Answer:
        """The answer to one request."""
        self.peer.send(request)
        return Answer.of(self.peer.reply())

    def get(self, offset: int, max_size: int = 1000, partition: int = 0) -> Answer:
        """What a consumer gets from `orders`."""
        command = GetCommand("orders", "g", partition, offset, max_size, 9)
        return self.ask(command.encode())


class MessagesTests(FakeBrokerCase):
    """Messages, seen from inside."""

    def test_sent(self) -> None:
        """What a producer sends is among the messages, with attribute and body."""
        flag, payload = join_payload("tag", b"body")
        self.ask(put_request("orders", 1, payload, 1, flag))
        self.ask(put_request("orders", 1, b"plain"))
        told = [StoredMessage(1, 0, "tag", b"body"), (1, 31, None, b"plain")]
        self.assertEqual(self.broker.messages("orders"), told)
        self.assertEqual(self.broker.messages("orders", 1), told)
        self.assertEqual(self.broker.messages("orders", 0), [])

    def test_delivered(self) -> None:
        """What is delivered can be got, from partition 0 unless another is named."""
        self.assertEqual(self.broker.deliver("orders", b"x", "tag"), 0)
        self.assertEqual(self.broker.deliver("orders", b"y"), 28)
        self.assertEqual(self.broker.deliver("orders", b"z", partition=3), 0)
        read = list(whole_records(self.get(0).body))
        found = [(record.attribute, record.body) for record in read]
        self.assertEqual(found, [("tag", b"x"), (None, b"y")])
        self.assertTrue(all(map(is_intact, read)))
        numbers = [one.partition for one in self.broker.messages("orders")]
        self.assertEqual(numbers, [0, 0, 3])

    def test_wrong_names(self) -> None:
        """Topics and partitions that are not there are told so."""
        self.assertRaises(TopicRefused, self.broker.deliver, "nope", b"")
        self.assertRaises(TopicRefused, self.broker.messages, "nope")
        self.assertRaises(WrongPartition, self.broker.messages, "orders", 4)
        self.assertRaises(WrongPartition, self.broker.corrupt, "orders", 4, 0)

    def test_ids_follow_the_clock(self) -> None:
        """Ids tell the time of the clock where that is the wall's."""
        now_s = EPOCH_MS / 1000 + 5_000_000
        clock = Clock()
        clock.advance(now_s)
        broker = FakeBroker(clock, {"orders": 1}, 7)
        ids = self._ids(broker, 2)
        self.assertEqual([time_ms_of(one) for one in ids], [int(now_s * 1000)] * 2)
        self.assertEqual([one >> 12 & 1023 for one in ids], [7, 7])

    def test_ids_without_a_clock(self) -> None:
        """Ids rise and keep the broker's number when the clock stands at zero."""
        ids = self._ids(FakeBroker(Clock(), {"orders": 1}, 7), 5000)
        self.assertEqual(ids, sorted(set(ids)))
        self.assertEqual({one >> 12 & 1023 for one in ids}, {7})
        self.assertGreater(ids[0], 0)

    def _ids(self, broker: FakeBroker, count: int) -> list[int]:
        for _ in range(count):
            broker.deliver("orders", b"")
        peer = MemoryPeer(broker, Clock())
        peer.send(GetCommand("orders", "g", 0, 0, 1 << 20, 1).encode())
        records = whole_records(Answer.of(peer.reply()).body)
        return [record.message_id for record in records]

    def test_address(self) -> None:
        """The address is made of the number, unless one is given, which must be one."""
        self.assertEqual(self.broker.address, "meta://fake-0:8123")
        other = FakeBroker(self.clock, {}, 3, "meta://somewhere:99")
        self.assertEqual((other.broker_id, other.address), (3, "meta://somewhere:99"))
        self.assertRaises(ValueError, FakeBroker, self.clock, {}, 3, "somewhere")

    def test_requests(self) -> None:
        """What was asked is kept as values, garbage and stray replies are not."""
        self.peer.send(PUT + b"value 1 1\r\nx" + VERSION + b"foo\r\n")
        put = PutCommand("orders", 1, 0, 907060870, None, 4, b"hello")
        self.assertEqual(self.broker.requests, (put, VersionCommand(8)))

    def test_requests_are_bounded(self) -> None:
        """Only the last ten thousand requests are kept."""
        self.peer.send(b"version 1\r\n" + VERSION * 10_000)
        self.assertEqual(self.broker.requests, (VersionCommand(8),) * 10_000)


class ConnectionFaultTests(FakeBrokerCase):
    """Faults of connections."""

    def test_frozen(self) -> None:
        """A frozen broker takes requests and answers none, stores nothing, and goes on
        with them when it thaws."""
        self.broker.freeze()
        self.peer.send(PUT + VERSION)
        self.assertTrue(self.peer.is_silent())
        self.assertEqual(len(self.broker.requests), 2)
        self.assertEqual(self.broker.messages("orders"), [])
        other = self.connect()
        self.broker.thaw()
        opaques = [Answer.of(self.peer.reply()).opaque for _ in range(2)]
        self.assertEqual(opaques, [4, 8])
        self.assertEqual(len(self.broker.messages("orders")), 1)
        other.send(VERSION)
        self.assertEqual(Answer.of(other.reply()).opaque, 8)

    def test_frozen_reader(self) -> None:
        """A broker that does not even read leaves requests where they are, on new
        connections too."""
        self.broker.freeze(reads=False)
        other = self.connect()
        for peer in (self.peer, other):
            peer.send(VERSION)
            self.assertTrue(peer.is_silent())
        self.assertEqual(self.broker.requests, ())
        self.broker.thaw()
        later = self.connect()
        later.send(VERSION)
        for peer in (self.peer, other, later):
            self.assertEqual(Answer.of(peer.reply()).opaque, 8)

    def test_frozen_and_left(self) -> None:
        """Puts of a client that gave up waiting are stored when the broker thaws."""
        self.broker.freeze()
        self.peer.send(PUT)
        self.peer.ear.transport.loseConnection()
        self.broker.pump()
        self.assertEqual(self.broker.connections, 1)
        self.broker.thaw()
        self.broker.pump()
        self.assertEqual(len(self.broker.messages("orders")), 1)
        self.assertEqual(self.broker.connections, 0)

    def test_frozen_poll(self) -> None:
        """A poll whose time is over while the broker is frozen is answered later."""
        self.peer.send(b"poll orders g 0 0 100 1000 9\r\n")
        self.assertEqual(self.broker.waiting_polls, 1)
        self.broker.freeze()
        self.clock.advance(2)
        self.assertTrue(self.peer.is_silent())
        self.broker.thaw()
        self.assertEqual(Answer.of(self.peer.reply())[:2], (404, 9))
        self.assertEqual(self.broker.waiting_polls, 0)

    def test_poll_of_the_gone(self) -> None:
        """A poll goes with its connection and leaves nothing on the clock."""
        self.peer.send(b"poll orders g 0 0 100 1000 9\r\n")
        self.peer.ear.transport.abortConnection()
        self.broker.pump()
        self.assertEqual(self.broker.waiting_polls, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_longest_poll(self) -> None:
        """A poll waits no longer than a broker lets it: 30 s."""
        self.peer.send(b"poll orders g 0 0 100 99999999 9\r\n")
        self.clock.advance(29.9)
        self.assertTrue(self.peer.is_silent())
        self.clock.advance(0.1)
        self.assertEqual(Answer.of(self.peer.reply()).code, 404)

    def test_dropped(self) -> None:
        """Connections that are dropped are reset, and new ones can be made."""
        other = self.connect()
        self.peer.send(VERSION)
        self.broker.drop_connections()
        self.broker.pump()
        for peer in (self.peer, other):
            assert peer.ear.lost is not None
            self.assertIs(peer.ear.lost.type, ConnectionLost)
        self.assertEqual(self.broker.connections, 0)
        self.peer = self.connect()
        self.assertEqual(self.ask(VERSION).code, 200)

    def test_dropped_within_an_answer(self) -> None:
        """A connection may end within an answer, the put being stored."""
        self.broker.drop_connections(after_bytes=10)
        self.peer.send(PUT + PUT)
        assert self.peer.ear.lost is not None
        self.assertIs(self.peer.ear.lost.type, ConnectionDone)
        self.assertEqual(self.peer.ear.received, b"result 200")
        self.assertEqual(len(self.broker.messages("orders")), 1)

    def test_dropped_after_answers(self) -> None:
        """The bytes of several answers are counted."""
        size = len(VERSION_ANSWER)
        self.broker.drop_connections(after_bytes=size + 3)
        self.assertEqual(self.ask(VERSION).opaque, 8)
        self.peer.send(VERSION)
        self.assertEqual(self.peer.until_closed(), VERSION_ANSWER[:3])

    def test_refused(self) -> None:
        """No connection is made while they are refused; old ones go on."""
        self.broker.refuse_connections = True
        self.failureResultOf(self.connect().connecting, ConnectionRefusedError)
        self.assertEqual(self.ask(VERSION).code, 200)
        self.broker.refuse_connections = False
        self.successResultOf(self.connect().connecting)

    def test_slow_reader(self) -> None:
        """To a client that does not read, no more is answered until it does."""
        transport = self.peer.ear.transport
        assert transport is not None
        transport.pauseProducing()
        self.broker.deliver("orders", bytes(50_000))
        get = GetCommand("orders", "g", 0, 0, 50_020, 9).encode()
        self.peer.send(get * 100 + PUT)
        self.assertEqual(self.broker.messages("orders", 1), [])
        transport.resumeProducing()
        answers = [Answer.of(self.peer.reply()) for _ in range(101)]
        self.assertEqual([one.code for one in answers], [0] * 100 + [200])
        self.assertEqual(len(self.broker.messages("orders", 1)), 1)


class PartitionFaultTests(FakeBrokerCase):
    """Faults of puts and of partitions."""

    def setUp(self) -> None:
        super().setUp()
        for body in (b"one", b"two", b"three"):
            self.broker.deliver("orders", body)

    def bodies(self) -> list[bytes]:
        """What is stored in partition 0."""
        return [message.body for message in self.broker.messages("orders", 0)]

    def test_refused_puts(self) -> None:
        """Puts are answered as was said and not stored, until they are accepted."""
        self.broker.refuse_puts(503, "busy")
        self.assertEqual(self.ask(PUT), Answer(503, 4, b"busy"))
        self.assertEqual(self.broker.messages("orders", 1), [])
        self.assertEqual(self.get(0, 23).code, 0)
        self.broker.accept_puts()
        self.assertEqual(self.ask(PUT).code, 200)

    def test_opened(self) -> None:
        """A closed partition can be opened again."""
        self.broker.close_partition("orders", 1)
        self.assertEqual(self.ask(PUT).code, 403)
        self.broker.open_partition("orders", 1)
        self.assertEqual(self.ask(PUT).code, 200)

    def test_retention(self) -> None:
        """Messages before an offset are gone, 301 says where the others begin."""
        self.broker.forget_before("orders", 0, 23)
        self.assertEqual(self.get(0), Answer(301, 9, b"23"))
        self.assertEqual(self.bodies(), [b"two", b"three"])
        self.assertEqual(len(self.get(46).body), 25)
        self.broker.forget_before("orders", 0, 24)
        self.assertEqual(self.get(0), Answer(301, 9, b"46"))
        self.broker.forget_before("orders", 0, 1000)
        self.assertEqual(self.get(0), Answer(301, 9, b"71"))
        self.assertEqual(self.broker.deliver("orders", b"four"), 71)

    def test_lost(self) -> None:
        """Messages from an offset on are gone, and their offsets are used again."""
        self.broker.lose_from("orders", 0, 23)
        self.assertEqual(self.bodies(), [b"one"])
        self.assertEqual(self.get(46).code, 404)
        self.assertEqual(self.broker.deliver("orders", b"new"), 23)
        self.assertEqual(self.bodies(), [b"one", b"new"])

    def test_lost_wakes(self) -> None:
        """A poll that waits at an end that moves back is answered."""
        self.peer.send(b"poll orders g 0 71 100 10000 9\r\n")
        self.assertTrue(self.peer.is_silent())
        self.broker.lose_from("orders", 0, 23)
        self.broker.pump()
        self.assertEqual(Answer.of(self.peer.reply()).code, 404)

    def test_corrupt(self) -> None:
        """A damaged message has a wrong checksum, the others are well."""
        self.broker.corrupt("orders", 0, 23)
        records = whole_records(self.get(0).body)
        self.assertEqual([is_intact(one) for one in records], [True, False, True])

    def test_corrupt_empty(self) -> None:
        """A message without a body can be damaged too."""
        self.broker.corrupt("orders", 0, self.broker.deliver("orders", b""))
        records = list(whole_records(self.get(0).body))
        self.assertFalse(is_intact(records[-1]))

    def test_corrupt_nothing(self) -> None:
        """Only where a message begins there is one to damage."""
        self.assertRaises(ValueError, self.broker.corrupt, "orders", 0, 1)
        self.assertRaises(ValueError, self.broker.corrupt, "orders", 3, 0)

    def test_segments_follow(self) -> None:
        """Segments move with what is dropped and lost."""
        broker = FakeBroker(self.clock, {"orders": 1}, segment_bytes=60)
        for _ in range(8):
            broker.deliver("orders", b"hello")
        peer = MemoryPeer(broker, self.clock)

        def nearest(offset: int) -> bytes:
            peer.send(b"offset orders g 0 %d 1\r\n" % offset)
            return Answer.of(peer.reply()).body

        asked = (0, 74, 75, 160, 999)
        self.assertEqual([*map(nearest, asked)], [b"0", b"0", b"75", b"150", b"200"])
        broker.forget_before("orders", 0, 25)
        broker.lose_from("orders", 0, 125)
        self.assertEqual([*map(nearest, asked)], [b"25", b"25", b"75", b"125", b"125"])
        broker.deliver("orders", b"hellohello")
        self.assertEqual(nearest(152), b"75")


class Ear(Protocol):
    """Fires `closed` with all that came, once that is all."""

    transport: Any

    def __init__(self) -> None:
        self.received = b""
        self.closed: Deferred[bytes] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.closed.callback(self.received)


class ListeningTests(TestCase):
    """A fake broker on the real reactor."""

    @inlineCallbacks
    def _put_through(self, endpoint: Any) -> Any:
        ear = Ear()
        yield endpoint.connect(Factory.forProtocol(lambda: ear))
        ear.transport.write(PUT + b"quit\r\n")
        received = yield ear.closed
        self.assertEqual(Answer.of(received).code, 200)

    @inlineCallbacks
    def test_real_port(self) -> Any:
        """It serves a port and its endpoint in memory, with the same messages."""
        broker = FakeBroker(reactor, {"orders": 4})
        port = yield broker.listen(TCP4ServerEndpoint(reactor, 0, 1, "127.0.0.1"))
        self.addCleanup(port.stopListening)
        number = port.getHost().port
        yield self._put_through(TCP4ClientEndpoint(reactor, "127.0.0.1", number))
        yield self._put_through(broker.endpoint())
        self.assertEqual(len(broker.messages("orders")), 2)
