"""Events reach the log, thinned out and without bodies, and the user."""

from __future__ import annotations

from typing import Any, get_args

from twisted.internet.task import Clock
from twisted.logger import LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client import events
from metatwist.client.errors import ListenerFailed
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.client.telling import Telling, sentence
from metatwist.coordination.names import PartitionName

WHERE = TopicPartition("t", PartitionName(0, 1))
MESSAGE = ReceivedMessage("t", PartitionName(0, 1), 46, 92, 7, 0, b"secret")
ERROR = ListenerFailed("no")
EVENTS: tuple[events.Event, ...] = (
    events.Assigned((WHERE,)),
    events.Revoked((WHERE,), lost=True),
    events.OffsetJumped(WHERE, None, 46, "start"),
    events.PartitionStopped(WHERE, ERROR),
    events.FetchFailed(WHERE, ERROR, 1),
    events.DeliveryFailed(MESSAGE, ERROR, 1),
    events.Rejected(MESSAGE, "dropped"),
    events.RejectionFailed(MESSAGE, ERROR, 1),
    events.FilterFailed(MESSAGE, ERROR),
    events.CommitFailed(WHERE, ERROR),
    events.GroupTrouble("two of them"),
)


class TellingTests(SynchronousTestCase):
    """What is told."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.logged: list[Any] = []
        globalLogPublisher.addObserver(self.logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.logged.append)

    def test_every_kind(self) -> None:
        """Each kind of event has a sentence, which holds no body."""
        self.assertEqual({type(one) for one in EVENTS}, set(get_args(events.Event)))
        for event in EVENTS:
            self.assertNotIn("secret", sentence(event))
            self.assertGreater(len(sentence(event)), 8)

    def test_to_the_user(self) -> None:
        """The user gets each event as it is."""
        told: list[events.Event] = []
        telling = Telling("g", told.append)
        for event in EVENTS:
            telling(event)
        self.assertEqual(tuple(told), EVENTS)

    def test_user_raises(self) -> None:
        """An exception of the user's is logged and goes no further."""

        def fail(_event: events.Event) -> None:
            raise ValueError("bug")

        Telling("g", fail)(EVENTS[0])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_thinned(self) -> None:
        """A failure that goes on is warned of less and less often."""
        telling = Telling("g", None)
        for failures in range(1, 101):
            telling(events.FetchFailed(WHERE, ERROR, failures))
        warned = [one for one in self.logged if one["log_level"] is LogLevel.warn]
        self.assertEqual(len(warned), 7)
