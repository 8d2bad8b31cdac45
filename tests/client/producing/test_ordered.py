"""The ordered producer (spec client 8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import (
    ClientStopped,
    ConnectionLost,
    InvalidMessage,
    LocalStoreFailed,
    NoPartition,
    NotConnected,
    SelectorFailed,
    ServerFailed,
)
from metatwist.client.local_store import StoreLimits
from metatwist.client.message import Message, SendResult
from metatwist.client.producing.ordered import OrderedProducer, OrderedSettings
from metatwist.coordination.names import PartitionName
from tests.client.producing.fakes import (
    FakeLink,
    Put,
    World,
    message,
    new_directory,
    store_at,
)

FIRST = PartitionName(0, 0)
PARKED = SendResult(0, FIRST, -1)


class OrderedWorld:
    """An ordered producer over a `World`; everything goes to `picked`."""

    def __init__(self, path: Path, world: World | None = None, **settings: Any) -> None:
        self.world = world or World.ready({0: 1})
        self.picked: Any = FIRST
        self.link = self.world.link(0)
        self.link.answer = settings.pop("answer", None)
        limits = settings.pop("limits", None)
        self.store = store_at(path, limits)
        made = OrderedSettings({"t": {0: 2}}, path, **settings)
        self.ordered = OrderedProducer(made, self.world.context, self.pick, self.store)
        self.ordered.startService()
        self.ordered.publish("t").addErrback(lambda failure: failure.trap(NotConnected))
        self.sent: list[Deferred[SendResult]] = []

    def pick(self, topic: str, partitions: Any, one: Message) -> Any:
        if isinstance(self.picked, Exception):
            raise self.picked
        return self.picked

    def send(self, text: str) -> Deferred[SendResult]:
        self.sent.append(self.ordered.send(message(text.encode())))
        return self.sent[-1]

    def stop(self) -> None:
        for sent in self.sent:
            sent.addErrback(lambda _: None)
        self.ordered.stopService()
        self.world.clock.advance(20)


class OrderedCase(SynchronousTestCase):
    """Has a path, and ends what it began."""

    def setUp(self) -> None:
        self.path = new_directory(self) / "parked.sqlite3"

    def begin(self, world: World | None = None, **settings: Any) -> OrderedWorld:
        made = OrderedWorld(self.path, world, **settings)
        self.addCleanup(made.stop)
        return made


class PickTest(OrderedCase):
    """Which partition is used, by the table of spec client 8."""

    def test_not_configured(self) -> None:
        """A topic without configured partitions is an error."""
        failed = self.begin().ordered.send(Message("other", b""))
        self.failureResultOf(failed, NoPartition)

    def test_none_picked(self) -> None:
        """So is a selector that answers None, raises, or answers a partition that is
        neither configured nor registered."""
        ordered = self.begin()
        cases = (
            (None, NoPartition),
            (RuntimeError(), SelectorFailed),
            (PartitionName(5, 5), SelectorFailed),
            ("0-0", SelectorFailed),
        )
        for picked, kind in cases:
            ordered.picked = picked
            self.failureResultOf(ordered.send("x"), kind)
        self.assertEqual(ordered.link.all_puts, [])

    def test_invalid(self) -> None:
        """A message that could never be sent is never parked."""
        ordered = self.begin()
        failed = ordered.ordered.send(message("text"))  # type: ignore[arg-type]
        self.failureResultOf(failed, InvalidMessage)
        self.assertEqual(ordered.ordered.parked, 0)

    def test_in_both(self) -> None:
        """Configured and registered: it is sent there."""
        ordered = self.begin()
        sent = ordered.send("x")
        ordered.link.take().store(64)
        self.assertEqual(self.successResultOf(sent), SendResult(7, FIRST, 64))

    def test_configured_only(self) -> None:
        """Configured but not registered: it is parked."""
        ordered = self.begin()
        ordered.picked = PartitionName(0, 1)
        expected = SendResult(0, PartitionName(0, 1), -1)
        self.assertEqual(self.successResultOf(ordered.send("x")), expected)
        self.assertEqual(ordered.link.all_puts, [])

    def test_registered_only(self) -> None:
        """The same the other way round is sent: a broker takes it."""
        ordered = self.begin(World.ready({0: 3}))
        ordered.send("x")
        ordered.link.take().store()
        ordered.picked = PartitionName(0, 2)
        sent = ordered.send("y")
        ordered.link.take().store()
        self.assertEqual(self.successResultOf(sent).partition, PartitionName(0, 2))

    def test_selected_once(self) -> None:
        """The selector is called once a message (spec client W28)."""
        ordered = self.begin()
        calls: list[str] = []
        plain = ordered.pick

        def counting(topic: str, partitions: Any, one: Message) -> Any:
            calls.append(topic)
            return plain(topic, partitions, one)

        ordered.ordered._selector = counting
        ordered.send("x")
        ordered.link.take().refuse(403)
        ordered.world.clock.advance(60)
        self.assertEqual(calls, ["t"])


class OrderTest(OrderedCase):
    """Order is kept whatever happens."""

    def test_one_at_a_time(self) -> None:
        """The next put of a partition waits for the answer to the last one."""
        ordered = self.begin()
        for text in "abc":
            ordered.send(text)
        self.assertEqual([put.payload for put in ordered.link.puts], [b"a"])
        ordered.link.take().store()
        self.assertEqual([put.payload for put in ordered.link.puts], [b"b"])

    def test_partitions_apart(self) -> None:
        """Partitions do not wait for each other."""
        ordered = self.begin(World.ready({0: 2}))
        ordered.send("a")
        ordered.picked = PartitionName(0, 1)
        ordered.send("b")
        self.assertEqual(len(ordered.link.puts), 2)

    def test_outage(self) -> None:
        """What is sent during an outage is parked, and arrives in order after it."""
        ordered = self.begin()
        stored = _keep(ordered.link)
        self.successResultOf(ordered.send("0"))
        ordered.link.lose()
        for number in range(1, 30):
            self.assertEqual(self.successResultOf(ordered.send(str(number))), PARKED)
        ordered.link.connect()
        self.assertEqual(stored, [str(number) for number in range(30)])
        self.assertEqual(ordered.ordered.parked, 0)
        self.assertEqual(ordered.ordered.resent, 29)

    def test_refused(self) -> None:
        """A refused message and all behind it are parked under their own partition,
        and resent by and by."""
        ordered = self.begin()
        sent = [ordered.send(text) for text in "abc"]
        ordered.link.take().refuse(403)
        for one in sent:
            self.assertEqual(self.successResultOf(one), PARKED)
        self.assertEqual(set(ordered.store.counts.values()), {3})
        ordered.link.take().refuse(403)
        self.assertEqual(ordered.link.puts, [])
        stored = _keep(ordered.link)
        ordered.world.clock.advance(30)
        self.assertEqual(stored, ["a", "b", "c"])

    def test_failed_for_good(self) -> None:
        """Another failure is the caller's, and the next message goes on."""
        ordered = self.begin()
        bad, good = ordered.send("a"), ordered.send("b")
        ordered.link.take().refuse(500)
        self.failureResultOf(bad, ServerFailed)
        ordered.link.take().store()
        self.successResultOf(good)

    def test_parked_when_failed(self) -> None:
        """By option every failure parks (`saveToLocalWhenFailed`)."""
        for answer in (500, ConnectionLost("lost")):
            ordered = OrderedWorld(new_directory(self) / "p", park_when_failed=True)
            sent = ordered.send("a")
            put = ordered.link.take()
            put.refuse(500) if answer == 500 else put.answered(answer)
            self.assertEqual(self.successResultOf(sent), PARKED)
            ordered.stop()

    def test_unknown_is_not_parked(self) -> None:
        """Without that option an unknown outcome is told, lest it be stored twice."""
        ordered = self.begin()
        sent = ordered.send("a")
        ordered.link.take().answered(ConnectionLost("lost"))
        self.failureResultOf(sent, ConnectionLost)
        self.assertEqual(ordered.ordered.parked, 0)

    def test_waits_for_few(self) -> None:
        """While few parked ones are being resent a new message waits for them, and is
        then sent itself."""
        ordered = self.begin()
        ordered.link.lose()
        for text in "ab":
            ordered.send(text)
        ordered.link.connect()
        sent = ordered.send("c")
        for _ in range(2):
            self.assertNoResult(sent)
            ordered.link.take().store()
        ordered.link.take().store(9)
        self.assertEqual(self.successResultOf(sent), SendResult(7, FIRST, 9))

    def test_waits_not_long(self) -> None:
        """It is parked behind them when that takes too long, and with many at once."""
        for parked, pause_s in ((2, 0.3), (25, 0.0)):
            ordered = OrderedWorld(new_directory(self) / "p")
            ordered.link.lose()
            for _ in range(parked):
                ordered.send("x")
            ordered.link.connect()
            sent = ordered.send("c")
            ordered.world.clock.advance(pause_s)
            ordered.link.take().store()
            self.assertEqual(self.successResultOf(sent), PARKED)
            ordered.stop()

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.sampled_from("ssssdurfw"), min_size=1, max_size=40))
    def test_any_outage(self, script: list[str]) -> None:
        """Through any mix of sends, outages, refusals, pauses and restarts all that was
        stored or parked is stored at last, in the order of sending."""
        path = new_directory(self) / "parked.sqlite3"
        expected: list[str] = []
        stored: list[str] = []
        refusing: list[bool] = []

        def answer(put: Put) -> None:
            if refusing:
                put.refuse(403)
            else:
                stored.append(put.payload.decode())
                put.store()

        ordered = OrderedWorld(path, answer=answer)
        for step in script:
            if step == "s":
                expected.append(str(len(expected)))
                self.successResultOf(ordered.send(expected[-1]))
            elif step == "d" and ordered.link.connected:
                ordered.link.lose()
            elif step == "u" and not ordered.link.connected:
                ordered.link.connect()
            elif step == "f":
                refusing[:] = [] if refusing else [True]
            elif step == "w":
                ordered.world.clock.advance(31)
            elif step == "r":
                ordered.stop()
                ordered = OrderedWorld(path, answer=answer)
        refusing.clear()
        if not ordered.link.connected:
            ordered.link.connect()
        ordered.world.clock.advance(31)
        ordered.stop()
        self.assertEqual(stored, expected)


