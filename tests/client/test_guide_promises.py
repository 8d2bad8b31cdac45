"""The first table of docs/client.md, row by row where a fake broker can show it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client import (
    ClientSettings,
    ClientStopped,
    CommitSettings,
    ConnectionLost,
    Consumer,
    ConsumerHooks,
    ConsumerSettings,
    ConsumerState,
    DeliverySettings,
    Drop,
    Event,
    FilterFailed,
    Message,
    MetaClient,
    NotConnected,
    OffsetJumped,
    PartitionName,
    ProducerSettings,
    ReceivedMessage,
    RequestTimedOut,
    Start,
    StopPartition,
    TopicPartition,
)
from metatwist.client.on_asyncio import messages
from metatwist.testing import FakeBroker, FakeCluster

STEP_S = 0.05
LIMIT_S = 120
ONLY = TopicPartition("orders", PartitionName(0, 0))


class PromiseCase(SynchronousTestCase):
    """A client, and a broker with one partition; time is the clock's."""

    def setUp(self) -> None:
        """Start the client."""
        self.clock = Clock()
        self.broker = FakeBroker(self.clock, {"orders": 1})
        self.cluster = FakeCluster(self.clock, [self.broker])
        self.coordinator = self.cluster.coordinator()
        self.client = self.new_client()
        self.events: list[Event] = []

    def new_client(self) -> MetaClient:
        """One more, stopped with the test."""
        settings = ClientSettings(endpoint_for=self.cluster.endpoint_for)
        coordinator = self.coordinator
        client = MetaClient(self.clock, coordinator=coordinator, settings=settings)
        client.startService()
        self.addCleanup(lambda: self.result_of(client.stop()))
        return client

    def result_of(self, waiting: Deferred[Any]) -> Any:
        """Let time pass until it has fired."""
        ended: list[Any] = []
        waiting.addBoth(ended.append)
        self.until(lambda: bool(ended))
        return ended[0]

    def until(self, is_so: Callable[[], bool]) -> None:
        """Let time pass until something is so."""
        for _ in range(int(LIMIT_S / STEP_S)):
            if is_so():
                return
            self.clock.advance(STEP_S)
        self.fail(f"not so within {LIMIT_S} s")

    def pass_s(self, seconds: float) -> None:
        """Let so much time pass."""
        for _ in range(int(seconds / STEP_S)):
            self.clock.advance(STEP_S)

    def consumer(self, listen: Any = None, **more: Any) -> Consumer:
        """Of the group `shop`, started; `settings` and what `subscribe` takes."""
        settings = more.pop("settings", ConsumerSettings("shop"))
        hooks = ConsumerHooks(on_event=self.events.append)
        consumer = self.client.consumer(settings, hooks=hooks)
        if listen is not None:
            more.setdefault("rejection", Drop())  # the default needs real threads
        consumer.subscribe("orders", listen, **more)
        self.assertIsNone(self.result_of(consumer.start()))
        return consumer

    def received_by_next(self, count: int) -> list[bytes]:
        """What the next consumer of the group gets, when it has `count`."""
        received: list[bytes] = []
        consumer = self.consumer(lambda message: received.append(message.body))
        self.until(lambda: len(received) >= count)
        self.pass_s(1)
        self.result_of(consumer.stop())
        return received


