"""Single misfortunes: brokers out of reach, lost and damaged data, stuck listeners."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from metatwist.client import (
    BufferFull,
    CommitSettings,
    ConsumerHooks,
    ConsumerSettings,
    Message,
    NotOwner,
    OffsetJumped,
    OffsetOutOfRange,
    PartitionStopped,
    ProducerSettings,
    Rejected,
    Start,
    TopicPartition,
)
from metatwist.client.offsets.interface import Commit
from metatwist.coordination.names import PartitionName
from metatwist.testing import FakeBroker
from tests.client.faults.listeners import POISON
from tests.client.faults.world import TOPIC, FaultCase, World

PARTITION = PartitionName(0, 0)
ONLY = TopicPartition(TOPIC, PARTITION)


class UnreachableTest(FaultCase):
    """A broker that is registered and never answers."""

    def _play(self, world: World, silent: FakeBroker) -> None:
        node = world.node()
        world.join(node)
        producer = node.client.producer()
        for _ in range(20):
            world.send(producer)
            world.run(0.5)
        self.assertEqual(world.ledger.problems(), [])
        self.assertTrue(all(one.is_acknowledged for one in world.ledger.sent.values()))
        world.settle()
        self.assertEqual(silent.messages(TOPIC), [])
        world.finish()

    def test_refused(self) -> None:
        """One that refuses connections takes no message, and fails none."""
        world = World(self, brokers=2)
        world.brokers[1].refuse_connections = True
        self._play(world, world.brokers[1])

    def test_black_hole(self) -> None:
        """One that takes connections and never answers costs the messages sent to it
        their time, but those to others none."""
        world = World(self, brokers=2)
        world.brokers[1].freeze()
        node = world.node()
        world.join(node)
        producer = node.client.producer()
        for _ in range(40):
            world.send(producer)
            world.run(0.5)
        outcomes = [one.is_acknowledged for one in world.ledger.sent.values()]
        self.assertGreater(outcomes.count(True), 15)
        world.brokers[1].thaw()
        world.settle()
        world.finish()

    def test_nobody_there(self) -> None:
        """An address where nobody ever was is no trouble for the others."""
        world = World(self, {TOPIC: 1})
        ghost = FakeBroker(world.clock, {TOPIC: 2}, 7)
        world.cluster.register(ghost)
        ghost.refuse_connections = True
        self._play(world, ghost)


class LossTest(FaultCase):
    """Data that is gone, or damaged."""

    def setUp(self) -> None:
        """One partition, its consumer in the middle of it."""
        self.world = World(self, {TOPIC: 1})
        self.broker = self.world.brokers[0]
        self.node = self.world.node()
        self.producer = self.node.client.producer()
        self.world.send(self.producer, count=10)
        self.world.run(1)
        self.offsets = [one.offset for one in self.broker.messages(TOPIC)]

    def _jumps(self) -> list[tuple[int | None, int, str]]:
        return [
            (one.from_offset, one.to_offset, one.reason)
            for one in self.node.events
            if isinstance(one, OffsetJumped) and one.reason != "start"
        ]

    def test_end_moved_back(self) -> None:
        """After a loss at the end, reading goes on there, and the user is told."""
        world = self.world
        world.join(self.node)
        world.settle()
        self.broker.lose_from(TOPIC, 0, self.offsets[5])
        self.broker.drop_connections()
        world.run(60)
        self.assertIn("beyond the end", [reason for *_, reason in self._jumps()])
        for one in list(world.ledger.sent)[5:]:
            del world.ledger.sent[one]
        world.ledger.processed.clear()
        world.ledger.rejected.update(
            (TOPIC, 0, 0, one.offset) for one in self.broker.messages(TOPIC)
        )
        world.send(self.producer, "after", 5)
        world.settle()
        self.assertEqual(len(world.ledger.processed), 5)
        world.finish()

    def test_out_of_range_is_an_error(self) -> None:
        """With the policy ERROR the partition stops with OffsetOutOfRange."""
        world = self.world
        world.join(self.node, out_of_range=Start.ERROR)
        world.settle()
        self.broker.lose_from(TOPIC, 0, self.offsets[5])
        self.broker.drop_connections()
        world.ledger.sent.clear()
        world.run(60)
        stops = [one for one in self.node.events if isinstance(one, PartitionStopped)]
        self.assertEqual([type(one.error) for one in stops], [OffsetOutOfRange])
        world.finish()

    def test_retention_overtakes(self) -> None:
        """What retention has deleted is jumped over, and the user is told."""
        world = self.world
        consumer = world.join(self.node, "late", start=Start.EARLIEST)
        world.run(3)
        self.assertEqual(len(consumer.assigned), 1)
        consumer.pause()
        world.run(20)
        world.send(self.producer, "more", 200)
        world.run(2)
        end = self.broker.messages(TOPIC)[150].offset
        self.broker.forget_before(TOPIC, 0, end)
        world.ledger.sent.clear()
        consumer.seek(ONLY, 0)
        consumer.resume()
        world.settle(400)
        self.assertIn((0, end, "deleted"), self._jumps())
        world.finish()

    def test_corrupt(self) -> None:
        """A damaged record is passed over, told, and stops nothing."""
        world = self.world
        self.broker.corrupt(TOPIC, 0, self.offsets[3])
        damaged = (TOPIC, 0, 0, self.offsets[3])
        world.ledger.rejected.add(damaged)
        del world.ledger.sent[list(world.ledger.sent)[3]]
        world.join(self.node)
        world.until(lambda: not world.ledger.missing(), "processed", 100)
        self.assertIn((self.offsets[3], self.offsets[4], "corrupt"), self._jumps())
        self.assertNotIn(damaged, world.ledger.processed)
        world.finish()

    def test_poison(self) -> None:
        """Poison is rejected after its deliveries; the others are processed."""
        world = self.world
        for _ in range(3):
            world.send(self.producer, POISON.decode())
            world.send(self.producer, count=3)
        world.join(self.node, "raising")
        world.settle()
        rejected = [one for one in self.node.events if isinstance(one, Rejected)]
        self.assertEqual(len(rejected), 3)
        self.assertEqual(len(world.ledger.rejected), 3)
        world.finish()


class UserTest(FaultCase):
    """What a user does in the middle of things."""

    def test_pause(self) -> None:
        """A paused partition hands over nothing, through faults and rebalances, and
        everything after the resume."""
        world = World(self)
        first = world.node()
        consumer = world.join(first)
        world.run(2)
        consumer.pause()
        producer = first.client.producer()
        world.send(producer, count=12)
        world.run(5)
        world.cluster.expire_session(first.coordinator)
        world.brokers[0].drop_connections()
        world.run(5)
        self.assertEqual(world.ledger.deliveries, 0)
        self.assertEqual(len(consumer.assigned), 3)
        consumer.resume()
        world.settle()
        self.assertEqual(world.ledger.deliveries, 12)
        world.finish()

    def test_seek(self) -> None:
        """After a seek to the start all comes again, also while the broker is away."""
        world = World(self, {TOPIC: 1})
        node = world.node()
        consumer = world.join(node)
        world.send(node.client.producer(), count=10)
        world.settle()
        world.brokers[0].refuse_connections = True
        world.brokers[0].drop_connections()
        world.run(3)
        consumer.seek(ONLY, 0)
        world.run(3)
        self.assertEqual(world.offset(PARTITION), 0)
        world.brokers[0].refuse_connections = False
        world.until(lambda: world.ledger.deliveries == 20, "delivered again", 30)
        world.finish()

    def test_seek_while_a_listener_runs(self) -> None:
        """A seek forward past a running listener's message counts, and it ends."""
        world = World(self, {TOPIC: 1})
        node = world.node()
        consumer = world.join(node, "late")
        world.send(node.client.producer(), count=10)
        world.run(4)
        target = world.brokers[0].messages(TOPIC)[7].offset
        world.ledger.rejected.update(
            (TOPIC, 0, 0, one.offset) for one in world.brokers[0].messages(TOPIC)[:7]
        )
        consumer.seek(ONLY, target)
        world.settle()
        self.assertLess(world.ledger.deliveries, 9)
        world.finish()

    def test_high_water_mark(self) -> None:
        """A frozen broker makes senders wait: no more is buffered than the mark and one
        message, and all hear in the end."""
        most, size = 100_000, 10_000
        seen: list[int] = []
        world = World(self)
        node = world.node()
        settings = ProducerSettings(most_buffered_bytes=most, timeout_s=60)
        producer = node.client.producer(settings)
        world.send(producer)
        world.run(1)
        world.brokers[0].freeze()

        def look() -> None:
            self.assertLessEqual(producer.buffered_bytes, most + size + 704)

        for sent in world.send(producer, "x" * size, 50):
            sent.addCallback(lambda _: seen.append(producer.buffered_bytes))
        look()
        with self.assertRaises(BufferFull):
            producer.try_send(Message(TOPIC, b"x" * size))
        world.run(10, look)
        world.brokers[0].thaw()
        world.run(10, look)
        self.assertEqual(len(seen), 50)
        self.assertLessEqual(max(seen), most + size + 704)
        self.assertEqual(producer.buffered_bytes, 0)
        self.assertEqual(producer.counters.stored, 51)
        world.finish()

    def test_stuck_listener(self) -> None:
        """A stop with a deadline does not wait longer for a stuck listener, and does
        not commit its message; the next consumer gets it."""
        world = World(self, {TOPIC: 1})
        node = world.node()
        stuck: list[Any] = []

        def listen(message: Any) -> Any:
            if len(stuck) == 2:
                return Deferred()
            stuck.append(message)
            world.ledger.done(message)
            return None

        consumer = node.client.consumer(
            ConsumerSettings("g", stop_timeout_s=60)
        ).subscribe(TOPIC, listen, rejection=world.ledger.reject)
        consumer.start()
        world.send(node.client.producer(), count=5)
        world.run(3)
        begun_s = world.clock.seconds()
        stopped: list[Any] = []
        node.client.stop(3).addBoth(stopped.append)
        world.until(lambda: bool(stopped), "stopped", 15)
        self.assertLess(world.clock.seconds() - begun_s, 15)
        world.nodes.remove(node)
        world.check_commits()
        second = world.node()
        world.join(second)
        world.settle()
        world.finish()