class EndTest(OrderedCase):
    """Restart and stop."""

    def test_restart(self) -> None:
        """What is parked is there after a restart, and goes before what is new."""
        ordered = self.begin()
        ordered.link.lose()
        for text in "ab":
            self.successResultOf(ordered.send(text))
        ordered.stop()
        again = OrderedWorld(self.path, World())
        self.addCleanup(again.stop)
        self.assertEqual(again.ordered.parked, 2)
        stored = _keep(again.world.link(0))
        again.world.discovery.set("t", {0: 1})
        again.world.link(0).connect()
        again.send("c")
        self.assertEqual(stored, ["a", "b", "c"])

    def test_killed_before_removal(self) -> None:
        """A process that ends between a broker's answer and the removal makes one
        duplicate, of the message that was under way, and no gap."""
        ordered = self.begin()
        ordered.link.lose()
        for text in "abc":
            ordered.send(text)
        stored = _keep(ordered.link)
        removal: Deferred[None] = Deferred()
        ordered.store.remove = lambda *_: removal  # type: ignore[method-assign]
        ordered.link.connect()
        self.assertEqual(stored, ["a"])
        ordered.store._table.close()
        again = self.begin(World())
        after = _keep(again.world.link(0))
        again.world.discovery.set("t", {0: 1})
        again.world.link(0).connect()
        self.assertEqual(after, ["a", "b", "c"])

    def test_stop_parks(self) -> None:
        """Behind parked ones nothing is lost at the stop; resending ends."""
        ordered = self.begin()
        ordered.link.lose()
        for _ in range(3):
            ordered.send("x")
        ordered.link.connect()
        sent = ordered.send("y")
        stopped = ordered.ordered.stop(5)
        ordered.link.take().store()
        self.assertEqual(self.successResultOf(sent), PARKED)
        self.successResultOf(stopped)
        self.assertEqual(len(ordered.link.all_puts), 1)

    def test_stop_deadline(self) -> None:
        """At the deadline what waits ends with ClientStopped, certainly unsent."""
        ordered = self.begin()
        first, second = ordered.send("a"), ordered.send("b")
        stopped = ordered.ordered.stop(2)
        self.failureResultOf(ordered.send("c"), ClientStopped)
        ordered.world.clock.advance(2)
        self.successResultOf(stopped)
        error = self.failureResultOf(first, ClientStopped).value
        self.assertTrue(error.outcome_unknown)
        error = self.failureResultOf(second, ClientStopped).value
        self.assertFalse(error.outcome_unknown)
        self.successResultOf(ordered.ordered.stop())
        self.assertEqual(ordered.world.clock.getDelayedCalls(), [])

    def test_cancelled(self) -> None:
        """One that waits is dropped; one under way goes on unwatched."""
        ordered = self.begin()
        first, second, third = (ordered.send(text) for text in "abc")
        for one in (first, second):
            one.cancel()
            self.failureResultOf(one, CancelledError)
        ordered.link.take().store()
        self.assertEqual(ordered.link.take().payload, b"c")
        self.assertNoResult(third)

    def test_no_store(self) -> None:
        """Without its store it sends nothing: order could not be kept."""
        self.path.write_bytes(b"this is no database, but long enough to be one " * 99)
        ordered = self.begin()
        error = self.failureResultOf(ordered.send("a"), LocalStoreFailed).value
        self.assertIn(str(self.path), str(error))
        self.assertEqual(ordered.link.all_puts, [])

    def test_defect_in_the_store(self) -> None:
        """Whatever a store fails with, all that was to be parked is told, and what
        comes next is parked."""
        ordered = self.begin()
        ordered.link.lose()
        plain = ordered.store.append
        under_way: Deferred[None] = Deferred()
        ordered.store.append = lambda _: under_way  # type: ignore[method-assign]
        sent = [ordered.send(text) for text in "abc"]
        ordered.store.append = plain  # type: ignore[method-assign]
        under_way.errback(ValueError())
        self.failureResultOf(sent[0], LocalStoreFailed)
        for one in sent[1:]:
            self.assertEqual(self.successResultOf(one), PARKED)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_flush(self) -> None:
        """`flush` waits for what was sent before it, be it stored, parked or failed,
        and for a cancelled one that is under way; not for what waits no more."""
        ordered = self.begin()
        self.successResultOf(ordered.ordered.flush())
        ordered.send("a").addErrback(lambda _: None).cancel()
        ordered.send("b").addErrback(lambda _: None).cancel()
        ordered.send("c")
        flushed = ordered.ordered.flush()
        ordered.send("d")
        cancelled = ordered.ordered.flush()
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        for expected in (b"a", b"c"):
            self.assertNoResult(flushed)
            put = ordered.link.take()
            self.assertEqual(put.payload, expected)
            put.store() if expected == b"a" else put.refuse(500)
        self.failureResultOf(ordered.sent[2], ServerFailed)
        self.successResultOf(flushed)
        flushed = ordered.ordered.flush()
        ordered.link.take().refuse(403)
        self.assertEqual(ordered.ordered.parked, 1)
        self.successResultOf(flushed)

    def test_full_store(self) -> None:
        """A full store refuses, and what it has stays in order."""
        ordered = self.begin(limits=StoreLimits(most_messages=2))
        ordered.link.lose()
        for text in "ab":
            self.successResultOf(ordered.send(text))
        self.failureResultOf(ordered.send("c"), LocalStoreFailed)
        stored = _keep(ordered.link)
        ordered.link.connect()
        self.assertEqual(stored, ["a", "b"])


def _keep(link: FakeLink) -> list[str]:
    """Let a link store all puts; their payloads."""
    stored: list[str] = []

    def answer(put: Put) -> None:
        stored.append(put.payload.decode())
        put.store()

    link.answer = answer
    return stored