class SendingTests(PromiseCase):
    """Sending."""

    def send(self, body: bytes, **settings: Any) -> Any:
        """The outcome."""
        producer = self.client.producer(ProducerSettings(**settings))
        return self.result_of(producer.send(Message("orders", body)))

    def bodies(self) -> list[bytes]:
        """What is stored."""
        return [message[3] for message in self.broker.messages("orders")]

    def test_outcome_unknown(self) -> None:
        """An answer that is lost makes an error that says so, and no second try."""
        self.send(b"first")
        self.broker.drop_connections(after_bytes=10)
        error = self.send(b"book").value
        self.assertIsInstance(error, ConnectionLost)
        self.assertTrue(error.outcome_unknown)
        self.assertEqual(self.bodies(), [b"first", b"book"])

    def test_may_duplicate(self) -> None:
        """With `may_duplicate` it is stored twice, and said to be stored."""
        self.send(b"first")
        self.broker.drop_connections(after_bytes=10)
        self.assertEqual(self.send(b"book", may_duplicate=True).partition, ONLY[1])
        self.assertEqual(self.bodies(), [b"first", b"book", b"book"])

    def test_refused_for_now(self) -> None:
        """A refusal is no loss: it is sent again, and stored once."""
        self.broker.refuse_puts(503, "later")
        self.clock.callLater(0.3, self.broker.accept_puts)
        self.assertEqual(self.send(b"book").partition, ONLY[1])
        self.assertEqual(self.bodies(), [b"book"])

    def test_time_out(self) -> None:
        """A broker that stands still leaves the outcome unknown."""
        self.send(b"first")
        self.broker.freeze()
        error = self.send(b"book").value
        self.assertIsInstance(error, RequestTimedOut)
        self.assertTrue(error.outcome_unknown)
        self.broker.thaw()

    def test_one_way(self) -> None:
        """What fails in the end is counted."""
        self.broker.refuse_puts(400, "no")
        producer = self.client.producer()
        producer.send_one_way(Message("orders", b"book"))
        self.until(lambda: producer.counters.dropped == 1)

    def test_no_coordinator(self) -> None:
        """The error says once what it is about, and has no attempts."""
        self.coordinator.suspend()
        for _ in range(2):
            error = self.send(b"book").value
            self.assertIsInstance(error, NotConnected)
            self.assertEqual(str(error).count("topic orders"), 1, str(error))
            self.assertEqual(error.attempts, ())
        self.assertIn("no connection to the coordinator", str(error))
        self.coordinator.resume()

    def test_cancelling(self) -> None:
        """A message that is not under way when cancelled is never sent."""
        self.broker.refuse_connections = True
        sending = self.client.producer().send(Message("orders", b"book"))
        self.pass_s(1)
        sending.cancel()
        self.broker.refuse_connections = False
        self.failureResultOf(sending)
        self.pass_s(20)
        self.assertEqual(self.bodies(), [])


