"""Manual acks: every row of the table of spec client 12.2, and crashes in between."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.delivery.acks import Acks
from metatwist.client.errors import AckRefused, ListenerFailed, NotOwner
from metatwist.client.events import DeliveryFailed, Rejected
from metatwist.client.message import ReceivedMessage
from tests.client.delivery.scripted import SIZE, Bench, message, number_of


class Script:
    """A listener that does what `steps` says for each delivery of a number, in turn:
    `ack`, `rollback`, an exception, a Deferred, None; the last one again and again."""

    def __init__(self, steps: dict[int, list[Any]]) -> None:
        self.steps = {number: list(todo) for number, todo in steps.items()}
        self.numbers: list[int] = []
        self.acks: list[Acks] = []

    def __call__(self, one: ReceivedMessage, acks: Acks) -> Any:
        number = number_of(one)
        self.numbers.append(number)
        self.acks.append(acks)
        todo = self.steps.get(number, [None])
        step = todo.pop(0) if len(todo) > 1 else todo[0]
        if isinstance(step, Exception):
            raise step
        if step in ("ack", "rollback"):
            getattr(acks, step)()
            return None
        return step


def manual(
    steps: dict[int, list[Any]], count: int = 6, **options: Any
) -> tuple[Bench, Script]:
    """A delivery with manual acks that has begun."""
    bench, script = Bench(count), Script(steps)
    bench.deliver(script, manual_ack=True, **options)
    return bench, script


class AckTest(SynchronousTestCase):
    """Acks."""

    def test_neither(self) -> None:
        """Without an ack the delivery goes on, and progress stays."""
        bench, script = manual({})
        self.assertEqual((list(range(6)), 0), (script.numbers, bench.done))

    def test_ack_covers_all_before(self) -> None:
        """An ack covers its message and those before, with id and count."""
        bench, script = manual({2: ["ack"], 4: ["ack"]})
        record = bench.progress.record
        assert record is not None
        self.assertEqual((500, 1004), (record.offset, record.message_id))
        self.assertEqual(5, bench.progress.done_count)
        self.assertEqual(list(range(6)), script.numbers)

    def test_crash_between(self) -> None:
        """After a crash everything behind the last ack comes again, nothing else."""
        bench, _ = manual({2: ["ack"]})
        again = Script({5: ["ack"]})
        bench.restart(again, manual_ack=True)
        self.assertEqual(([3, 4, 5], 6), (again.numbers, bench.done))

    def test_crash_after_rollback(self) -> None:
        """A crash during the pause of a rollback changes nothing."""
        bench, _ = manual({1: ["ack"], 3: ["rollback"]})
        again = Script({})
        bench.restart(again, manual_ack=True)
        self.assertEqual(([2, 3, 4, 5], 2), (again.numbers, bench.done))

    def test_later(self) -> None:
        """Acks may be used at any time after the call, in any order."""
        bench, script = manual({})
        self.assertTrue(script.acks[1].ack())
        self.assertEqual(2, bench.done)
        self.assertTrue(script.acks[4].ack())
        self.assertEqual(5, bench.done)
        self.assertTrue(script.acks[3].ack())
        self.assertTrue(script.acks[4].ack())
        self.assertEqual((5, 5), (bench.done, bench.progress.done_count))

    def test_one_or_the_other(self) -> None:
        """Ack and rollback exclude each other."""
        _, script = manual({}, count=2)
        script.acks[0].ack()
        self.assertRaises(AckRefused, script.acks[0].rollback)
        script.acks[1].rollback()
        self.assertRaises(AckRefused, script.acks[1].ack)

    def test_given_up(self) -> None:
        """Once the partition is given up, acks raise NotOwner and move nothing; while
        the last listener is waited for they count."""
        running: Deferred[None] = Deferred()
        bench, script = manual({3: [running]})
        stopped = bench.delivery.stop(10)
        script.acks[1].ack()
        running.callback(None)
        self.successResultOf(stopped)
        self.assertRaises(NotOwner, script.acks[3].ack)
        self.assertRaises(NotOwner, script.acks[2].rollback)
        self.assertEqual(2, bench.done)

    def test_lost(self) -> None:
        """The same for a claim that is gone."""
        bench, script = manual({3: [Deferred()]})
        bench.delivery.abandon()
        self.assertRaises(NotOwner, script.acks[2].ack)
        self.assertEqual(0, bench.done)

    def test_sought(self) -> None:
        """Acks from before a seek mean nothing."""
        bench, script = manual({}, count=6)
        bench.delivery.seek(4 * SIZE)
        self.assertFalse(script.acks[5].ack())
        self.assertEqual(4, bench.done)
        self.assertTrue(script.acks[-1].ack())
        self.assertEqual(6, bench.done)

    def test_acked_and_raised(self) -> None:
        """A message that was acknowledged is done, whatever comes after that."""

        def listen(one: ReceivedMessage, acks: Acks) -> None:
            acks.ack()
            raise ValueError("late")

        bench = Bench(3)
        bench.deliver(listen, manual_ack=True)
        self.assertEqual(3, bench.done)

    def test_without_a_known_start(self) -> None:
        """A partition without an offset begins with its first message."""
        bench, script = Bench(6), Script({4: ["rollback", "ack"]})
        bench.progress.record = None
        bench.feed.next_number = 3
        bench.deliver(script, manual_ack=True)
        self.assertIsNone(bench.progress.record)
        bench.clock.advance(0.5)
        self.assertEqual(([3, 4, 3, 4, 5], 5), (script.numbers, bench.done))


class FailureTest(SynchronousTestCase):
    """Failures of the listener, and what needs no ack."""

    def test_raising(self) -> None:
        """A failing message comes again by itself; what was handed over before it is
        neither repeated nor acknowledged."""
        bench, script = manual({2: [ValueError(), None], 5: ["ack"]})
        self.assertEqual(([0, 1, 2], 0), (script.numbers, bench.done))
        bench.clock.advance(0.5)
        self.assertEqual(([0, 1, 2, 2, 3, 4, 5], 6), (script.numbers, bench.done))

    def test_poison_behind_unacknowledged(self) -> None:
        """A rejected message does not acknowledge those before it."""
        bench, script = manual({2: [ValueError()]}, most_deliveries=1)
        self.assertEqual((list(range(6)), 0), (script.numbers, bench.done))
        self.assertEqual(1, len(bench.told(Rejected)))
        script.acks[1].ack()
        self.assertEqual(2, bench.done)

    def test_poison_behind_acknowledged(self) -> None:
        """With nothing before it that waits for an ack, it is passed."""
        bench, _ = manual({1: ["ack"], 2: [ValueError()]}, most_deliveries=1)
        self.assertEqual(3, bench.done)

    def test_filtered(self) -> None:
        """Filtered messages need no ack of their own."""
        bench, script = manual({3: ["ack"]}, accepts=lambda one: number_of(one) == 3)
        self.assertEqual(([3], 6), (script.numbers, bench.done))
        bench, script = manual({}, accepts=lambda one: number_of(one) == 3)
        self.assertEqual(([3], 3), (script.numbers, bench.done))
        script.acks[0].ack()
        self.assertEqual(4, bench.done)

    def test_acknowledged_ones_are_known(self) -> None:
        """What was acknowledged is recognised when it comes again, the rest is not."""
        bench, script = manual({2: ["ack"]})
        self.successResultOf(bench.delivery.stop(1))
        bench.feed.next_number = 0
        bench.progress.move(0)
        bench.deliver(script, manual_ack=True)
        self.assertEqual([0, 1, 2, 3, 4, 5, 3, 4, 5], script.numbers)
        self.assertEqual(3, bench.done)


class RollbackTest(SynchronousTestCase):
    """Rollbacks."""

    def test_back_to_the_last_ack(self) -> None:
        """Everything behind the last ack comes again, after a pause."""
        bench, script = manual({1: ["ack"], 3: ["rollback", None]})
        self.assertEqual([0, 1, 2, 3], script.numbers)
        bench.clock.advance(0.49)
        self.assertEqual(4, len(script.numbers))
        bench.clock.advance(0.02)
        self.assertEqual([0, 1, 2, 3, 2, 3, 4, 5], script.numbers)
        self.assertEqual(2, bench.done)

    def test_no_spin_and_no_end(self) -> None:
        """Rollbacks are paced like failures; after 6 the first message that is not
        acknowledged is rejected, and the rest comes again."""
        bench, script = manual({1: ["ack"], 3: ["rollback"]}, count=5)
        for pause_s in (0.5, 1, 2, 4, 5):
            count = len(script.numbers)
            bench.clock.advance(pause_s - 0.01)
            self.assertEqual(count, len(script.numbers))
            bench.clock.advance(0.02)
            self.assertEqual([2, 3], script.numbers[count : count + 2])
        self.assertEqual(3, bench.done)
        self.assertEqual([Rejected(message(2), "dropped")], bench.told(Rejected))
        failed = bench.told(DeliveryFailed)
        self.assertEqual([1, 2, 3, 4, 5], [one.failures for one in failed][:5])
        self.assertIsInstance(failed[0].error, ListenerFailed)
        for _ in range(10):
            bench.clock.advance(5)
        self.assertEqual([2, 3], [number_of(one.message) for one in _rejected(bench)])
        self.assertEqual(4, script.numbers[-1])

    def test_an_ack_starts_a_new_count(self) -> None:
        """Rollbacks with progress in between are no poison."""

        class Careful:
            def __init__(self) -> None:
                self.seen: list[int] = []

            def __call__(self, one: ReceivedMessage, acks: Acks) -> None:
                number = number_of(one)
                self.seen.append(number)
                acks.ack() if self.seen.count(number) > 1 else acks.rollback()

        bench, careful = Bench(20), Careful()
        bench.deliver(careful, manual_ack=True, most_deliveries=2)
        for _ in range(40):
            bench.clock.advance(5)
        self.assertEqual((20, []), (bench.done, bench.told(Rejected)))

    def test_waits_for_the_running_listener(self) -> None:
        """A rollback that is asked for meanwhile comes when the listener has ended."""
        running: Deferred[None] = Deferred()
        bench, script = manual({2: [running, None]})
        self.assertTrue(script.acks[1].rollback())
        bench.clock.advance(10)
        self.assertEqual([], bench.feed.seeks)
        running.callback(None)
        bench.clock.advance(0.5)
        self.assertEqual([0, 1, 2, 0, 1, 2, 3, 4, 5], script.numbers)

    def test_while_nothing_comes(self) -> None:
        """A rollback works though no message is there to wait for."""
        bench, script = manual({}, count=2)
        script.acks[1].rollback()
        bench.clock.advance(0.5)
        self.assertEqual([0, 1, 0, 1], script.numbers)

    def test_of_what_is_acknowledged(self) -> None:
        """It means nothing then."""
        bench, script = manual({1: ["ack"]}, count=2)
        self.assertFalse(script.acks[0].rollback())
        bench.clock.advance(10)
        self.assertEqual([0, 1], script.numbers)

    def test_old_acks_mean_nothing(self) -> None:
        """A delivery that was rolled back can neither be acknowledged nor undo
        another one."""
        bench, script = manual({1: ["rollback", None]}, count=3)
        old = list(script.acks)
        self.assertFalse(old[0].ack())
        bench.clock.advance(0.5)
        self.assertFalse(old[1].rollback())
        self.assertEqual(0, bench.done)
        self.assertEqual([0, 1, 0, 1, 2], script.numbers)

    def test_first_one_not_known(self) -> None:
        """After an ack among messages that were handed over, the right message is
        rejected, even though it was seen before that ack."""
        bench, script = manual({}, count=4, most_deliveries=1)
        script.acks[1].ack()
        script.acks[3].rollback()
        bench.clock.advance(0.5)
        self.assertEqual([0, 1, 2, 3, 2, 3], script.numbers)
        self.assertEqual([], bench.told(Rejected))
        script.acks[-1].rollback()
        self.assertEqual([2], [number_of(one.message) for one in _rejected(bench)])
        self.assertEqual((3, 3), (bench.done, script.numbers[-1]))

    def test_first_one_is_not_the_next_one(self) -> None:
        """Nor is a message rejected that only came after such an ack."""
        bench, script = manual({4: ["rollback"]}, count=4, most_deliveries=1)
        script.acks[1].ack()
        bench.feed.add(1)
        self.assertEqual(([], 2), (bench.told(Rejected), bench.done))
        bench.clock.advance(0.5)
        self.assertEqual([2], [number_of(one.message) for one in _rejected(bench)][:1])

    def test_stopped_during_its_pause(self) -> None:
        """The pause ends at once."""
        bench, _ = manual({1: ["rollback"]})
        self.successResultOf(bench.delivery.stop(10))
        self.assertEqual((0, []), (bench.done, bench.clock.getDelayedCalls()))

    def test_sought_during_its_pause(self) -> None:
        """The seek wins."""
        bench, script = manual({1: ["rollback"]})
        bench.delivery.seek(4 * SIZE)
        bench.clock.advance(10)
        self.assertEqual([0, 1, 4, 5], script.numbers)


def _rejected(bench: Bench) -> list[Any]:
    return bench.told(Rejected)
