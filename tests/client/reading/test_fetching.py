"""One fetch, the range of a log, and where reading starts."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import (
    BadRequest,
    ClientError,
    ConnectionLost,
    Forbidden,
    NothingThere,
    OffsetOutOfRange,
    ServerFailed,
    ServerUnavailable,
    UnexpectedReply,
)
from metatwist.client.reading.fetching import (
    Fetch,
    Found,
    Moved,
    Nothing,
    fetch_once,
)
from metatwist.client.reading.starting import (
    KeptRange,
    back_in_range,
    range_of,
    resolve_start,
)
from metatwist.client.settings import Start
from metatwist.wire.commands import GetCommand, OffsetCommand, PollCommand
from tests.client.reading.fakes import (
    END,
    FakeLink,
    LogBroker,
    log_of,
    partition,
    payloads,
    result,
    value,
)

FETCH = Fetch(partition(3), "group", 100, 500, 1000, timeout_s=7)


class FetchOnceTests(SynchronousTestCase):
    """What is asked, and what each answer means."""

    def setUp(self) -> None:
        self.link = FakeLink()

    def ask(self, reply: object):
        fetched = fetch_once(self.link, FETCH)
        self.link.answer(reply)
        return fetched

    def test_get(self) -> None:
        """Without a wait it is a get, limited by the time for one fetch."""
        fetch_once(self.link, FETCH)
        command = GetCommand("orders", "group", 3, 100, 500, 0)
        self.assertEqual(self.link.commands, [command])
        self.assertEqual(self.link.timeouts, [7])

    def test_poll(self) -> None:
        """With a wait it is a poll, and the answer may take that much longer."""
        fetch_once(self.link, Fetch(partition(3), "group", 100, 500, 1000, 7, 20))
        command = PollCommand("orders", "group", 3, 100, 500, 20000, 0)
        self.assertEqual(self.link.commands, [command])
        self.assertEqual(self.link.timeouts, [27])

    def test_data(self) -> None:
        """A value is read as records from the offset on."""
        found = self.successResultOf(self.ask(value(log_of(b"a", b"b"))))
        self.assertIsInstance(found, Found)
        self.assertEqual(payloads(found.run.messages), [b"a", b"b"])
        self.assertEqual(found.run.next_offset, 142)

    def test_moved(self) -> None:
        """301 with a number says where to read on."""
        self.assertEqual(self.successResultOf(self.ask(result(301, "77"))), Moved(77))

    def test_nothing(self) -> None:
        """404 and 403 are nothing, for now, and say where."""
        for code, kind in ((404, NothingThere), (403, Forbidden)):
            nothing = self.successResultOf(self.ask(result(code, "words")))
            self.assertIsInstance(nothing, Nothing)
            self.assertIsInstance(nothing.refusal, kind)
            self.assertEqual(nothing.refusal.offset, 100)
            self.assertEqual(nothing.refusal.partition, partition(3).partition)

    def test_failures(self) -> None:
        """Other answers are errors of the one tree."""
        kinds = {400: BadRequest, 500: ServerFailed, 503: ServerUnavailable}
        for code, kind in kinds.items():
            self.failureResultOf(self.ask(result(code, "words")), kind)
        for body in ("", "soon", "-5", "9" * 20):
            self.failureResultOf(self.ask(result(301, body)), UnexpectedReply)

    def test_no_answer(self) -> None:
        """A lost connection is passed on."""
        fetched = fetch_once(self.link, FETCH)
        self.link.lose()
        self.failureResultOf(fetched, ConnectionLost)

    def test_cancelled(self) -> None:
        """Cancelling forgets the request."""
        fetched = fetch_once(self.link, FETCH)
        fetched.cancel()
        self.failureResultOf(fetched, CancelledError)
        self.assertEqual(self.link.cancelled, 1)


class RangeTests(SynchronousTestCase):
    """What is kept."""

    def setUp(self) -> None:
        self.link = FakeLink()
        self.broker = self.link.auto = LogBroker(log_of(b"a", b"b"), 1000)

    def test_range(self) -> None:
        """It is asked for by offset commands below and above everything."""
        kept = self.successResultOf(range_of(self.link, partition(3)))
        self.assertEqual(kept, KeptRange(1000, 1042))
        asked = [OffsetCommand("orders", "metatwist", 3, at, 0) for at in (0, END)]
        self.assertEqual(self.link.commands, asked)

    def test_no_log(self) -> None:
        """Where nothing was ever stored both ends are 0 (W17)."""
        self.broker.exists = False
        kept = self.successResultOf(range_of(self.link, partition()))
        self.assertEqual(kept, KeptRange(0, 0))

    def test_failures(self) -> None:
        """Other answers are errors."""
        for reply in (result(500, "disk"), result(200, "x"), value(b"data")):
            self.link.auto = lambda _command, reply=reply: reply
            self.failureResultOf(range_of(self.link, partition()), ClientError)

    def test_cancelled(self) -> None:
        """Cancelling forgets the request."""
        self.link.auto = None
        asked = range_of(self.link, partition())
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.assertEqual(self.link.cancelled, 1)

    def test_starts(self) -> None:
        """Each policy finds its offset; an exact one asks nobody."""
        starts = {Start.EARLIEST: 1000, Start.LATEST: 1042, 5: 5}
        for start, offset in starts.items():
            found = resolve_start(self.link, partition(), start)
            self.assertEqual(self.successResultOf(found), offset)
        self.assertEqual(len(self.link.commands), 4)

    def test_latest_of_no_log(self) -> None:
        """LATEST where nothing was ever stored is 0: the first message comes (W17)."""
        self.broker.exists = False
        found = resolve_start(self.link, partition(), Start.LATEST)
        self.assertEqual(self.successResultOf(found), 0)

    def test_error(self) -> None:
        """ERROR fails, and says what is kept."""
        found = resolve_start(self.link, partition(), Start.ERROR)
        error = self.failureResultOf(found, OffsetOutOfRange).value
        self.assertEqual((error.earliest, error.latest), (1000, 1042))

    def test_back_in_range(self) -> None:
        """Each policy goes to its end of what is kept; ERROR raises."""
        kept = KeptRange(10, 90)
        ends = {Start.EARLIEST: (10, 10), Start.LATEST: (90, 90)}
        ends[Start.NEAREST] = (10, 90)
        for policy, expected in ends.items():
            found = [back_in_range(policy, partition(), at, kept) for at in (5, 99)]
            self.assertEqual(tuple(found), expected)
        with self.assertRaises(OffsetOutOfRange) as caught:
            back_in_range(Start.ERROR, partition(), 99, kept)
        self.assertEqual(caught.exception.offset, 99)
        self.assertEqual(caught.exception.latest, 90)