class ReceivingTests(PromiseCase):
    """Receiving."""

    def setUp(self) -> None:
        """Three messages are there."""
        super().setUp()
        for body in (b"one", b"two", b"three"):
            self.broker.deliver("orders", body)

    def test_listener_raises(self) -> None:
        """A message that fails comes six times, then the policy has it."""
        received: list[bytes] = []

        def listen(message: ReceivedMessage) -> None:
            received.append(message.body)
            if message.body == b"two":
                raise ValueError("no")

        consumer = self.consumer(listen, rejection=Drop())
        self.until(lambda: b"three" in received)
        self.assertEqual(received, [b"one", *[b"two"] * 6, b"three"])
        self.result_of(consumer.stop())
        self.broker.deliver("orders", b"four")
        self.assertEqual(self.received_by_next(1), [b"four"])

    def test_listener_never_ends(self) -> None:
        """Its partition waits; with a limit the message comes again."""
        received: list[bytes] = []

        def listen(message: ReceivedMessage) -> Deferred[None]:
            received.append(message.body)
            return Deferred()

        consumer = self.consumer(listen)
        self.pass_s(60)
        self.assertEqual(received, [b"one"])
        self.result_of(consumer.stop())
        limited = DeliverySettings(listener_timeout_s=1)
        settings = ConsumerSettings("shop", delivery=limited)
        consumer = self.consumer(listen, settings=settings)
        self.until(lambda: len(received) == 3)
        self.assertEqual(received, [b"one"] * 3)
        self.result_of(consumer.stop())

    def test_stop_partition(self) -> None:
        """Nothing behind the message is delivered; the next consumer begins there."""
        received: list[bytes] = []

        def listen(message: ReceivedMessage) -> None:
            received.append(message.body)
            raise ValueError("no")

        once = ConsumerSettings("shop", delivery=DeliverySettings(most_deliveries=1))
        consumer = self.consumer(listen, settings=once, rejection=StopPartition())
        self.pass_s(60)
        self.assertEqual(received, [b"one"])
        self.result_of(consumer.stop())
        self.assertEqual(self.received_by_next(3), [b"one", b"two", b"three"])

    def test_filter_raises(self) -> None:
        """The message counts as done, and an event tells."""
        received: list[bytes] = []

        def accepts(message: ReceivedMessage) -> bool:
            return bool(1 // (message.body != b"two"))

        consumer = self.consumer(lambda one: received.append(one.body), accepts=accepts)
        self.until(lambda: len(received) == 2)
        self.result_of(consumer.stop())
        self.assertEqual(received, [b"one", b"three"])
        self.assertTrue(any(isinstance(one, FilterFailed) for one in self.events))
        self.broker.deliver("orders", b"four")
        self.assertEqual(self.received_by_next(1), [b"four"])

    def test_stop_commits(self) -> None:
        """Stopping in order commits, also with `auto=False`."""
        received: list[bytes] = []
        manual = ConsumerSettings("shop", commit=CommitSettings(auto=False))
        consumer = self.consumer(
            lambda message: received.append(message.body), settings=manual
        )
        self.until(lambda: len(received) == 3)
        self.result_of(consumer.stop())
        self.broker.deliver("orders", b"four")
        self.assertEqual(self.received_by_next(1), [b"four"])

    def test_iterator_left_early(self) -> None:
        """The last message was not done, and comes again."""
        consumer = self.consumer()

        async def two() -> None:
            async for message in consumer:
                if message.body == b"two":
                    return

        self.assertIsNone(self.result_of(Deferred.fromCoroutine(two())))
        begun_s = self.clock.seconds()
        self.result_of(consumer.stop())
        self.assertLess(self.clock.seconds() - begun_s, 5)
        self.assertEqual(self.received_by_next(2), [b"two", b"three"])

    def test_iterator_goes_on(self) -> None:
        """The next loop begins with the message at which the one before was left, and
        all is committed in the end."""
        consumer = self.consumer()
        seen: list[bytes] = []

        async def to(last: bytes) -> None:
            async for message in consumer:
                seen.append(message.body)
                if message.body == last:
                    break

        for last in (b"two", b"three"):
            self.assertIsNone(self.result_of(Deferred.fromCoroutine(to(last))))
        self.assertEqual(seen, [b"one", b"two", b"two", b"three"])
        self.result_of(consumer.next_batch()).done()
        self.result_of(consumer.stop())
        self.broker.deliver("orders", b"four")
        self.assertEqual(self.received_by_next(1), [b"four"])

    def test_iterator_stopped(self) -> None:
        """After `stop` within the loop the last message is done, without a wait."""
        consumer = self.consumer()

        async def two() -> None:
            async for message in consumer:
                if message.body == b"two":
                    consumer.stop()

        self.assertIsNone(self.result_of(Deferred.fromCoroutine(two())))
        begun_s = self.clock.seconds()
        self.result_of(consumer.stop())
        self.assertLess(self.clock.seconds() - begun_s, 5)
        self.assertEqual(self.received_by_next(1), [b"three"])

    def test_task_cancelled(self) -> None:
        """A message that comes as its task of asyncio is cancelled comes again."""
        consumer = self.consumer()
        self.pass_s(1)

        async def first() -> bytes:
            async for message in messages(consumer):
                return message.body
            raise AssertionError

        async def cancelled(turns: int) -> None:
            task = asyncio.ensure_future(first())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

        for turns in range(4):
            asyncio.run(cancelled(turns))
            self.pass_s(1)
        self.assertEqual(asyncio.run(first()), b"one")
        self.result_of(consumer.stop())
        self.assertEqual(self.received_by_next(3), [b"one", b"two", b"three"])

    def test_batches(self) -> None:
        """No batch counts before an earlier one of its partition."""
        consumer = self.consumer()
        first = self.result_of(consumer.next_batch(1))
        second = self.result_of(consumer.next_batch(1))
        self.assertIsNone(self.result_of(second.commit()))
        self.result_of(consumer.stop())
        bodies = [message.body for message in first.messages]
        self.assertEqual(bodies, [b"one"])
        self.assertEqual(self.received_by_next(3), [b"one", b"two", b"three"])

    def test_manual_ack(self) -> None:
        """An ack covers all before it; what is behind it comes again."""
        received: list[bytes] = []

        def listen(message: ReceivedMessage, acks: Any) -> None:
            received.append(message.body)
            if message.body == b"two":
                acks.ack()

        consumer = self.consumer(listen, manual_ack=True)
        self.until(lambda: len(received) == 3)
        self.pass_s(60)
        self.assertEqual(received, [b"one", b"two", b"three"])
        self.result_of(consumer.stop())
        self.assertEqual(self.received_by_next(1), [b"three"])

    def test_latest(self) -> None:
        """What was there before is left out; what comes later is not, even while
        nobody reads."""
        received: list[bytes] = []
        settings = ConsumerSettings("shop", start=Start.LATEST)

        def listen(message: ReceivedMessage) -> None:
            received.append(message.body)

        consumer = self.consumer(listen, settings=settings)
        self.pass_s(1)
        self.result_of(consumer.stop())
        self.broker.deliver("orders", b"four")
        consumer = self.consumer(listen, settings=settings)
        self.until(lambda: bool(received))
        self.result_of(consumer.stop())
        self.assertEqual(received, [b"four"])

    def test_deleted(self) -> None:
        """What retention has deleted is passed, and an event tells."""
        received: list[bytes] = []
        self.result_of(self.consumer(received.append).stop())
        received.clear()
        for _ in range(3):
            last = self.broker.deliver("orders", b"four")
        self.broker.forget_before("orders", 0, last)
        self.assertEqual(self.received_by_next(1), [b"four"])
        jumps = [one for one in self.events if isinstance(one, OffsetJumped)]
        self.assertEqual((jumps[-1].to_offset, jumps[-1].reason), (last, "deleted"))

    def test_session_lost(self) -> None:
        """A partition that comes back goes on where it was."""
        received: list[bytes] = []
        settings = ConsumerSettings("shop", commit=CommitSettings(auto=False))
        consumer = self.consumer(
            lambda message: received.append(message.body), settings=settings
        )
        self.until(lambda: len(received) == 3)
        self.cluster.expire_session(self.coordinator)
        self.pass_s(5)
        self.broker.deliver("orders", b"four")
        self.until(lambda: b"four" in received)
        self.assertEqual(received, [b"one", b"two", b"three", b"four"])
        self.result_of(consumer.stop())

    def test_seek(self) -> None:
        """After a seek the same messages come again."""
        received: list[bytes] = []
        consumer = self.consumer(lambda message: received.append(message.body))
        self.until(lambda: len(received) == 3)
        consumer.seek(ONLY, 0)
        self.until(lambda: len(received) == 6)
        self.assertEqual(received, [b"one", b"two", b"three"] * 2)
        self.result_of(consumer.stop())

    def test_memory_offsets(self) -> None:
        """Without a coordinator each start begins anew."""
        settings = ClientSettings(endpoint_for=self.cluster.endpoint_for)
        brokers = [self.broker.address]
        client = MetaClient(self.clock, brokers=brokers, settings=settings)
        client.startService()
        received: list[bytes] = []

        def listen(message: ReceivedMessage) -> None:
            received.append(message.body)

        for count in (3, 6):
            consumer = client.consumer("shop")
            consumer.subscribe("orders", listen, rejection=Drop())
            self.result_of(consumer.start())
            self.until(lambda: len(received) == count)  # noqa: B023
            self.result_of(consumer.stop())
        self.result_of(client.stop())

    def test_stop_in_listener(self) -> None:
        """A listener may stop the consumer; its message is done."""
        received: list[bytes] = []

        def listen(message: ReceivedMessage) -> None:
            received.append(message.body)
            consumer.stop()

        consumer = self.client.consumer("shop")
        consumer.subscribe("orders", listen, rejection=Drop())
        starting = consumer.start()
        starting.addErrback(lambda failure: failure.trap(ClientStopped))
        self.until(lambda: consumer.state is ConsumerState.STOPPED)
        self.assertEqual(received, [b"one"])
        self.assertEqual(self.received_by_next(2), [b"two", b"three"])

    def test_stop_awaited_in_listener(self) -> None:
        """A listener that waits for the stop is cancelled; its message comes again."""

        def listen(_: ReceivedMessage) -> Deferred[None]:
            stopping.append(self.clock.seconds())
            return consumer.stop()

        stopping: list[float] = []
        consumer = self.client.consumer("shop")
        consumer.subscribe("orders", listen, rejection=Drop())
        starting = consumer.start()
        starting.addErrback(lambda failure: failure.trap(ClientStopped))
        self.until(lambda: consumer.state is ConsumerState.STOPPED)
        self.assertEqual(len(stopping), 1)
        waited_s = self.clock.seconds() - stopping[0]
        self.assertGreaterEqual(waited_s, consumer.settings.stop_timeout_s)
        self.assertEqual(self.received_by_next(3), [b"one", b"two", b"three"])

    def test_start_in_time(self) -> None:
        """A start without a coordinator waits, and can be bounded; that stops it."""
        self.coordinator.suspend()
        consumer = self.client.consumer("shop").subscribe("orders")
        starting = consumer.start()
        self.pass_s(100)
        self.assertNoResult(starting)
        self.result_of(consumer.stop())
        self.failureResultOf(starting, NotConnected)
        consumer = self.client.consumer("shop").subscribe("orders")
        starting = consumer.start().addTimeout(30, self.clock)
        self.pass_s(31)
        self.failureResultOf(starting, TimeoutError)
        self.until(lambda: consumer.state is ConsumerState.STOPPED)
        self.coordinator.resume()
        self.assertEqual(self.received_by_next(3), [b"one", b"two", b"three"])

    def test_batch_shown(self) -> None:
        """A batch shows where it is from, and how much it is."""
        consumer = self.consumer()
        batch = self.result_of(consumer.next_batch(2))
        shown = "<PulledBatch of orders:0-0: 2 messages, offsets 0 to 46>"
        self.assertEqual(repr(batch), shown)
        batch.done()
        self.result_of(consumer.stop())
