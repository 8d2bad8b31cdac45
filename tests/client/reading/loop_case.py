"""A feed that fetches from one broker."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.settings import Backoff, FetchSettings
from metatwist.wire.commands import OffsetCommand
from tests.client.reading.fakes import (
    LogBroker,
    World,
    payloads,
    result,
)

SETTINGS = FetchSettings(
    size_bytes=64,
    most_message_bytes=5000,
    prefetch_bytes=10_000,
    timeout_s=3,
    poll_wait_s=20,
    idle=Backoff(1, 8),
    failure=Backoff(2, 10),
)


class LoopCase(SynchronousTestCase):
    """A feed and one broker; `self.broker` answers once `serve` was called."""

    def begin(self, stored: int | None = 0, **policies: object) -> None:
        self.world = World(SETTINGS, **policies)
        self.clock, self.link = self.world.clock, self.world.link
        self.feed = self.world.feed(stored)

    def serve(self, broker: LogBroker, **policies: object) -> None:
        self.begin(policies.pop("stored", 0), **policies)
        self.broker = self.link.auto = broker
        for asked in list(self.link.waiting):
            self.link.waiting.remove(asked)
            asked.callback(broker(self.link.commands[-1]))

    def drain(self) -> list[bytes]:
        """All that comes now."""
        found: list[bytes] = []
        while True:
            waiting = self.feed.next()
            if not waiting.called:
                waiting.addErrback(lambda _cancelled: None)
                waiting.cancel()
                return found
            batch = self.successResultOf(waiting)
            found += payloads(batch.messages)
            self.feed.done(batch)

    def pauses(self, count: int, *replies: object) -> list[float]:
        """The seconds between `count` gets; each is answered with the next of
        `replies`, the last of them for ever."""
        found = []
        answers = list(replies)
        for _ in range(count):
            asked = len(self.link.gets)
            self.link.answer(answers.pop(0) if len(answers) > 1 else answers[0])
            while self.link.waiting and isinstance(
                self.link.commands[-1], OffsetCommand
            ):
                self.link.answer(result(200, "0"))
            passed = 0.0
            while len(self.link.gets) == asked:
                self.clock.advance(0.25)
                passed += 0.25
            found.append(passed)
        return found
