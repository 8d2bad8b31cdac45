"""One partition's feed: handing over, seeking, holding, stopping, sharing memory."""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from metatwist.client.errors import ClientStopped
from metatwist.client.events import OffsetJumped
from metatwist.client.interfaces import IFeed
from metatwist.client.reading.budget import PrefetchBudget
from metatwist.client.reading.feed import PartitionFeed
from metatwist.client.settings import Backoff, FetchSettings
from tests.client.reading.fakes import (
    LogBroker,
    World,
    log_of,
    partition,
    payloads,
    result,
    value,
)

ONE = log_of(b"one")
LOG = log_of(*(b"%03d" % at for at in range(100)))
SMALL = FetchSettings(size_bytes=46, prefetch_bytes=92, idle=Backoff(1, 1))


class HandOverTests(SynchronousTestCase):
    """Batches in order, each once."""

    def setUp(self) -> None:
        self.world = World(SMALL)
        self.link = self.world.link

    def test_interface(self) -> None:
        """A feed is an IFeed."""
        verifyObject(IFeed, self.world.feed())

    def test_waiting(self) -> None:
        """A waiting next gets the batch when it comes."""
        feed = self.world.feed()
        waiting = feed.next()
        self.assertNoResult(waiting)
        self.link.answer(value(LOG[:46]))
        batch = self.successResultOf(waiting)
        self.assertEqual(payloads(batch.messages), [b"000", b"001"])
        self.assertEqual((batch.partition, batch.next_offset), (partition(), 46))
        self.assertEqual(batch.size_bytes, 46)

    def test_fetched_ahead(self) -> None:
        """The whole log comes in order, whether asked before or after it is there."""
        self.link.auto = LogBroker(LOG)
        feed = self.world.feed()
        found: list[bytes] = []
        while len(found) < 100:
            batch = self.successResultOf(feed.next())
            self.assertEqual(batch.messages[0].offset, len(found) * 23)
            found += payloads(batch.messages)
            feed.done(batch)
        self.assertEqual(found, [b"%03d" % at for at in range(100)])
        self.assertNoResult(feed.next())

    def test_position(self) -> None:
        """The position is that of the next batch to be handed out."""
        feed = self.world.feed()
        self.link.answer(value(LOG[:46]))
        self.assertEqual(feed.position, 0)
        self.successResultOf(feed.next())
        self.assertEqual(feed.position, 46)

    def test_cancelled(self) -> None:
        """Cancelling a next leaves the batch for the next call."""
        feed = self.world.feed()
        waiting = feed.next()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.link.answer(value(ONE))
        self.assertEqual(payloads(self.successResultOf(feed.next()).messages), [b"one"])

    def test_one_at_a_time(self) -> None:
        """A second next while one waits is an error at once."""
        feed = self.world.feed()
        feed.next()
        self.assertRaises(RuntimeError, feed.next)

    def test_nothing_before_begin(self) -> None:
        """A feed asks nothing before it has begun, and begins once."""
        feed = self.world.feed()
        feed.begin()
        self.assertEqual(len(self.link.commands), 1)


class SeekTests(SynchronousTestCase):
    """Going elsewhere."""

    def setUp(self) -> None:
        self.world = World(SMALL)
        self.link = self.world.link

    def test_during_fetch(self) -> None:
        """The answer under way is forgotten, and the new offset asked for."""
        feed = self.world.feed()
        waiting = feed.next()
        feed.seek(230)
        self.assertEqual(self.link.cancelled, 1)
        self.assertEqual(self.link.gets, [(0, 46), (230, 46)])
        self.link.answer(value(LOG[230:276]))
        batch = self.successResultOf(waiting)
        self.assertEqual(payloads(batch.messages), [b"010", b"011"])

    def test_drops_what_was_fetched(self) -> None:
        """Batches fetched ahead are dropped, and their memory given back."""
        self.link.auto = LogBroker(LOG)
        feed = self.world.feed()
        self.assertEqual(self.world.budget.used_bytes, 92)
        feed.seek(230)
        self.assertEqual(self.world.budget.used_bytes, 92)
        batch = self.successResultOf(feed.next())
        self.assertEqual(batch.messages[0].offset, 230)

    def test_told(self) -> None:
        """A seek is told, from where and to where."""
        self.link.auto = LogBroker(LOG)
        feed = self.world.feed()
        self.successResultOf(feed.next())
        feed.seek(23)
        self.assertEqual(
            self.world.told(OffsetJumped), [OffsetJumped(partition(), 46, 23, "sought")]
        )

    def test_during_pause(self) -> None:
        """A seek ends the pause."""
        feed = self.world.feed(len(LOG))
        self.link.auto = LogBroker(LOG)
        self.link.waiting.pop(0).callback(result(404))
        feed.seek(0)
        self.assertTrue(self.successResultOf(feed.next()).messages)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_within_an_event(self) -> None:
        """Whoever seeks when told of a seek gets the last place, once."""
        feed = self.world.feed()
        tell = self.world.events.append

        def seek_on(event: object) -> None:
            tell(event)
            if event.to_offset == 23:
                feed.seek(46)

        object.__setattr__(self.world.context, "tell", seek_on)
        feed.seek(23)
        self.assertEqual(self.link.gets, [(0, 46), (46, 46)])

    def test_held(self) -> None:
        """A seek while held fetches when the hold ends."""
        feed = self.world.feed()
        feed.hold("paused")
        feed.seek(46)
        self.assertEqual(self.link.gets, [(0, 46)])
        feed.unhold("paused")
        self.assertEqual(self.link.gets, [(0, 46), (46, 46)])

    def test_negative(self) -> None:
        """There are no negative offsets."""
        self.assertRaises(ValueError, self.world.feed().seek, -1)


