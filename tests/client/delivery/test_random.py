"""Random users, random times: nothing is skipped, and progress is never ahead."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.delivery.acks import Acks
from metatwist.client.errors import AckRefused, NotOwner
from metatwist.client.message import ReceivedMessage
from tests.client.delivery.scripted import SIZE, Bench, number_of

COUNT = 12
SEEDS = range(400)
STEPS = ("fire", "fail", "tick", "long", "hold", "unhold", "stop", "abandon", "late")
ANSWERS = ("return", "raise", "later", "later", "ack", "rollback")


class RandomUser:
    """A listener that does what is drawn, over several lives of the delivery.

    `settled` has the numbers that may be passed: done, acknowledged or rejected.
    """

    def __init__(self, random: Random, manual_ack: bool) -> None:
        self.random = random
        self.manual_ack = manual_ack
        self.settled: set[int] = set()
        self.running: list[tuple[int, Deferred[None]]] = []
        self.given_acks: list[tuple[int, Acks]] = []
        self.bench = Bench(COUNT, batch_size=random.randint(1, 5))
        self.is_tame = False
        self.options: dict[str, Any] = {
            "rejection": self._reject,
            "most_deliveries": random.randint(1, 3),
            "listener_timeout_s": random.choice([None, 3]),
            "manual_ack": manual_ack,
        }
        self.bench.deliver(self._listen, **self.options)

    def _reject(self, one: ReceivedMessage, *_: object) -> None:
        if not self.is_tame and self.random.random() < 0.5:
            raise OSError("full")
        self.settled.add(number_of(one))

    def _listen(self, one: ReceivedMessage, acks: Acks | None = None) -> Any:
        number = number_of(one)
        answer = "return"
        if not self.is_tame:
            answer = self.random.choice(ANSWERS)
        if acks is not None:
            self.given_acks.append((number, acks))
            if self.is_tame or answer in ("ack", "rollback"):
                self._use(number, acks, self.is_tame or answer == "ack")
                return None
        if answer == "raise":
            raise ValueError
        if answer == "later":
            self.running.append((number, Deferred()))
            return self.running[-1][1]
        if not self.manual_ack:
            self.settled.add(number)
        return None

    def _use(self, number: int, acks: Acks, is_ack: bool) -> None:
        try:
            if not is_ack:
                acks.rollback()
                return
            before = set(self.settled)
            self.settled.update(range(number + 1))
            if not acks.ack():
                self.settled = before
        except (AckRefused, NotOwner):
            self.settled = before if is_ack else self.settled

    def step(self, step: str) -> None:
        """Let one thing happen."""
        bench = self.bench
        if step in ("fire", "fail") and self.running:
            number, running = self.running.pop(0)
            if running.called:
                return
            if step == "fail":
                running.errback(ValueError())
                return
            if not self.manual_ack:
                self.settled.add(number)
            running.callback(None)
        elif step in ("tick", "long"):
            bench.clock.advance(0.6 if step == "tick" else 30)
        elif step in ("hold", "unhold"):
            getattr(bench.delivery, step)("paused")
        elif step in ("stop", "abandon"):
            self._live_again(step)
        elif step == "late" and self.given_acks:
            number, acks = self.random.choice(self.given_acks[-4:])
            self._use(number, acks, self.random.random() < 0.5)

    def _live_again(self, step: str) -> None:
        """The partition is given up, and is this consumer's or another's again."""
        bench = self.bench
        if step == "abandon":
            bench.delivery.abandon()
        stopped: list[Any] = []
        bench.delivery.stop(2).addCallback(stopped.append)
        bench.clock.advance(2)
        assert stopped, "it did not stop in time"
        assert not bench.feed.in_use
        self.bench.restart(self._listen, **self.options)


class RandomTest(SynchronousTestCase):
    """Both kinds of listeners."""

    def _check(self, user: RandomUser) -> None:
        record = user.bench.progress.record
        assert record is not None
        self.assertEqual(0, record.offset % SIZE)
        self.assertLessEqual(set(range(record.offset // SIZE)), user.settled)

    def _play(self, random: Random, manual_ack: bool) -> None:
        user = RandomUser(random, manual_ack)
        self._check(user)
        for _ in range(random.randint(0, 25)):
            user.step(random.choice(STEPS))
            self._check(user)
        user.is_tame = True
        user.step("stop")
        for _ in range(60):
            user.bench.clock.advance(30)
        self.assertEqual(COUNT, user.bench.done)
        self._check(user)
        self.successResultOf(user.bench.delivery.stop(1))
        self.assertEqual([], user.bench.clock.getDelayedCalls())

    def test_plain(self) -> None:
        """Progress covers only what has ended well or was rejected, at all times; in
        the end everything has, and no timer is left."""
        for seed in SEEDS:
            self._play(Random(seed), False)

    def test_manual(self) -> None:
        """With acks it covers only what was acknowledged or rejected."""
        for seed in SEEDS:
            self._play(Random(seed), True)
