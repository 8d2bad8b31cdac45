"""What comes of a put (spec client 5.4), and what is put again."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client import errors
from metatwist.client.message import SendResult
from metatwist.client.producing.selectors import ByKey
from metatwist.coordination.names import PartitionName
from metatwist.wire.commands import ResultReply
from metatwist.wire.reply_reader import PutStored, ValueChunks
from tests.client.producing.fakes import Put, World, message

ANSWERS: tuple[tuple[Any, type[errors.ClientError], bool, bool], ...] = (
    # answer, error, outcome unknown, put again
    (ResultReply(400, 1, b"bad"), errors.BadRequest, False, False),
    (ResultReply(403, 1, b"closed"), errors.Forbidden, False, True),
    (ResultReply(404, 1, b"none"), errors.NothingThere, False, True),
    (ResultReply(500, 1, b"disk"), errors.ServerFailed, False, False),
    (ResultReply(503, 1, b"stopping"), errors.ServerUnavailable, False, True),
    (ResultReply(504, 1, b"late"), errors.ServerTimedOut, True, False),
    (ResultReply(301, 1, b"12"), errors.RequestRefused, False, False),
    (ResultReply(200, 1, b"1 2"), errors.UnexpectedReply, True, False),
    (ValueChunks.of(1, b"x"), errors.UnexpectedReply, True, False),
    (errors.NotConnected("lost unsent"), errors.NotConnected, False, True),
    (errors.ConnectionLost("lost"), errors.ConnectionLost, True, False),
    (errors.RequestTimedOut("late"), errors.RequestTimedOut, True, False),
)


class OutcomesTest(SynchronousTestCase):
    """Each row of the table in producing/outcomes.py."""

    def test_stored(self) -> None:
        """The result has the id, the partition and the offset of the answer."""
        world = World.ready({3: 2})
        sent = world.producer.send(message())
        world.link(3).take().answered(PutStored(9, -5, 1, 4096))
        expected = SendResult(-5, PartitionName(3, 1), 4096)
        self.assertEqual(self.successResultOf(sent), expected)
        self.assertEqual(world.producer.counters.stored, 1)

    def test_the_broker_picks(self) -> None:
        """With partition -1 the result has the one of the answer (spec 4.2)."""
        world = World.ready({0: -1})
        sent = world.producer.send(message())
        put = world.link(0).take()
        self.assertEqual(put.prefix, b"put t -1 ")
        put.answered(PutStored(1, 5, 3, 0))
        self.assertEqual(self.successResultOf(sent).partition, PartitionName(0, 3))

    def test_failures(self) -> None:
        """Every failure has its type, its place, and says whether it may be stored."""
        for answer, kind, unknown, _ in ANSWERS:
            world = World.ready({0: 2}, retries=0)
            sent = world.producer.send(message())
            world.link(0).take().answered(answer)
            error = self.failureResultOf(sent, kind).value
            self.assertIs(type(error), kind)
            self.assertEqual(error.outcome_unknown, unknown, kind)
            place = (error.topic, error.partition)
            self.assertEqual(place, ("t", PartitionName(0, 1)), kind)
            self.assertEqual(world.producer.counters.failed, 1)
            self.assertEqual(world.producer.buffered_bytes, 0)

    def test_the_words_of_the_broker(self) -> None:
        """A refusal has the broker's words and code."""
        world = World.ready({0: 1}, retries=0)
        sent = world.producer.send(message())
        world.link(0).take().refuse(500, "wrong partition 3")
        error = self.failureResultOf(sent, errors.ServerFailed).value
        self.assertEqual((error.text, error.code), ("wrong partition 3", 500))

    def test_what_is_put_again(self) -> None:
        """Only what is known not to be stored is put again."""
        for answer, kind, _, again in ANSWERS:
            world = World.ready({0: 2})
            sent = world.producer.send(message())
            world.link(0).take().answered(answer)
            world.clock.advance(0.1)
            self.assertEqual(len(world.link(0).puts), int(again), kind)
            if again:
                world.link(0).take().store()
                self.successResultOf(sent)
                self.assertEqual(world.producer.counters.retried, 1)
            else:
                self.failureResultOf(sent, kind)

    def test_may_duplicate(self) -> None:
        """With that policy an unknown outcome is put again too, but no reply of
        another kind."""
        for answer, kind, unknown, _ in ANSWERS:
            if not unknown:
                continue
            world = World.ready({0: 2}, may_duplicate=True)
            sent = world.producer.send(message())
            world.link(0).take().answered(answer)
            world.clock.advance(0.1)
            again = kind is not errors.UnexpectedReply
            self.assertEqual(len(world.link(0).puts), int(again), kind)
            if not again:
                self.failureResultOf(sent, kind)