class FencingTest(FaultCase):
    """Commits of who is no owner any more."""

    def test_late_commit(self) -> None:
        """The commit of an owner whose session has ended does not overwrite that of the
        new one."""
        world = World(self, {TOPIC: 1})
        first, second = world.node(), world.node()
        old = world.join(first, "late")
        producer = second.client.producer()
        world.send(producer, count=6)
        world.run(4)
        held = old._holding.held[ONLY]
        record, claim = held.progress.record, held.claim
        self.assertIsNotNone(record)
        new = world.join(second)
        first.coordinator.suspend()
        first.coordinator._end_session()
        world.settle()
        world.run(3)
        self.assertEqual(new.assigned, (ONLY,))
        before = world.offset(PARTITION)
        commit = old._context.storage.commit((Commit(ONLY, record, claim),))
        outcome = self.successResultOf(commit)
        self.assertIsInstance(outcome[ONLY], NotOwner)
        self.assertEqual(world.offset(PARTITION), before)
        first.coordinator.expire()
        world.finish()

    def test_own_clock(self) -> None:
        """Who cannot prove that its session lives hands over nothing from before the
        session can have ended, though nobody has told it, until it can again."""
        world = World(self, {TOPIC: 1})
        node = world.node(session_timeout_s=30)
        world.join(node)
        world.run(2)
        node.coordinator.suspend()
        world.run(9)
        world.brokers[0].deliver(TOPIC, b"in time")
        world.run(1)
        self.assertEqual(world.ledger.deliveries, 1)
        world.run(12)
        world.brokers[0].deliver(TOPIC, b"too late")
        world.run(20)
        self.assertEqual(world.ledger.deliveries, 1)
        node.coordinator.resume()
        world.settle()
        self.assertEqual(world.ledger.deliveries, 2)
        world.finish()

    def test_listener_at_the_end_of_the_lease(self) -> None:
        """A batch that is being handed over stops too."""
        world = World(self, {TOPIC: 1})
        node = world.node(session_timeout_s=30)
        world.join(node, "late")
        for number in range(100):
            world.brokers[0].deliver(TOPIC, b"%d" % number)
        world.run(2)
        node.coordinator.suspend()
        world.run(23)
        before = world.ledger.deliveries
        self.assertGreater(before, 10)
        world.run(20)
        self.assertEqual(world.ledger.deliveries, before)
        node.coordinator.resume()
        world.settle()
        world.finish()

    def test_slow_commit_at_the_end(self) -> None:
        """A commit that takes longer than a stop waits is no failure of the storage."""
        world = World(self, {TOPIC: 1})
        node = world.node()
        world.join(node, commit=CommitSettings(auto=False))
        world.brokers[0].deliver(TOPIC, b"x")
        world.run(2)
        node.coordinator.latency_s = 7
        world.stop(node)
        world.run(8)
        world.finish()

    def test_hooks(self) -> None:
        """Hooks that raise, hang or are cancelled hold up no rebalance for ever."""
        for bad in (_raising, _hanging, _stubborn):
            world = World(self)
            first, second = world.node(), world.node()
            hooks = ConsumerHooks(on_assign=bad, on_revoke=bad, on_lost=bad)
            world.join(first, hooks=hooks)
            producer = first.client.producer()
            world.send(producer, count=9)
            world.run(8)
            world.join(second)
            world.run(20)
            world.cluster.expire_session(first.coordinator)
            world.send(producer, count=9)
            world.settle()
            world.stop()
            if bad is _raising:
                self.assertNotEqual(self.flushLoggedErrors(ValueError), [])
            world.finish()


def _raising(_partitions: object) -> None:
    raise ValueError("a hook")


def _hanging(_partitions: object) -> Deferred[None]:
    return Deferred()


async def _stubborn(_partitions: object) -> None:
    while True:
        try:
            await Deferred()
        except BaseException:
            await Deferred()
            return