class HoldTests(SynchronousTestCase):
    """Pausing."""

    def setUp(self) -> None:
        self.world = World(SMALL)
        self.link = self.world.link

    def test_every_reason(self) -> None:
        """While any reason holds, nothing is fetched."""
        feed = self.world.feed()
        feed.hold("paused")
        feed.hold("doubted")
        self.link.answer(value(LOG[:46]))
        feed.unhold("doubted")
        self.assertEqual(len(self.link.commands), 1)
        feed.unhold("paused")
        self.assertEqual(len(self.link.commands), 2)

    def test_nothing_handed_over(self) -> None:
        """What comes while held is handed over when the last hold ends."""
        feed = self.world.feed()
        waiting = feed.next()
        feed.hold("paused")
        self.link.answer(value(LOG[:46]))
        self.assertNoResult(waiting)
        feed.unhold("paused")
        self.assertEqual(self.successResultOf(waiting).next_offset, 46)

    def test_held_from_the_start(self) -> None:
        """A next while held waits, though a batch is there."""
        feed = self.world.feed()
        self.link.answer(value(LOG[:46]))
        feed.hold("paused")
        waiting = feed.next()
        self.assertNoResult(waiting)
        feed.unhold("paused")
        self.successResultOf(waiting)


class StopTests(SynchronousTestCase):
    """The end."""

    def setUp(self) -> None:
        self.world = World(SMALL)
        self.link = self.world.link

    def test_waiting_fails(self) -> None:
        """The waiting next fails, and later ones too."""
        feed = self.world.feed()
        waiting = feed.next()
        feed.stop()
        feed.stop()
        self.failureResultOf(waiting, ClientStopped)
        self.failureResultOf(feed.next(), ClientStopped)

    def test_nothing_is_left(self) -> None:
        """The fetch is forgotten, the link let go, the memory given back."""
        feed = self.world.feed()
        self.link.answer(value(LOG[:46]))
        batch = self.successResultOf(feed.next())
        self.link.answer(value(LOG[46:92]))
        feed.stop()
        self.assertEqual(self.world.budget.used_bytes, 0)
        feed.done(batch)
        self.assertEqual(self.world.budget.used_bytes, 0)
        self.assertEqual(self.link.owners, set())
        self.assertEqual(self.link.waiting, [])

    def test_at_any_time(self) -> None:
        """Stopped while it pauses, connects, is held or waits for memory, it does
        nothing more."""
        for hindrance in ("pause", "connect", "hold", "memory"):
            world = World(SMALL)
            link, feed = world.link, world.feed(0 if hindrance != "pause" else 9999)
            if hindrance == "memory":
                link.auto = LogBroker(LOG)
                link.answer(value(LOG[:46]))
            elif hindrance == "hold":
                feed.hold("paused")
                link.answer(value(LOG[:46]))
            elif hindrance == "connect":
                link.lose()
                world.clock.advance(0.5)
                self.assertEqual(len(link.connecting), 1)
            else:
                link.auto = LogBroker(LOG)
                link.waiting.pop(0).callback(result(404))
            asked = len(link.commands)
            feed.stop()
            feed.seek(0)
            feed.unhold("paused")
            link.connect()
            world.clock.advance(100)
            self.assertEqual(len(link.commands), asked, hindrance)
            self.assertEqual(world.clock.getDelayedCalls(), [], hindrance)
            self.assertEqual(link.owners, set(), hindrance)


