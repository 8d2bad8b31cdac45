"""The one-way producer (spec client 7)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import RequestTimedOut
from metatwist.client.message import Message
from metatwist.client.producing.one_way import OneWayProducer, OneWaySettings
from metatwist.client.producing.room import ENVELOPE_BYTES
from tests.client.producing.fakes import Put, World, message, new_directory, store_at

SIZE = ENVELOPE_BYTES + 5


class OneWayTest(SynchronousTestCase):
    """With and without a file to overflow into."""

    def setUp(self) -> None:
        self.path = new_directory(self) / "overflow.sqlite3"
        self.world = World.ready({0: 1}, retries=0)

    def begin(self, stored: bool = True, **settings: Any) -> OneWayProducer:
        store = store_at(self.path) if stored else None
        world = self.world
        made = OneWayProducer(
            OneWaySettings(world.producer.settings, **settings),
            world.context,
            store=store,
        )
        made.startService()
        world.clock.advance(0)
        self.addCleanup(self.stop, made)
        return made

    def stop(self, producer: OneWayProducer) -> None:
        stopped = producer.stopService()
        self.world.clock.advance(20)
        self.successResultOf(stopped)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def keep(self) -> list[bytes]:
        stored: list[bytes] = []

        def answer(put: Put) -> None:
            stored.append(put.payload)
            put.store()

        self.world.link(0).answer = answer
        return stored

    def test_sent(self) -> None:
        """With room in the window it is sent at once."""
        producer = self.begin()
        producer.send(message())
        self.world.link(0).take().store()
        self.assertEqual(producer.counters.stored, 1)

    def test_window(self) -> None:
        """What does not fit overflows into the file, and is sent in the next round."""
        producer = self.begin(window_bytes=2 * SIZE, resend_period_s=60)
        for number in range(5):
            producer.send(message(b"%05d" % number))
        self.assertEqual(len(self.world.link(0).puts), 2)
        self.assertEqual(producer.counters.overflowed, 3)
        for _ in range(2):
            self.world.link(0).take().store()
        stored = self.keep()
        self.world.clock.advance(60)
        self.assertEqual(stored, [b"00002", b"00003", b"00004"])
        self.assertEqual(producer.counters.resent, 3)

    def test_refused(self) -> None:
        """A refused message is not lost, of whatever kind the refusal (W24)."""
        producer = self.begin(resend_period_s=60)
        for code in (403, 500, 503):
            producer.send(message())
            self.world.link(0).take().refuse(code)
        self.assertEqual(producer.counters.overflowed, 3)
        stored = self.keep()
        self.world.clock.advance(60)
        self.assertEqual(len(stored), 3)

    def test_no_broker(self) -> None:
        """Nor is one that finds no broker in its time."""
        self.world.link(0).lose()
        producer = self.begin()
        producer.send(message())
        self.world.clock.advance(10)
        self.assertEqual(producer.counters.overflowed, 1)

    def test_round_fails(self) -> None:
        """A round that fails keeps what was not stored for the next."""
        producer = self.begin(resend_period_s=60)
        for number in range(3):
            producer.send(message(b"%d" % number))
        for _ in range(3):
            self.world.link(0).take().refuse(403)
        self.world.clock.advance(60)
        self.world.link(0).take().store()
        for _ in range(2):
            self.world.link(0).take().refuse(403)
        self.assertEqual(self.world.link(0).puts, [])
        stored = self.keep()
        self.world.clock.advance(60)
        self.assertEqual(stored, [b"1", b"2"])

    def test_one_bad_message(self) -> None:
        """One that is refused each time does not hold up those behind it."""
        producer = self.begin(window_bytes=1, resend_period_s=60)
        for number in range(250):
            producer.send(message(b"%d" % number))
        stored: list[bytes] = []

        def answer(put: Put) -> None:
            if put.payload == b"7":
                put.refuse(500)
            else:
                stored.append(put.payload)
                put.store()

        self.world.link(0).answer = answer
        self.world.clock.advance(60)
        self.assertEqual(len(stored), 248)
        self.assertEqual(producer.counters.resent, 248)
        self.world.link(0).take().store()

    def test_restart(self) -> None:
        """What overflowed is sent by the next process, with its attribute and to the
        place of its key."""
        producer = self.begin(window_bytes=1)
        producer.send(message())
        producer.send(Message("other", b"body", "attribute", "key"))
        self.stop(producer)
        self.world = World.ready({0: 1})
        self.world.discovery.set("other", {0: 1})
        stored = self.keep()
        self.begin()
        self.assertEqual(stored[-1], b"\0\0\0\x09attributebody")

    def test_unknown(self) -> None:
        """An unknown outcome is dropped and counted, unless duplicates are allowed."""
        for may_duplicate in (False, True):
            self.path = new_directory(self) / "overflow.sqlite3"
            self.world = World.ready({0: 1}, retries=0, may_duplicate=may_duplicate)
            producer = self.begin()
            producer.send(message())
            self.world.link(0).take().answered(RequestTimedOut("late"))
            counted = (producer.counters.dropped, producer.counters.overflowed)
            self.assertEqual(counted, (0, 1) if may_duplicate else (1, 0))

    def _park(self, *bodies: bytes) -> None:
        """What an earlier process has left in the file."""
        producer = self.begin(window_bytes=1)
        producer.send(message())
        for body in bodies:
            producer.send(message(body))
        self.world.link(0).take().store()
        self.stop(producer)

    def test_unknown_when_resent(self) -> None:
        """The same rule is for what is resent: it is never stored twice without being
        allowed to."""
        for may_duplicate in (False, True):
            self.path = new_directory(self) / "overflow.sqlite3"
            self.world = World.ready({0: 1}, retries=0, may_duplicate=may_duplicate)
            self._park(b"kept")
            producer = self.begin(resend_period_s=60)
            self.world.link(0).take().answered(RequestTimedOut("late"))
            stored = self.keep()
            self.world.clock.advance(60)
            self.assertEqual(stored, [b"kept"] if may_duplicate else [])
            self.assertEqual(producer.counters.dropped, int(not may_duplicate))

    def test_no_answers(self) -> None:
        """A broker that does not answer costs what was sent to it, not all that is in
        the file."""
        self._park(*(b"%d" % number for number in range(150)))
        producer = self.begin(resend_period_s=60)
        for put in [self.world.link(0).take() for _ in range(100)]:
            put.answered(RequestTimedOut("late"))
        self.assertEqual(self.world.link(0).puts, [])
        self.assertEqual(producer.counters.dropped, 100)
        stored = self.keep()
        self.world.clock.advance(60)
        self.assertEqual(len(stored), 50)

    def test_hopeless(self) -> None:
        """What the broker finds malformed is dropped, also when it is resent."""
        self._park(b"kept")
        producer = self.begin(resend_period_s=60)
        self.world.link(0).take().refuse(400)
        producer.send(message())
        self.world.link(0).take().refuse(400)
        self.world.clock.advance(60)
        self.assertEqual(self.world.link(0).puts, [])
        self.assertEqual(producer.counters.dropped, 2)
        self.assertEqual(producer.counters.overflowed, 0)

    def test_bad_key(self) -> None:
        """A key that the file cannot take is dropped alone."""
        producer = self.begin(window_bytes=1)
        for key in (None, "key", "\ud800", object(), b"key"):
            producer.send(message(key=key))
        counted = (producer.counters.dropped, producer.counters.overflowed)
        self.assertEqual(counted, (2, 2))

    def test_defect_in_the_file(self) -> None:
        """Whatever the file fails with, what was to be written is counted."""
        producer = self.begin(window_bytes=1)
        assert producer._store is not None
        failed = fail(ValueError())
        producer._store.append = lambda _: failed  # type: ignore[method-assign]
        for _ in range(2):
            producer.send(message())
        self.assertEqual(producer.counters.dropped, 1)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_flush(self) -> None:
        """`flush` waits until all is answered, and what overflowed is in the file."""
        producer = self.begin(window_bytes=SIZE)
        assert producer._store is not None
        plain = producer._store.append
        writing: Deferred[None] = Deferred()
        producer._store.append = lambda _: writing  # type: ignore[method-assign]
        for _ in range(3):
            producer.send(message())
        flushed, cancelled = producer.flush(), producer.flush()
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.world.link(0).take().store()
        self.assertNoResult(flushed)
        producer._store.append = plain  # type: ignore[method-assign]
        writing.callback(None)
        self.successResultOf(flushed)
        self.assertEqual(producer.counters.overflowed, 2)
        self.successResultOf(producer.flush())

    def test_stopped_twice(self) -> None:
        """Every `stop` fires when the file is closed, and may be cancelled."""
        producer = self.begin()
        assert producer._store is not None
        plain, closing = producer._store.close, Deferred()
        producer._store.close = lambda: closing  # type: ignore[method-assign]
        stops = [producer.stop() for _ in range(3)]
        cancelled = stops.pop()
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        for stopped in stops:
            self.assertNoResult(stopped)
        plain().chainDeferred(closing)
        for stopped in stops:
            self.successResultOf(stopped)
        self.successResultOf(producer.stop())

    def test_stop_sooner(self) -> None:
        """A second stop may have less patience."""
        producer = self.begin()
        producer.send(message())
        stops = [producer.stop(100), producer.stop(1)]
        self.world.clock.advance(1)
        for stopped in stops:
            self.successResultOf(stopped)

    def test_without_file(self) -> None:
        """Without a file what does not fit is dropped and counted."""
        producer = self.begin(stored=False, window_bytes=1)
        producer.send(message())
        producer.send(message())
        self.world.link(0).take().refuse(403)
        self.assertEqual(producer.counters.dropped, 2)

    def test_never_raises(self) -> None:
        """Invalid messages, bad topics and a stopped producer disturb nobody, and do
        not reach the file."""
        producer = self.begin()
        producer.send(message(None))  # type: ignore[arg-type]
        producer.send(Message("a b", b""))
        self.stop(producer)
        producer.send(message())
        self.assertEqual(producer.counters.dropped, 3)
        self.assertEqual(producer.counters.overflowed, 0)

    def test_stop_keeps(self) -> None:
        """What was certainly not sent before the stop's deadline is in the file."""
        self.world.link(0).lose()
        producer = self.begin()
        producer.send(message(b"kept"))
        stopped = producer.stop(1)
        self.world.clock.advance(1)
        self.successResultOf(stopped)
        self.world = World.ready({0: 1})
        stored = self.keep()
        self.begin()
        self.assertEqual(stored, [b"kept"])

    def test_broken_file(self) -> None:
        """A file that cannot be opened is logged, and sending goes on without."""
        self.path.write_bytes(b"this is no database, but long enough to be one " * 99)
        producer = self.begin()
        producer.send(message())
        self.world.link(0).take().refuse(403)
        self.assertEqual(producer.counters.dropped, 1)
        self.assertEqual(len(self.flushLoggedErrors()), 1)