class AgainTest(SynchronousTestCase):
    """Where and when a message is put again."""

    def test_a_closed_partition(self) -> None:
        """After a 403 another partition gets it at once, never the same one."""
        world = World.ready({0: 3}, retries=2)
        sent = world.producer.send(message())
        seen = []
        for _ in range(2):
            put = world.link(0).take()
            seen.append(put.partition)
            put.refuse(403)
        seen.append(world.link(0).puts[0].partition)
        self.assertEqual(sorted(seen), [0, 1, 2])
        world.link(0).take().refuse(403)
        self.failureResultOf(sent, errors.Forbidden)

    def test_a_broker_that_stops(self) -> None:
        """After a 503 another broker gets it at once."""
        world = World.ready({0: 2, 1: 1})
        world.producer.send(message())
        world.link(0).take().refuse(503)
        self.assertEqual(len(world.link(1).puts), 1)

    def test_a_lone_partition(self) -> None:
        """With nowhere else to go it is put again after growing pauses."""
        world = World.ready({0: 1}, retries=3)
        sent = world.producer.send(message())
        for pause_s in (0.1, 0.2, 0.4):
            world.link(0).take().refuse(403)
            world.clock.advance(pause_s - 0.01)
            self.assertEqual(world.link(0).puts, [])
            world.clock.advance(0.01)
        world.link(0).take().refuse(403)
        self.failureResultOf(sent, errors.Forbidden)

    def test_a_key_keeps_its_partition(self) -> None:
        """A message with a key is put again to the partition of its key alone."""
        world = World.ready({0: 4}, ByKey())
        world.producer.send(message(key="k"))
        put = world.link(0).take()
        put.refuse(403)
        self.assertEqual(world.link(0).puts, [])
        world.clock.advance(0.1)
        self.assertEqual(world.link(0).take().partition, put.partition)

    def test_no_time_left(self) -> None:
        """It fails with the last refusal rather than begin a pause past its time."""
        world = World.ready({0: 1}, timeout_s=0.25)
        sent = world.producer.send(message())
        world.link(0).take().refuse(403)
        world.clock.advance(0.1)
        world.link(0).take().refuse(403)
        self.failureResultOf(sent, errors.Forbidden)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_time_is_for_all_tries(self) -> None:
        """A put gets what is left of the message's time."""
        world = World.ready({0: 1}, timeout_s=5)
        world.producer.send(message())
        first = world.link(0).take()
        world.clock.advance(2)
        first.refuse(403)
        world.clock.advance(0.1)
        second = world.link(0).take()
        self.assertEqual(first.timeout_s, 5)
        self.assertAlmostEqual(second.timeout_s, 2.9)

    def test_time_for_a_second_broker(self) -> None:
        """Where duplicates are allowed a silent broker gets half of the time."""
        world = World.ready({0: 1, 1: 1}, timeout_s=8, retries=1, may_duplicate=True)
        world.producer.send(message())
        first = world.link(1).take()
        self.assertEqual(first.timeout_s, 4)
        world.clock.advance(4)
        first.answered(errors.RequestTimedOut("late"))
        self.assertEqual(world.link(0).take().timeout_s, 4)

    def test_doubt_remains(self) -> None:
        """An error is not more certain than the puts before it."""
        world = World.ready({0: 1}, may_duplicate=True, retries=1)
        sent = world.producer.send(message())
        world.link(0).take().answered(errors.RequestTimedOut("late"))
        world.clock.advance(0.1)
        world.link(0).take().refuse(403)
        error = self.failureResultOf(sent, errors.Forbidden).value
        self.assertTrue(error.outcome_unknown)
        self.assertFalse(errors.Forbidden.outcome_unknown)

    def test_discovery_looks_again(self) -> None:
        """A failed put makes discovery look at the topic."""
        world = World.ready({0: 1}, retries=0)
        self.failureResultOf(self.refused(world))
        self.assertEqual(world.discovery.refreshed, ["t"])

    def refused(self, world: World) -> Any:
        sent = world.producer.send(message())
        world.link(0).take().refuse(500)
        return sent


SCRIPTS = st.lists(
    st.sampled_from([403, 404, 500, 503, 504, "lost", "timeout", "unsent", "stored"]),
    min_size=1,
    max_size=8,
)


class NeverTwiceTest(SynchronousTestCase):
    """The safety of retries."""

    @settings(max_examples=150, deadline=None)
    @given(SCRIPTS, st.integers(0, 6), st.integers(1, 3), st.booleans())
    def test_one_put_may_be_stored(
        self, script: list[Any], retries: int, brokers: int, keyed: bool
    ) -> None:
        """Whatever brokers answer, a second put follows only a refusal or a put that
        never left; and the message ends, exactly once."""
        counts = dict.fromkeys(range(brokers), 2)
        world = World.ready(counts, ByKey() if keyed else None, retries=retries)
        answers = list(script)
        maybe_stored: list[object] = []

        def answer(put: Put) -> None:
            self.assertEqual(maybe_stored, [])
            said = answers.pop(0) if answers else 403
            if said not in (403, 404, 500, 503, "unsent"):
                maybe_stored.append(said)
            _answer(put, said)

        for broker_id in counts:
            world.link(broker_id).answer = answer
        ended: list[object] = []
        world.producer.send(message(key="k" if keyed else None)).addBoth(ended.append)
        world.clock.pump([0.1] * 120)
        self.assertEqual(len(ended), 1)
        self.assertEqual(world.producer.buffered_bytes, 0)
        self.assertEqual(world.clock.getDelayedCalls(), [])


def _answer(put: Put, said: Any) -> None:
    made = {
        "lost": errors.ConnectionLost("lost"),
        "timeout": errors.RequestTimedOut("late"),
        "unsent": errors.NotConnected("full"),
    }
    if said == "stored":
        put.store()
    elif said in made:
        put.answered(made[said])
    else:
        put.refuse(said)
