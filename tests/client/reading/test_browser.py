"""All messages of a topic."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import (
    ClientStopped,
    Forbidden,
    MessageTooLarge,
    ServerFailed,
    UnexpectedReply,
)
from metatwist.client.message import ReceivedMessage
from metatwist.client.reading.browser import (
    BrowseLimits,
    BrowserContext,
    TopicBrowser,
)
from metatwist.client.settings import FetchSettings
from metatwist.coordination.names import PartitionName
from metatwist.wire.commands import Reply
from metatwist.wire.records import encode
from tests.client.reading.fakes import (
    LogBroker,
    World,
    log_of,
    payloads,
    result,
)

FIRST, SECOND, TENTH = (PartitionName(0, at) for at in (0, 2, 10))
SETTINGS = FetchSettings(size_bytes=64, most_message_bytes=5000)


class BrowserTests(SynchronousTestCase):
    """What comes, in which order, and how it ends."""

    def setUp(self) -> None:
        self.world = World()
        self.world.discovery.names = (TENTH, SECOND, FIRST)
        self.logs = {
            0: LogBroker(log_of(b"a0", b"a1", b"a2")),
            2: LogBroker(),
            10: LogBroker(log_of(b"c0", b"c1"), 1000),
        }
        self.world.link.auto = self.reply
        self.jumps: list = []

    def reply(self, command: object) -> Reply:
        return self.logs[command.partition](command)

    def browser(self, limits: BrowseLimits | None = None) -> TopicBrowser:
        world = self.world
        context = BrowserContext(
            world.clock, world.brokers, world.discovery, SETTINGS, self.jumps.append
        )
        return TopicBrowser("orders", context, limits)

    def begin(self, browser: TopicBrowser) -> Deferred[list[ReceivedMessage]]:
        async def every() -> list[ReceivedMessage]:
            return [message async for message in browser]

        return Deferred.fromCoroutine(every())

    def all_of(self, browser: TopicBrowser) -> list[ReceivedMessage]:
        return self.successResultOf(self.begin(browser))

    def test_all(self) -> None:
        """All messages come, partitions by number, also of a log that begins late; and
        they say their partition."""
        found = self.all_of(self.browser())
        self.assertEqual(payloads(found), [b"a0", b"a1", b"a2", b"c0", b"c1"])
        self.assertEqual([one.partition for one in found], [FIRST] * 3 + [TENTH] * 2)
        self.assertEqual(found[3].offset, 1000)
        self.assertEqual(self.jumps, [])
        self.assertEqual(self.world.link.owners, set())

    def test_partitions(self) -> None:
        """They are known once it is open, ascending."""
        browser = self.browser()
        self.assertEqual(browser.partitions, ())
        self.successResultOf(Deferred.fromCoroutine(browser.open()))
        self.assertEqual(browser.partitions, (FIRST, SECOND, TENTH))

    def test_snapshot(self) -> None:
        """What is written while it reads does not keep it from ending."""
        browser = self.browser()
        self.successResultOf(Deferred.fromCoroutine(browser.open()))
        for log in self.logs.values():
            log.data += log_of(b"new")
        found = payloads(self.all_of(browser))
        self.assertEqual(found, [b"a0", b"a1", b"a2", b"c0", b"c1"])

    def test_limits(self) -> None:
        """Partitions, begins and ends can be chosen."""
        chosen = BrowseLimits((FIRST,), {FIRST: 22}, {FIRST: 44})
        self.assertEqual(payloads(self.all_of(self.browser(chosen))), [b"a1"])
        beyond = BrowseLimits(None, {FIRST: 99999}, {TENTH: 1001})
        self.assertEqual(payloads(self.all_of(self.browser(beyond))), [b"c0"])

    def test_begin_below(self) -> None:
        """A begin that is kept no more leads to the first kept message, told."""
        found = self.all_of(self.browser(BrowseLimits((TENTH,), {TENTH: 3})))
        self.assertEqual(payloads(found), [b"c0", b"c1"])
        (jump,) = self.jumps
        self.assertEqual((jump.from_offset, jump.to_offset), (3, 1000))

    def test_oversized(self) -> None:
        """A message over the fetch size comes, and those behind it (W30)."""
        bodies = [b"x" * 900, b"y", b"z" * 70]
        self.logs[0].data = log_of(*bodies)
        found = self.all_of(self.browser(BrowseLimits((FIRST,))))
        self.assertEqual(payloads(found), bodies)

    def test_damaged(self) -> None:
        """A corrupt record is passed over and told."""
        bad = encode(2, 0, b"bad")[:-1] + b"?"
        self.logs[0].data = log_of(b"a") + bad + log_of(b"b")
        reading = self.begin(self.browser(BrowseLimits((FIRST,))))
        self.world.clock.advance(1)
        self.assertEqual(payloads(self.successResultOf(reading)), [b"a", b"b"])
        self.assertEqual([jump.reason for jump in self.jumps], ["corrupt"])

    def test_too_large(self) -> None:
        """A message that no fetch can bring is an error that says where."""
        self.logs[0].data = encode(1, 0, bytes(5001))
        browser = self.browser(BrowseLimits((FIRST,)))
        error = self.failureResultOf(self.begin(browser), MessageTooLarge).value
        self.assertEqual((error.partition, error.offset), (FIRST, 0))

    def test_torn_end(self) -> None:
        """A log that ends within a record is an error, in bounded time."""
        self.logs[0].data = log_of(b"a") + bytes(5)
        reading = self.begin(self.browser(BrowseLimits((FIRST,))))
        self.world.clock.pump([1.0] * 20)
        self.failureResultOf(reading, UnexpectedReply)

    def test_log_became_shorter(self) -> None:
        """An end that is there no more is the end, told."""
        browser = self.browser(BrowseLimits((FIRST,)))
        self.successResultOf(Deferred.fromCoroutine(browser.open()))
        self.logs[0].data = log_of(b"a0")
        self.assertEqual(payloads(self.all_of(browser)), [b"a0"])
        self.assertEqual([jump.reason for jump in self.jumps], ["beyond the end"])

    def test_goes_on_after_an_error(self) -> None:
        """An error leaves it where it was: the next call goes on."""
        browser = self.browser()
        first = Deferred.fromCoroutine(browser.more())
        self.assertEqual(len(self.successResultOf(first)), 2)
        self.world.link.auto = lambda _command: result(500, "disk")
        error = self.failureResultOf(
            Deferred.fromCoroutine(browser.more()), ServerFailed
        ).value
        self.assertEqual(error.offset, 44)
        self.world.link.auto = self.reply
        self.assertEqual(payloads(self.all_of(browser)), [b"a2", b"c0", b"c1"])

    def test_closed_partition(self) -> None:
        """A partition that an operator has closed is an error."""
        self.logs[0].closed = True
        self.failureResultOf(self.begin(self.browser()), Forbidden)

    def test_open_fails_and_works_later(self) -> None:
        """A broker that cannot say its range fails the call, not the browser."""
        browser = self.browser()
        self.world.link.auto = lambda _command: result(503, "busy")
        reading = self.begin(browser)
        self.assertEqual(self.failureResultOf(reading).value.partition, FIRST)
        self.world.link.auto = self.reply
        self.assertEqual(len(self.all_of(browser)), 5)

    def test_close(self) -> None:
        """Closing fails the call under way, lets go of links, and is the end."""
        self.world.link.auto = None
        browser = self.browser()
        reading = self.begin(browser)
        browser.close()
        self.failureResultOf(reading, ClientStopped)
        self.assertEqual(self.world.link.owners, set())
        self.assertEqual(self.all_of(browser), [])

    def test_context_manager(self) -> None:
        """`async with` closes it."""

        async def first() -> ReceivedMessage:
            async with self.browser() as browser:
                return await browser.__anext__()

        found = self.successResultOf(Deferred.fromCoroutine(first()))
        self.assertEqual(found.payload, b"a0")
        self.assertEqual(self.world.link.owners, set())