class BudgetTests(SynchronousTestCase):
    """Memory shared by partitions."""

    def test_bounded(self) -> None:
        """One partition fetches ahead up to the bound, and on when a batch is done."""
        world = World(SMALL)
        world.link.auto = LogBroker(LOG)
        feed = world.feed()
        self.assertEqual(world.link.gets, [(0, 46), (46, 46)])
        batch = self.successResultOf(feed.next())
        self.assertEqual(len(world.link.commands), 2)
        feed.done(batch)
        feed.done(batch)
        self.assertEqual(world.link.gets[2:], [(92, 46)])
        self.assertEqual(world.budget.used_bytes, 92)

    def test_below_one_batch(self) -> None:
        """A bound below one batch fetches one at a time, to the end."""
        world = World(FetchSettings(size_bytes=46, prefetch_bytes=1))
        world.link.auto = LogBroker(LOG)
        feed = world.feed()
        for at in range(50):
            self.assertEqual(len(world.link.commands), at + 1)
            feed.done(self.successResultOf(feed.next()))
        self.assertEqual(feed.position, len(LOG))

    def test_no_starvation(self) -> None:
        """A partition whose large batches nobody takes does not hinder another."""
        world = World(SMALL)
        world.link.auto = LogBroker(LOG)
        world.feed()
        other = world.feed(number=1)
        for _ in range(50):
            other.done(self.successResultOf(other.next()))
        self.assertEqual(other.position, len(LOG))

    def _crowd(self, *numbers: int) -> tuple[World, list[PartitionFeed]]:
        """Feeds with a batch each, that wait for room; 230 bytes are used by others."""
        world = World(SMALL)
        world.budget.take(230)
        feeds = []
        for number in numbers:
            feeds.append(world.feed(number=number))
            world.link.answer(value(LOG[:46]))
        self.assertEqual(len(world.link.commands), len(numbers))
        world.link.commands.clear()
        return world, feeds

    def test_room_is_shared(self) -> None:
        """Room that becomes free goes to those who wait for it, in their order, and to
        no more of them than it is enough for."""
        world, _ = self._crowd(2, 0, 1)
        for size_bytes, asking in ((230, []), (92, [2]), (46, [2, 0, 1])):
            world.budget.give(size_bytes)
            asked = [command.partition for command in world.link.commands]
            self.assertEqual(asked, asking)

    def test_room_that_is_not_enough(self) -> None:
        """Nobody looks again before there is enough room for the first who waits."""
        budget = PrefetchBudget(100)
        called: list[str] = []
        budget.take(200)
        for name, size_bytes in (("large", 80), ("small", 10), ("other", 10)):
            budget.when_room(size_bytes, partial(called.append, name))
        budget.give(150)
        self.assertEqual(called, [])
        budget.give(30)
        self.assertEqual(called, ["large"])
        budget.give(1)
        self.assertEqual(called, ["large", "small", "other"])

    def test_room_taken_at_once(self) -> None:
        """What those who are called take at once counts once, and what they give back
        goes to the next."""
        budget = PrefetchBudget(100)
        called: list[str] = []

        def take(name: str) -> None:
            called.append(name)
            budget.take(40)
            if name == "b":
                budget.give(40)

        budget.take(100)
        for name in "abcd":
            budget.when_room(40, partial(take, name))
        budget.give(100)
        self.assertEqual((called, budget.used_bytes), (["a", "b", "c"], 80))

    def test_held_one_keeps_no_room(self) -> None:
        """One that is held, or has found other room, does not stand in the way of those
        who wait behind it."""
        world, feeds = self._crowd(0, 1)
        feeds[0].hold("paused")
        world.budget.give(276)
        self.assertEqual([one.partition for one in world.link.commands], [1])
        world, feeds = self._crowd(0, 1)
        feeds[0].done(self.successResultOf(feeds[0].next()))
        world.budget.give(230)
        self.assertEqual([one.partition for one in world.link.commands], [0, 1])

    def test_waiting_takes_no_room(self) -> None:
        """Partitions where nothing comes leave the memory to the others."""
        world = World(SMALL)
        for number in (1, 2, 3, 4):
            world.feed(number=number)
        world.link.auto = LogBroker(LOG)
        world.feed()
        self.assertEqual(world.budget.used_bytes, 92)
